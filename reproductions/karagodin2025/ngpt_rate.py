"""The rate of nGPT is α, not 1/α."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import NGPT, Block, SelfAttention
from metastable.flows import flow
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from reproductions._slopes import fitted_slope
from reproductions.karagodin2025._schemes import stream, variance

ENTRY = Entry(
    title="The rate of nGPT and its step α",
    places=["Theorem 4.3 (ii), row of nGPT"],
    claim=(
        "Under nGPT with step α the variance of a narrow cone falls at a rate of order 1/α: "
        "Var' = −Θ(Var/α)."
    ),
    method="Rates of log Var for steps α over a factor of eight, fitted as a power of α.",
    known="disagree",
    correction=(
        "The factor of nGPT is s = ‖A‖/α, so that Var' = −Θ(α Var): the exponent is +1, and the "
        "rate itself tends to 2α. The remark after the theorem agrees with that."
    ),
    subject="normalisation",
    basis="report",
    limits=(
        "Constant α; the printed row is quoted from a formal transcription that reads it as a "
        "misprint, the paper was not at hand."
    ),
    planted="NGPT.alpha = 1.0",
    settings={"tokens": 16, "dim": 8, "alphas": [0.25, 0.5, 1.0, 2.0]},
    fast={"tokens": 8, "dim": 4, "alphas": [0.5, 2.0]},
)


def ngpt_rate(*, tokens: int, dim: int, alphas: list[float]) -> Finding:
    """Rates against α."""
    draw = np.random.default_rng(5)
    cone = np.eye(dim)[0] + 0.1 * draw.standard_normal((tokens, dim))
    rates, curves = [], {}
    for alpha in alphas:
        field = Block(SelfAttention(1.0), NGPT(alpha))
        run = flow(stream(cone, 1.0), field, 8 / alpha, frames=161)
        spread = variance(run.points)
        late = run.times >= 3 / alpha
        rates.append(-fitted_slope(run.times[late], np.log(spread[late])))
        curves[f"α = {alpha:g}"] = (run.times, spread)
    power = fitted_slope(np.log(alphas), np.log(rates))
    rows = [
        judge("exponent of the rate in α, as printed", "Theorem 4.3", -1.0, power, absolute=0.05),
        judge("exponent of the rate in α, corrected", "derived", 1.0, power, absolute=0.05),
    ]
    for alpha, rate in zip(alphas, rates, strict=True):
        rows.append(judge(f"rate at α = {alpha:g}", "derived", 2 * alpha, rate, relative=0.02))
    figure = plot_lines(
        curves, "time t (SA clock)", "variance of directions",
        f"A narrow cone of {tokens} tokens under nGPT.", lines=True, log="y",
    )  # fmt: skip
    return Finding(rows, {"variance": figure})
