"""A second harmonic strong enough makes the onset of order a jump."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import Noise, Potential
from metastable.flows import flow
from metastable.measures import Density
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.interaction import zonal_potential
from metastable.theory.stationary import stationary_density

ENTRY = Entry(
    title="A second harmonic strong enough makes the onset of order a jump",
    places=["arXiv:2412.14813, abstract: sufficient condition for a discontinuous transition"],
    claim=(
        "If the coefficients ŵ_1 and ŵ_2 of the potential are close enough, the transition at κ_1 "
        "is discontinuous; on S^{d−1} it is so once ŵ_2/ŵ_1 > 1/d."
    ),
    method=(
        "W = s + ρŵ_1(…)P_2 on spheres, with ρ on both sides of 1/d: an ordered state just below "
        "κ_1 or none, by the fixed-point sweeps; a run of the density equation in each case."
    ),
    subject="noise",
    basis="report",
    limits=(
        "Two harmonics only. The threshold 1/d is ours, from the quartic term; the paper's "
        "condition, which is sufficient, was not seen. Within 50 % of 1/d nothing was tried."
    ),
    planted="Noise.kappa * 1.1",
    settings={"dims": [2, 3, 5], "around": 0.5, "below": 0.002},
    fast={"dims": [3]},
)


def resonant_kernels(*, dims: list[int], around: float, below: float) -> Finding:
    """Ordered or not below κ_1, for two strengths of the second harmonic."""
    rows, series = [], []
    for k, dim in enumerate(dims):
        for factor in (1 - around, 1 + 3 * around):
            second = factor / dim**2 * _count(dim)  # ŵ_ℓ is the coefficient of P_ℓ over N_ℓ
            shape = lambda s, c=second, d=dim: s + c * (d * s**2 - 1) / (d - 1)
            kernel = zonal_potential(shape, dim, 2)
            ratio = float(kernel.weights[2] / kernel.weights[1])
            rows.append(judge(f"d = {dim}: ŵ_2/ŵ_1 of the potential", "definition", factor / dim,
                              ratio, relative=1e-8))  # fmt: skip
            kappa = (1 - below) / float(kernel.weights[1])
            jumps = factor > 1
            found = stationary_density(kernel, kappa=kappa, concentration=10.0).alignment
            text = "ordered" if jumps else "none"
            rows.append(holds(f"d = {dim}, ŵ_2/ŵ_1 = {factor:g}/d: ordered state at "
                              f"{1 - below:g} κ_1", "1/d", (found > 0.05) == jumps, text,
                              f"alignment {found:.4f}"))  # fmt: skip
            # The run is at 0.95 κ_1, where disorder comes back within a few dozen κ.
            level = 0.95 / float(kernel.weights[1]) if not jumps else kappa
            exact = stationary_density(kernel, kappa=level, concentration=10.0).alignment
            start = Density.von_mises_fisher(np.eye(dim)[0], 6.0, zonal=True)
            run = flow(start, Potential(shape) + Noise(level), 50 * level, frames=41)
            size = np.array([abs(float(x.coefficients[1])) for x in run.frames]) / np.sqrt(dim)
            # e^{−0.05·50(d−1)} of an alignment of 0.8 is left at most.
            slack = 0.8 * np.exp(-2.5 * (dim - 1)) + 2e-3
            rows.append(judge(f"d = {dim}, ŵ_2/ŵ_1 = {factor:g}/d: end of a run", "1/d", exact,
                              float(size[-1]), absolute=slack))  # fmt: skip
            series.append(Series(f"d = {dim}, ŵ_2/ŵ_1 = {factor:g}/d", run.times / level, size,
                                 group=2 * k + jumps))  # fmt: skip
    axes = Axis("time t/κ"), Axis("alignment")
    return Finding(rows, {"runs": Lines(*axes, series, caption="Runs just below κ_1.")})


def _count(dim: int) -> float:
    """N_2, the number of harmonics of degree 2."""
    return (dim + 2) * (dim - 1) / 2
