"""Attraction by a negative matrix ends in two opposite points."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import uniform
from metastable.observe import energy
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Attraction by a negative matrix ends in two opposite points",
    places=["Figure 6 (max_on_sphere_nd.py)"],
    claim=(
        "For a negative definite D the largest energy is that of two opposite equal points on the "
        "eigenvector of the most negative eigenvalue −λ, cosh(βλ); for D = −I any axis will do."
    ),
    method=(
        "Climbs of random tokens on S² for D = −I and −diag(1, 3, 4): they end in two opposite "
        "points, with energy cosh βλ − (1 − 2p)² sinh βλ for shares p and 1 − p."
    ),
    subject="clusters",
    basis="code",
    limits=(
        "β = 1, the matrices of the figure. Ends with uneven shares are at rest too; that p = 1/2 "
        "is best follows from the formula, not from the runs."
    ),
    planted="SelfAttention.beta = 0.2",
    settings={"tokens": 100, "starts": 20, "horizon": 60.0},
    fast={"tokens": 40, "starts": 4, "horizon": 40.0},
)


def negative_definite_pairs(*, tokens: int, starts: int, horizon: float) -> Finding:
    """Ends of climbs, their axis, shares and energies."""
    rows, series = [], []
    for diagonal in ([1.0, 1.0, 1.0], [1.0, 3.0, 4.0]):
        matrix, top = -np.diag(diagonal), max(diagonal)
        field = SelfAttention(1.0, query=matrix, value=matrix, normalized=False)
        shares, worst, axis, spread = [], 0.0, 0.0, 0.0
        for seed in range(starts):
            run = flow(uniform(tokens, 3, seed), field, horizon, frames=31)
            x = np.asarray(run.points[-1])
            side = np.sign(x @ x[0])
            spread = max(spread, float(np.max(1 - np.abs(x @ x[0]))))
            axis = max(axis, float(np.max(1 - np.abs(x[:, 2]))))
            p = float(np.mean(side > 0))
            shares.append(p)
            exact = np.cosh(top) - (1 - 2 * p) ** 2 * np.sinh(top)
            found = 2 * float(energy(run.frames[-1], 1.0, matrix=matrix))
            worst = max(worst, abs(found / exact - 1))
            if seed < 4:
                level = [2 * float(energy(frame, 1.0, matrix=matrix)) / np.cosh(top)
                         for frame in run.frames]  # fmt: skip
                series.append(Series(f"λ = {top:g}, start {seed + 1}", run.times, level))
        name = f"D = −diag({', '.join(f'{v:g}' for v in diagonal)})"
        # Rates of a few units: at t = 40 what is left is the stepper's 1e−6, squared in 1 − cos.
        rows.append(judge(f"{name}: largest 1 − |⟨x_i, x_1⟩|", "Figure 6", 0.0, spread,
                          absolute=1e-6))  # fmt: skip
        rows.append(judge(f"{name}: energy against cosh λ − (1 − 2p)² sinh λ", "derived", 0.0,
                          worst, absolute=1e-5))  # fmt: skip
        if len(set(diagonal)) > 1:
            rows.append(judge(f"{name}: largest 1 − |x_3|", "Figure 6", 0.0, axis, absolute=1e-6))
        rows.append(holds(f"{name}: both ends are taken", "Figure 6",
                          0 < min(shares) and max(shares) < 1, "0 < p < 1",
                          f"p from {min(shares):.2f} to {max(shares):.2f}"))  # fmt: skip
    axes = Axis("time t", clock="USA"), Axis("energy over cosh λ")
    return Finding(rows, {"climb": Lines(*axes, series, caption="Climbs for negative D, β = 1.")})
