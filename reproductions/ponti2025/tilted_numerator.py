"""The numerator of attention on a Gaussian."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.report.figures.plain import plot_bars
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

from ._quadrature import hermite_rule

ENTRY = Entry(
    title="The numerator of attention on a Gaussian",
    places=["section 3.2, general case"],
    claim=(
        "The numerator of attention on N(m, Σ) is m + ΣKᵀQx/√d_k times an exponential whose "
        "quadratic term has the factor 1/√d_k."
    ),
    method=(
        "The integral by tensor quadrature at random places, against the printed exponent and "
        "the one of the denominator."
    ),
    known="disagree",
    correction=(
        "The factor is 1/(2d_k), as in the denominator; only so does the exponential cancel, "
        "and the map is affine."
    ),
    subject="Gaussian",
    basis="text",
    limits="One Gaussian in d = 3 with d_k = 5, by quadrature of order 24.",
    planted="hermite_rule * 1.01",
    settings={"dim": 3, "keys": 5, "order": 24, "seed": 0},
)


def tilted_numerator(*, dim: int, keys: int, order: int, seed: int) -> Finding:
    """∫ y e^{⟨Qx, Ky⟩/√d_k} dμ(y) for a Gaussian, against the two exponents."""
    random = np.random.default_rng(seed)
    query, key = random.normal(size=(2, keys, dim)) / math.sqrt(dim)
    mean = random.normal(size=dim)
    root = random.normal(size=(dim, dim)) / math.sqrt(dim)
    cov = root @ root.T
    nodes, w = hermite_rule(0.0, 1.0, order)
    grid = np.stack(np.meshgrid(*[nodes] * dim, indexing="ij"), -1).reshape(-1, dim)
    masses = np.prod(np.stack(np.meshgrid(*[w] * dim, indexing="ij"), -1), axis=-1).ravel()
    y = mean + grid @ root.T
    off: dict[str, list[float]] = {"as printed": [], "with 1/(2d_k)": [], "ratio m + ΣAx": []}
    places = random.normal(size=(6, dim))
    for x in places:
        a = key.T @ query @ x / math.sqrt(keys)  # Ax
        weights = masses * np.exp(y @ a)
        numerator, denominator = weights @ y, weights.sum()
        quadratic = x @ query.T @ key @ cov @ key.T @ query @ x
        tilted, linear = mean + cov @ a, x @ query.T @ key @ mean / math.sqrt(keys)
        for name, exponent in {
            "as printed": quadratic / math.sqrt(keys),
            "with 1/(2d_k)": quadratic / (2 * keys),
        }.items():
            guess = tilted * math.exp(linear + exponent)
            off[name].append(float(np.linalg.norm(guess - numerator) / np.linalg.norm(numerator)))
        ratio = numerator / denominator
        off["ratio m + ΣAx"].append(float(np.linalg.norm(ratio - tilted) / np.linalg.norm(tilted)))
    rows = [
        judge("numerator with the exponent as printed, 1/√d_k: largest relative error",
              "section 3.2, numerator", 0.0, max(off["as printed"]), absolute=1e-8),
        judge("the same with 1/(2d_k), as in the denominator", "Definition A.3", 0.0,
              max(off["with 1/(2d_k)"]), absolute=1e-8),
        judge("the quotient is m + ΣKᵀQx/√d_k", "section 3.2", 0.0, max(off["ratio m + ΣAx"]),
              absolute=1e-8),
    ]  # fmt: skip
    figure = plot_bars(
        [str(k + 1) for k in range(len(places))],
        {name: np.maximum(each, 1e-17).tolist() for name, each in off.items()},
        "place x", Axis("relative error", scale="log", limits=(1e-17, 1e6)),
        f"Numerator of attention on a Gaussian, d = {dim}, d_k = {keys}, by quadrature.",
    )  # fmt: skip
    return Finding(rows, {"errors": figure})
