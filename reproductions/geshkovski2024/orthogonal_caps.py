"""How close caps around orthogonal centres come."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize

from metastable.core.verdict import judge
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.metastability import cross_alignment, separation_margin

ENTRY = Entry(
    title="How close caps around orthogonal centres come",
    places=["Section 4, proof of the corollary on uniform points in high dimension"],
    claim=(
        "Points of caps of height 2ε around two orthogonal centres have an inner product of at "
        "most ε² + 2ε."
    ),
    method="Largest inner product by numerical search over pairs of points, for several ε and d.",
    known="disagree",
    correction=(
        "A cap of height 2ε has the radius arccos(1 − 2ε) ≈ 2√ε, so that the largest inner product "
        "is 4(1 − 2ε)√(ε(1 − ε)) ≈ 4√ε. Uniform points are still separated for large β, from a "
        "larger β on."
    ),
    subject="metastability",
    basis="report",
    limits="A proof step of version 1 as transcribed; the probability of the corollary is not run.",
    planted="cross_alignment.epsilon * 1.05",
    settings={"epsilons": [1e-4, 1e-3, 4e-3, 1e-2, 2e-2], "dims": [2, 3, 8], "tokens": 10},
    fast={"epsilons": [1e-4, 4e-3, 2e-2], "dims": [2, 3]},
)


def orthogonal_caps(*, epsilons: list[float], dims: list[int], tokens: int) -> Finding:
    """The search knows nothing but the caps; both formulas stand beside it."""
    rows, found = [], {}
    for dim in dims:
        found[dim] = [_closest(epsilon, dim) for epsilon in epsilons]
        exact = [4 * (1 - 2 * e) * math.sqrt(e * (1 - e)) for e in epsilons]
        worst = float(np.max(np.abs(np.array(found[dim]) - exact)))
        rows.append(judge(f"d = {dim}: largest inner product is 4(1−2ε)√(ε(1−ε)), off by",
                          "derived", 0.0, worst, absolute=1e-6))  # fmt: skip
    library = [cross_alignment(math.pi / 2, e) for e in epsilons]
    rows.append(
        judge(
            "the library's α is the one found, off by",
            "derived",
            0.0,
            float(np.max(np.abs(np.array(library) - found[dims[0]]))),
            absolute=1e-6,
        )
    )
    over = max(x / (e * e + 2 * e) for x, e in zip(found[dims[0]], epsilons, strict=True))
    first = holds("the inner product stays below ε² + 2ε", "Section 4", over <= 1 + 1e-6,
                  "at most 1 times it", f"{over:.4g} times it")  # fmt: skip
    small = epsilons[0]
    # Where the margin 1 − α − 8ε − log(2n²/ε)/β is zero.
    beta = math.log(2 * tokens**2 / small) / (1 - library[0] - 8 * small)
    rows.append(judge(f"ε = {small:g}, n = {tokens}: margin at the β from which theorems apply",
                      "derived", 0.0, separation_margin(beta, tokens, small, found[dims[0]][0]),
                      absolute=1e-6))  # fmt: skip
    figure = plot_lines(
        {f"found, d = {d}": (epsilons, v) for d, v in found.items()},
        "height ε", "largest inner product α",
        "Points of doubled caps around orthogonal centres.",
        theory={"4(1−2ε)√(ε(1−ε))": (epsilons, exact),
                "printed: ε² + 2ε": (epsilons, [e * e + 2 * e for e in epsilons])},
        log="xy",
    )  # fmt: skip
    return Finding([first, *rows], {"alpha": figure})


def _closest(epsilon: float, dim: int) -> float:
    """Largest ⟨x,y⟩ over caps of height 2ε around e_1 and e_2, from several random starts."""
    turn, random = math.acos(1 - 2 * epsilon), np.random.default_rng(1)
    eye = np.eye(dim)

    def point(z: np.ndarray, pole: int) -> np.ndarray:
        across = z[1:] - 0.0
        across = np.insert(across, pole, 0.0)
        size = np.linalg.norm(across)
        # z_0 places the point between the pole and the rim of its cap.
        depth = turn * np.sin(z[0]) ** 2
        return np.cos(depth) * eye[pole] + np.sin(depth) * across / max(size, 1e-12)

    def off(z: np.ndarray) -> float:
        return -float(point(z[:dim], 0) @ point(z[dim:], 1))

    starts = random.normal(size=(6, 2 * dim))
    return -min(minimize(off, z, method="BFGS", options={"gtol": 1e-10}).fun for z in starts)
