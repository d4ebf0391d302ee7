"""Attention and Kuramoto's oscillators."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import Kuramoto, SelfAttention
from metastable.flows import flow
from metastable.measures import uniform
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

ENTRY = Entry(
    title="Attention and Kuramoto's oscillators",
    places=["equation 10, remark on Kuramoto"],
    claim="The dynamics of attention resembles Kuramoto's model of synchronising oscillators.",
    method="At β = 0 on the circle the two must be the same: compare the runs.",
    subject="clusters",
    basis="text",
    limits=(
        "Equal oscillators at β = 0, one start of 40 tokens; frequencies that differ are not "
        "part of attention."
    ),
    planted="SelfAttention.beta = 0.1",
    settings={"tokens": 40, "horizon": 12.0},
)


def kuramoto_limit(*, tokens: int, horizon: float) -> Finding:
    """β = 0 on the circle is Kuramoto's model with equal oscillators."""
    start = uniform(tokens, 2, seed=7)
    runs = [flow(start, field, horizon, frames=41) for field in (SelfAttention(0.0), Kuramoto(1.0))]
    size = [np.linalg.norm(run.points.mean(axis=1), axis=1) for run in runs]
    rows = [
        judge("attention at β = 0 against Kuramoto: largest distance of a token",
              "kuramoto1975self", 0.0, float(np.abs(runs[0].points - runs[1].points).max()),
              absolute=1e-7),
    ]  # fmt: skip
    figure = plot_lines(
        {"attention, β = 0": (runs[0].times, size[0])}, "time t (SA clock)",
        "order parameter", f"{tokens} oscillators that synchronise.",
        theory={"Kuramoto": (runs[1].times, size[1])},
    )  # fmt: skip
    return Finding(rows, {"order": figure})
