"""Opposite clusters rest, and the least push ends that."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Opposite clusters rest, and the least push ends that",
    places=["Section 4, theorem on one cluster in the end for almost every start (d ≥ 3)"],
    claim=(
        "One cluster is the end of almost every start only: two opposite clusters rest under SA "
        "and USA, and a push of any size ends in one cluster."
    ),
    method=(
        "Opposite clusters of unequal masses in d = 3, as they are and pushed by 1e−6: speed, "
        "growth of the push, end; growth against its closed form for several β."
    ),
    subject="existence",
    basis="report",
    limits=(
        "Two clusters; the rates are derived here: Σ α_j/(α_i e^{2β} + α_j) for SA, e^{−β} for "
        "USA, so that leaving takes times of order e^{2β}/α and e^β."
    ),
    planted="SelfAttention.beta * 1.1",
    settings={"betas": [0.5, 1.0, 2.0, 3.0], "masses": [0.7, 0.3], "push": 1e-6},
    fast={"betas": [0.5, 1.5]},
)


def antipodal_escape(*, betas: list[float], masses: list[float], push: float) -> Finding:
    """The push is an angle; its growth is read while it is below a thousandth."""
    a, b = masses
    rows, seen, law = [], {"SA": [], "USA": []}, {"SA": [], "USA": []}
    rest = ends = 0.0
    for beta in betas:
        far = math.exp(2 * beta)
        law["SA"].append(b / (a * far + b) + a / (b * far + a))
        law["USA"].append(math.exp(-beta))
        for clock in ("SA", "USA"):
            field = SelfAttention(beta, normalized=clock == "SA")
            rate = law[clock][-1]
            opposite = Points([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]], masses)
            run = flow(opposite, field, 3 / rate, frames=2)
            rest = max(rest, float(np.abs(run.points[-1] - run.points[0]).max()))
            pushed = Points([[0, math.sin(push), math.cos(push)], [0.0, 0.0, -1.0]], masses)
            run = flow(pushed, field, 40 / rate, frames=401)
            gap = np.linalg.norm(run.points.sum(axis=1), axis=1)  # 2 sin of half the angle to π
            early = (gap < 1e-3) & (run.times > 0)
            found = float(np.polyfit(run.times[early], np.log(gap[early]), 1)[0])
            seen[clock].append(found)
            ends = max(ends, float(np.linalg.norm(run.points[-1, 0] - run.points[-1, 1])))
            rows.append(judge(f"β = {beta:g}: growth of the push ({clock})", "derived", rate, found,
                              relative=1e-3))  # fmt: skip
    first = judge("opposite clusters move by", "Section 4", 0.0, rest, absolute=1e-12)
    rows.append(holds("pushed ones end as one cluster", "Section 4", ends < 1e-3, "below 1e-3",
                      f"{ends:.2g}"))  # fmt: skip
    figure = plot_lines(
        {clock: (betas, seen[clock]) for clock in seen}, "β",
        "growth rate of a push (per time of each clock)",
        f"Two opposite clusters of masses {a:g} and {b:g}; dashed: closed forms.",
        theory={f"{clock}, closed form": (betas, law[clock]) for clock in law}, log="y",
    )  # fmt: skip
    return Finding([first, *rows], {"rates": figure})
