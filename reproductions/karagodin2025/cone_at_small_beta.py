"""A cone that is no cone: small β allows opposite tokens."""

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
from reproductions._slopes import fitted_slope
from reproductions.karagodin2025._schemes import variance

ENTRY = Entry(
    title="A cone condition that small β empties",
    places=["Theorem 4.3, hypothesis"],
    claim=(
        "If ⟨θ_j(0), θ_k(0)⟩ ≥ 1 − δ with δ < 1/(100 n²β²), the variance of directions falls at "
        "least at a fixed rate, Var' ≤ −c Var, under Post normalisation."
    ),
    method=(
        "Two tokens at β = 0.01, where the condition allows δ up to 25: an opposite pair, pairs "
        "near it, and a pair in a cone of 1/(100 n²)."
    ),
    known="disagree",
    correction=(
        "The condition must bound δ without β as well, δ < 1/(100 n²): else an opposite pair, "
        "which rests for ever, satisfies it, and pairs near it wait a time log(1/ε)."
    ),
    subject="normalisation",
    basis="report",
    limits=(
        "Two tokens, Post only; the gap was found by a formal transcription, which proves the "
        "corrected statement. For β ≥ 1 the printed hypothesis is the stronger one."
    ),
    planted="SelfAttention.value = 0.5",
    settings={"beta": 0.01, "offsets": [1e-1, 1e-2, 1e-3, 1e-4]},
    fast={"offsets": [1e-2]},
)


def cone_at_small_beta(*, beta: float, offsets: list[float]) -> Finding:
    """Rate of an opposite pair, waiting times near it, and the rate in the small cone."""
    opposite = flow(_pair(math.pi), SelfAttention(beta), 20.0, frames=41)
    spread = variance(opposite.points)
    rate = -fitted_slope(opposite.times, np.log(spread))
    allowed = 1 / (100 * 4 * beta**2)
    rows = [
        holds("an opposite pair falls at a fixed rate", "Theorem 4.3", rate > 1 / 9,
              "rate ≥ 1/9", f"rate {rate:.2g}, δ = 2 < {allowed:.3g}"),
    ]  # fmt: skip
    waits, curves = [], {}
    for offset in offsets:
        run = flow(
            _pair(math.pi - offset), SelfAttention(beta), 6 + math.log(1 / offset), frames=801
        )
        spread = variance(run.points)
        # A right angle has variance 1/2; tan of half the angle falls like e^(−t) at β = 0.
        waits.append(float(np.interp(-0.5, -spread, run.times)))
        wait = math.log(math.tan((math.pi - offset) / 2))
        rows.append(judge(f"time to a right angle from π − {offset:g}", "derived", wait,
                          waits[-1], absolute=3 * beta * wait))  # fmt: skip
        curves[f"π − {offset:g}"] = (run.times, spread)
    small = math.acos(1 - 0.9 / 400)
    run = flow(_pair(small), SelfAttention(beta), 6.0, frames=61)
    rate = -fitted_slope(run.times, np.log(variance(run.points)))
    rows.append(judge("rate in a cone of 0.9/(100 n²)", "derived", 2.0, rate, relative=0.01))
    figure = plot_lines(
        curves, "time t (SA clock)", "variance of directions",
        f"Two tokens at β = {beta:g} from angles near π.", lines=True,
    )  # fmt: skip
    return Finding(rows, {"variance": figure})


def _pair(angle: float) -> Points:
    return Points([[1.0, 0.0], [math.cos(angle), math.sin(angle)]])
