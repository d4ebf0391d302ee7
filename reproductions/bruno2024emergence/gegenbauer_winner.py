"""The degree that wins in higher dimension."""

from __future__ import annotations

import numpy as np
from scipy.integrate import quad
from scipy.special import eval_gegenbauer

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Density
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="The degree that wins in higher dimension",
    places=[
        "arXiv:2410.23228, abstract: the index that maximises rescaled Gegenbauer coefficients"
    ],
    claim=(
        "In any dimension the degree that rules the first clusters maximises ℓ(ℓ+d−2) times the "
        "Gegenbauer coefficient of e^{βs}."
    ),
    method=(
        "Zonal densities with equal amplitudes in all degrees, run by the full equation until one "
        "of them is large; the winner against coefficients by numerical integration."
    ),
    subject="clusters",
    basis="abstract",
    limits=(
        "Zonal densities only: which combination of one degree's harmonics wins on the whole "
        "sphere is another question. USA, as in the paper."
    ),
    planted="SelfAttention.beta * 1.05",
    settings={"cases": [[3, 5.0], [3, 12.0], [4, 8.0], [5, 12.0], [8, 20.0]], "degrees": 8},
    fast={"cases": [[4, 8.0]], "degrees": 6},
)


def gegenbauer_winner(*, cases: list, degrees: int) -> Finding:
    """Coefficients come from quadrature with SciPy's polynomials, not from the library."""
    rows, curves, theory = [], {}, {}
    ell = np.arange(1, degrees + 1)
    for dim, beta in cases:
        weight = np.array([_coefficient(int(k), dim, beta) for k in ell])
        rates = ell * (ell + dim - 2) * weight / beta
        begin = Density(np.append(1.0, np.full(degrees, 1e-8)), dim, axis=np.eye(dim)[0])
        horizon = np.log(1e6) / rates.max()
        run = flow(begin, SelfAttention(beta, normalized=False), horizon, frames=9)
        size = np.array([np.abs(np.asarray(f.resized(degrees).coefficients))
                         for f in run.frames])  # fmt: skip
        late = size[-1, 1:]
        winner, wanted = int(ell[np.argmax(late)]), int(ell[np.argmax(rates)])
        rows.append(holds(f"d = {dim}, β = {beta:g}: the degree that wins", "abstract",
                          winner == wanted, wanted, winner))  # fmt: skip
        # Half way all degrees are still linear.
        seen = np.log(size[4, 1:] / size[0, 1:]) / run.times[4]
        worst = float(np.max(np.abs(seen - rates)) / rates.max())
        rows.append(judge(f"d = {dim}, β = {beta:g}: growth of all degrees, off by", "derived",
                          0.0, worst, absolute=0.01))  # fmt: skip
        curves[f"d = {dim}, β = {beta:g}"] = (ell, seen / rates.max())
        theory[f"L ŵ, d = {dim}"] = (ell, rates / rates.max())
    figure = plot_lines(curves, "degree ℓ", "growth rate over the largest",
                        "Full equation; dashed: ℓ(ℓ+d−2) times the Gegenbauer coefficient.",
                        theory=theory)  # fmt: skip
    return Finding(rows, {"rates": figure})


def _coefficient(degree: int, dim: int, beta: float) -> float:
    """∫e^{βs}P_ℓ(s) over the sphere, P_ℓ(1) = 1."""
    nu = dim / 2 - 1
    top = eval_gegenbauer(degree, nu, 1.0)
    weight = lambda s: (1 - s * s) ** (nu - 0.5)
    above = quad(lambda s: np.exp(beta * s) * eval_gegenbauer(degree, nu, s) * weight(s), -1, 1)[0]
    return above / top / quad(weight, -1, 1)[0]
