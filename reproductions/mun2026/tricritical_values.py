"""Where the transition turns: β_* in many dimensions."""

from __future__ import annotations

import mpmath
import numpy as np
from scipy.optimize import brentq

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.noise import tricritical_beta

from ._gibbs import Functional

ENTRY = Entry(
    title="Where the transition turns: β_* in many dimensions",
    places=["arXiv:2606.05140, abstract: the equation of β_*"],
    claim=(
        "In each dimension one β_* > 0 solves I_{d/2+1}(β)/I_{d/2}(β) = 1/d, and there the quartic "
        "term of the free energy at κ_# changes its sign once mode 2 has adjusted itself."
    ),
    method=(
        "Roots to 30 digits by mpmath; and, with no Bessel function, the zero in β of the quartic "
        "term of the free energy along uniform + εφ₁ + ε²bφ₂, by quadrature."
    ),
    subject="noise",
    basis="report",
    limits="Uniqueness of the root was looked at on a grid of β up to 60, not proved.",
    planted="tricritical_beta * 1.0001",
    settings={"dims": [2, 3, 4, 5, 8, 16, 32, 64, 128], "by_energy": [2, 3, 4, 6, 8]},
    fast={"dims": [2, 3, 8, 128], "by_energy": [2, 3, 6]},
)


def tricritical_values(*, dims: list[int], by_energy: list[int]) -> Finding:
    """β_* by three roads."""
    rows = []
    grid = np.linspace(0.05, 60, 1200)
    for dim in dims:
        excess = lambda b, d=dim: mpmath.besseli(d / 2 + 1, b) / mpmath.besseli(d / 2, b) - 1 / d
        exact = float(mpmath.findroot(excess, 1 + 3 / dim))
        rows.append(judge(f"d = {dim}: root of the Bessel ratio", "equation of β_*", exact,
                          tricritical_beta(dim), relative=1e-11))  # fmt: skip
    signs = np.sign([[float(excess(b, d)) for b in grid[::40]] for d in dims])
    rows.append(holds("one sign change for each d on β ≤ 60", "unique root",
                      (np.abs(np.diff(signs)).sum(axis=1) == 2).all(), "1 in every dimension",
                      np.abs(np.diff(signs)).sum(axis=1) / 2))  # fmt: skip
    found = []
    for dim in by_energy:
        found.append(brentq(_quartic, 0.7, 4.0, args=(dim,), xtol=1e-8))
        # The quartic term is exact; the root is sought to 1e−8.
        rows.append(judge(f"d = {dim}: zero of the quartic term", "quartic obstruction",
                          found[-1], tricritical_beta(dim), relative=1e-7))  # fmt: skip
    every = np.unique(np.round(np.geomspace(2, 128, 40)).astype(int))
    series = [
        Series("root of the Bessel ratio", every, [tricritical_beta(int(d)) for d in every],
               role="theory"),
        Series("zero of the quartic term", by_energy, found, style="points"),
    ]  # fmt: skip
    figure = Lines(Axis("dimension d", scale="log2"), Axis("β_*"), series,
                   caption="Transitions are continuous up to β_*; it falls to 1.")  # fmt: skip
    return Finding(rows, {"values": figure})


def _quartic(beta: float, dim: int) -> float:
    """Quartic term of F at the κ where its quadratic term vanishes, least over mode 2."""
    space = Functional.of(beta, dim, degree=12, count=40)
    share = space.table**2 @ space.weights  # ∫P_ℓ²
    kappa = 1 / (space.kernel[1] * share[1])
    # F = (1/κ)(∫g²/2 − ∫g³/6 + ∫g⁴/12) − ½Σ kernel (∫gP)², exactly to fourth order in ε.
    one, two = space.table[1], space.table[2]
    mean = lambda g: float(space.weights @ g)
    cubic = -mean(one**2 * two) / 2 / kappa
    square = mean(two**2) / 2 / kappa - 0.5 * space.kernel[2] * share[2] ** 2
    return mean(one**4) / 12 / kappa - cubic**2 / (4 * square)
