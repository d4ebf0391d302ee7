"""With eigenvalues of both signs the most energy is a pair or a point."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import uniform
from metastable.observe import energy
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

ENTRY = Entry(
    title="With eigenvalues of both signs the most energy is a pair or a point",
    places=["Figure 7 (max_on_sphere_id.py, maxid.csv)"],
    claim=(
        "For D = diag(−1, δ) and β = 1 the largest energy is that of an equal antipodal pair on "
        "the negative eigenvector, cosh 1, or of a point mass on the other, e^δ; they change "
        "places at δ = log cosh 1 = 0.4338."
    ),
    method=(
        "The best of many climbs of unnormalised attention with V = D against both closed forms, "
        "on both sides of the exchange, also for β = 2 in three dimensions."
    ),
    subject="existence",
    basis="code",
    limits=(
        "The best of finitely many climbs of eight tokens; that no other measure does better is "
        "not proved here. The exchange at δ = log cosh(β)/β for β ≠ 1 is ours."
    ),
    planted="SelfAttention.beta * 2.0",
    settings={"deltas": [-0.5, 0.0, 0.3, 0.4, 0.47, 0.6, 1.0], "starts": 24, "other": True},
    fast={"deltas": [0.0, 0.4, 0.47, 1.0], "starts": 8},
)


def indefinite_maximisers(*, deltas: list[float], starts: int, other: bool) -> Finding:
    """The best climbs against a pair and a point."""
    rows, best = [], []
    for delta in deltas:
        best.append(2.0 * _climb(1.0, np.diag([-1.0, delta]), starts, 40.0))
        exact = max(np.cosh(1.0), np.exp(delta))
        name = "a pair" if np.cosh(1.0) > np.exp(delta) else "a point"
        # Climbs end within e^{−2·40·0.4}, or slower where an eigenvalue is small.
        rows.append(judge(f"δ = {delta:g}: largest energy, {name}", "Figure 7", exact, best[-1],
                          relative=1e-5))  # fmt: skip
    if other:
        for delta in (0.6, 0.72):  # log cosh(2)/2 = 0.6625
            top = 4.0 * _climb(2.0, np.diag([-1.0, delta, 0.2]), starts, 40.0)
            exact = max(np.cosh(2.0), np.exp(2 * delta))
            rows.append(judge(f"d = 3, β = 2, δ = {delta:g}: largest energy", "derived", exact,
                              top, relative=1e-5))  # fmt: skip
    line = np.linspace(-1, 1, 80)
    series = [
        Series("best climb", deltas, best, style="points"),
        Series("pair on the negative eigenvector", line, np.full(80, np.cosh(1)), role="theory"),
        Series("point on the other", line, np.exp(line), role="theory"),
        Series("pair on the other", line, np.cosh(line), role="theory"),
    ]
    figure = Lines(Axis("δ, D = diag(−1, δ)"), Axis("∬e^{⟨x,Dy⟩}dμdμ"), series,
                   caption=f"Best of {starts} climbs of eight tokens, β = 1.")  # fmt: skip
    return Finding(rows, {"energies": figure})


def _climb(beta: float, matrix: np.ndarray, starts: int, horizon: float) -> float:
    field = SelfAttention(beta, query=matrix, value=matrix, normalized=False)
    ends = [flow(uniform(8, len(matrix), seed), field, horizon, frames=2).frames[-1]
            for seed in range(starts)]  # fmt: skip
    # The energy is of the matrix and β of the question, not of the field.
    return max(float(energy(end, beta, matrix=matrix)) for end in ends)
