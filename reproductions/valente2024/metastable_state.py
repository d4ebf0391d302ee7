"""Several clusters for a long time."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Merging, flow
from metastable.measures import Points, uniform
from metastable.observe import kernel_modes
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.pairs import merge_time

from ._pairs import NEAR

ENTRY = Entry(
    title="Several clusters for a long time",
    places=["Problem 9", "Open Question 2"],
    claim=(
        "It is asked whether for large β all tokens gather in several clusters for a long "
        "time before they collapse into one."
    ),
    method=(
        "Count maxima of the potential along one run; lifetimes of a pair of clusters as β "
        "grows, against the exact integral."
    ),
    subject="metastability",
    basis="text",
    limits=(
        "One start of 200 tokens on the circle at β = 25; lifetimes for a pair at a right "
        "angle, β up to 150."
    ),
    planted="SelfAttention.beta * 1.1",
    settings={
        "tokens": 200,
        "beta": 25.0,
        "angle": 1.5707963267948966,
        "betas": [2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0],
        "late": [50.0, 75.0, 100.0, 150.0],
    },
    fast={"tokens": 64, "betas": [2.0, 5.0, 8.0], "late": [50.0, 150.0]},
)


def metastable_state(
    *, tokens: int, beta: float, angle: float, betas: list[float], late: list[float]
) -> Finding:
    """Large β: several clusters form fast and stay for a time exponential in β."""
    run = flow(uniform(tokens, 2, seed=0), SelfAttention(beta), 60.0, frames=61)
    counts = np.array([len(kernel_modes(frame, beta).masses) for frame in run.frames])
    held = counts[run.times >= 15]
    pair = Points([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    lives, expected = [], [merge_time(angle, one) for one in betas]
    for one, life in zip(betas, expected, strict=True):
        merged = flow(pair, SelfAttention(one), 1.5 * life, frames=401)
        cosines = np.array([x[0] @ x[1] for x in merged.points])
        lives.append(float(np.interp(1 - NEAR, cosines, merged.times)))
    # Past β ≈ 20 the lifetime outgrows any fixed step: the staircase steps in its logarithm.
    runs = [flow(pair, SelfAttention(one), math.inf, stepper=Merging()) for one in late]
    ends = [run.times[-1] for run in runs]
    slope = np.polyfit(late, np.log(ends), 1)[0]
    rows = [
        holds(
            f"β = {beta:g}: more than one cluster, fewer than tokens, unchanged for 45 units",
            "Problem 9, Open Question 2", 1 < held.min() == held.max() < tokens, "a plateau",
            f"{held.max()} clusters" if held.min() == held.max() else "the count changes",
        ),
        judge(
            "lifetime of a pair against the integral, largest relative error",
            "geshkovski2024dynamic", 0.0,
            float(np.abs(np.array(lives) / expected - 1).max()), absolute=0.02,
        ),
        judge(
            f"exponent of the lifetime in β, from {late[0]:g} to {late[-1]:g}",
            "1 − cos of the angle", 1 - np.cos(angle), slope, absolute=0.05,
        ),
    ]  # fmt: skip
    figures = {
        "counts": plot_lines(
            {"seen": (run.times, counts)}, "time t (SA clock)", "clusters", lines=True,
            caption=f"Maxima of the potential, {tokens} tokens on the circle, β = {beta:g}.",
        ),
        "lifetimes": plot_lines(
            {"runs": (betas, lives), "runs to the merger": (late, ends)}, "β",
            "lifetime (SA clock)", log="y",
            caption=f"Two clusters {angle:.2g} radians apart: time until they are one.",
            theory={"integral": (betas + late, [merge_time(angle, b) for b in betas + late])},
        ),
    }  # fmt: skip
    return Finding(rows, figures)
