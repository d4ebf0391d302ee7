"""Order grows like a square root of the distance to the threshold, like a fourth root at β_*."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.interaction import attention_interaction
from metastable.theory.noise import critical_kappa, tricritical_beta
from metastable.theory.stationary import stationary_density

from ._gibbs import Functional

ENTRY = Entry(
    title="Order grows like a square root past the threshold, like a fourth root at β_*",
    places=["arXiv:2606.05140, abstract: continuous transition for β ≤ β_*"],
    claim=(
        "For β < β_* the alignment grows from zero like (κ/κ_# − 1)^{1/2}; at β_*, where the "
        "quartic term of the free energy vanishes, like its fourth root."
    ),
    method=(
        "Stationary densities close above κ_#; local powers of the alignment in κ/κ_# − 1, and "
        "the prefactor below β_* against the quartic term by quadrature."
    ),
    subject="noise",
    basis="derived",
    limits="The powers are ours: the abstract says continuous. Zonal densities; d up to 4.",
    planted="stationary_density.kappa * 1.002",
    settings={"dims": [2, 3, 4], "ratio": 0.6},
    fast={"dims": [2, 3]},
)


def onset_exponents(*, dims: list[int], ratio: float) -> Finding:
    """Powers of the distance to κ_# with which order sets in."""
    rows, series = [], []
    steps = np.array([1e-3, 2e-3])
    for k, dim in enumerate(dims):
        star = tricritical_beta(dim)
        for factor, power in ((ratio, 0.5), (1.0, 0.25)):
            sizes = _alignments(factor * star, dim, steps)
            # The next term of the expansion changes a local power by about the distance itself,
            # and by its root at β_*: 1e−3 and 3e−2, times constants near one.
            slack = 0.01 if factor < 1 else 0.03
            seen = float(np.log(sizes[1] / sizes[0]) / np.log(2))
            rows.append(judge(f"d = {dim}, β = {factor:g} β_*: power", "continuous transition",
                              power, seen, absolute=slack))  # fmt: skip
            far = np.geomspace(1e-3, 0.1, 9)
            series.append(Series(f"d = {dim}, β = {factor:g} β_*", far,
                                 _alignments(factor * star, dim, far), style="both",
                                 group=2 * k + (factor == 1)))  # fmt: skip
        beta = ratio * star
        rows.append(judge(f"d = {dim}, β = {ratio:g} β_*: squared alignment over the distance",
                          "derived", 1 / _bend(beta, dim),
                          float(_alignments(beta, dim, steps)[0] ** 2 / steps[0]),
                          relative=0.02))  # fmt: skip
    axes = Axis("κ/κ_# − 1", scale="log"), Axis("alignment", scale="log")
    return Finding(rows, {"onset": Lines(*axes, series, caption="Slopes ½ and ¼.")})


def _alignments(beta: float, dim: int, steps: np.ndarray) -> np.ndarray:
    drawn = attention_interaction(beta, dim, normalized=False)
    threshold = float(critical_kappa(beta, dim, normalized=False))
    return np.array([
        stationary_density(drawn, kappa=threshold * (1 + step), concentration=1.0).alignment
        for step in steps
    ])  # fmt: skip


def _bend(beta: float, dim: int) -> float:
    """c in κ = κ_#(1 + c m²), from F = ε²a(κ_# − κ)/… + ε⁴q along 1 + εP₁: −m² = distance/c."""
    space = Functional.of(beta, dim, degree=12, count=40)
    mean = lambda g: float(space.weights @ g)
    one, two = space.table[1], space.table[2]
    kappa = 1 / (space.kernel[1] * mean(one**2))
    cubic = -mean(one**2 * two) / 2 / kappa
    square = mean(two**2) / 2 / kappa - 0.5 * space.kernel[2] * mean(two**2) ** 2
    quartic = mean(one**4) / 12 / kappa - cubic**2 / (4 * square)
    # F/ε² = −(step/κ)·½∫P₁² + quartic ε², so ε² = step ∫P₁²/(4κ quartic) and m = ε∫P₁².
    return 4 * kappa * quartic / mean(one**2) ** 3
