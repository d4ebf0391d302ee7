"""Does common noise raise the energy on average, whatever the tokens?"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from metastable.core.figure import Axis, Lines, Series
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.random_depth import energy_drift

ENTRY = Entry(
    title="Does common noise raise the energy on average, whatever the tokens?",
    places=["arXiv:2604.26898, abstract (energy dissipated on average under coercive noise)"],
    claim=(
        "Numerically yes for three tokens and more in d = 3 and above: under random values alone "
        "no configuration was found whose mean energy falls; on the circle there are many."
    ),
    method=(
        "The exact mean change of the energy over its gap to the largest value, minimised by "
        "descent from random starts and from near opposite groups; the circle as a control."
    ),
    subject="random depth",
    basis="derived",
    limits=(
        "Not proved for more than two tokens. Up to 8 tokens, d ≤ 6 and β ≤ 8, equal weights, "
        "Q = K = I; descent may miss a narrow valley. The limit is for random configurations."
    ),
    planted="energy_drift.dim = 2",
    settings={"dims": [3, 4, 6], "tokens": [3, 4, 6, 8], "betas": [0.1, 0.5, 1.0, 2.0, 4.0, 8.0],
              "starts": 8, "draws": 20000},
    fast={"dims": [3], "tokens": [3, 4], "betas": [0.5, 2.0, 8.0], "starts": 2, "draws": 1000},
)  # fmt: skip


def energy_on_average(
    *, dims: list[int], tokens: list[int], betas: list[float], starts: int, draws: int
) -> Finding:
    """The smallest mean growth that a search finds, and how rare a falling one can be."""
    rng, rows, lowest = np.random.default_rng(3), [], {}
    for dim in dims:
        for n in tokens:
            for beta in betas:
                found = [
                    minimize(_growth, start, (n, dim, beta), "L-BFGS-B", options={"maxiter": 60})
                    for start in _starts(rng, n, dim, starts)
                ]
                lowest[dim, n, beta] = min(float(one.fun) for one in found)
    least = min(lowest.values())
    rows.append(
        holds(f"no falling mean energy in {len(lowest) * 2 * starts} descents", "answer: yes",
              least > -1e-9, "never below 0", least)
    )  # fmt: skip
    # Near one cluster the growth over the gap is d − 3: −1 on the circle.
    close = np.eye(2)[0] + 0.05 * rng.standard_normal((3, 2))
    circle = float(minimize(_growth, close.ravel(), (3, 2, 1.0), "L-BFGS-B").fun)
    rows.append(
        holds("the same search finds one on the circle", "control", circle < -0.1, "below 0",
              circle)
    )  # fmt: skip
    falls = 0
    for _ in range(draws):
        dim, n = (values[rng.integers(len(values))] for values in (dims, tokens))
        beta = betas[rng.integers(len(betas))]
        falls += _growth(rng.standard_normal(n * dim), n, dim, beta) < -1e-12
    # No hit in k draws: the share is below 3/k at 95 %.
    rows.append(
        holds(f"random configurations whose mean energy falls, of {draws}", "answer: yes",
              falls == 0, "0", f"{falls}, so below {3 / draws:.2g} at 95 %")
    )  # fmt: skip
    series = [
        Series(f"d = {dim}, n = {n}", betas, [max(lowest[dim, n, b], 1e-10) for b in betas],
               style="both", group=k)
        for k, dim in enumerate(dims) for n in tokens
    ]  # fmt: skip
    axes = (
        Axis("β", scale="log"),
        Axis("smallest growth over the gap found (0 shown as 10⁻¹⁰)", scale="log"),
    )
    return Finding(rows, {"growth": Lines(*axes, series)})


def _starts(rng: np.random.Generator, n: int, dim: int, count: int) -> list[np.ndarray]:
    """As many random configurations, and ones near two opposite groups."""
    found = [rng.standard_normal(n * dim) for _ in range(count)]
    for k in range(count):
        signs = np.where(np.arange(n) < 1 + k % n, 1.0, -1.0)
        found.append(
            (signs[:, None] * np.eye(dim)[0] + 0.1 * rng.standard_normal((n, dim))).ravel()
        )
    return found


def _growth(flat: np.ndarray, n: int, dim: int, beta: float) -> float:
    """Mean change of the energy in a unit of time over what it lacks to the largest."""
    x = flat.reshape(n, dim)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    gram = x @ x.T
    np.fill_diagonal(gram, 1.0)
    gap = (np.exp(beta) - np.exp(beta * gram).mean()) / (2 * beta)
    return energy_drift(gram, beta, dim) / max(gap, 1e-12)
