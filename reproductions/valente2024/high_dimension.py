"""One cluster when d ≥ n."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import uniform
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="One cluster when d ≥ n",
    places=["Theorem 5"],
    claim=(
        "With at least as many dimensions as tokens, almost every start tends to one point "
        "exponentially fast, for softmax and unnormalised attention, and for any Q and K when "
        "V = I."
    ),
    method=(
        "Run uniform starts with plain and with random Q and K, in both clocks, and fit the "
        "last exponential."
    ),
    subject="existence",
    basis="text",
    limits="16 tokens in d = 16, β = 1 and 4, one start and one random pair Q, K.",
    planted="flow.times * 1.3",
    settings={"tokens": 16, "dim": 16, "betas": [1.0, 4.0], "horizon": 40.0},
    fast={"tokens": 8, "dim": 8, "betas": [1.0]},
)


def high_dimension(*, tokens: int, dim: int, betas: list[float], horizon: float) -> Finding:
    """d ≥ n: all tokens meet, exponentially fast, with any Q and K."""
    random = np.random.default_rng(0)
    query, key = random.normal(size=(2, dim, dim)) / np.sqrt(dim)
    curves, rates, ends = {}, [], []
    for beta in betas:
        for name, field in {
            f"SA, β = {beta:g}": SelfAttention(beta),
            f"USA, β = {beta:g}": SelfAttention(beta, normalized=False),
            f"SA, β = {beta:g}, random Q, K": SelfAttention(beta, query, key),
        }.items():
            run = flow(uniform(tokens, dim, seed=1), field, horizon, frames=41)
            far = np.linalg.norm(run.points - run.points[-1].mean(axis=0), axis=2).max(axis=1)
            spread = np.array([_diameter(x) for x in run.points])
            ends.append(spread[-1])
            late = (spread < 0.1) & (spread > 1e-8)
            rates.append(-np.polyfit(run.times[late], np.log(spread[late]), 1)[0])
            keep = far > 1e-7
            curves[name] = (run.times[keep], spread[keep])
    rows = [
        holds(
            "largest distance of two tokens at the end",
            "Theorem 5; geshkovski2023mathematical, Theorem 6.1",
            max(ends) < 1e-5,
            "to 0",
            max(ends),
        ),
        holds(
            "rate λ of the last exponential, slowest case",
            "Theorem 5",
            min(rates) > 0,
            "positive",
            min(rates),
        ),
        # Near the limit each token is pulled to the mean of all at unit speed in the SA clock.
        judge("the same, SA with Q = K = I", "linearisation at the cluster", 1.0, rates[0],
              relative=0.02),
    ]  # fmt: skip
    caption = f"Largest distance of two of {tokens} tokens in d = {dim} (each in its own clock)."
    figure = plot_lines(
        curves, "time t", "largest distance", caption, log="y", lines=True, size=(5.4, 3.6)
    )
    return Finding(rows, {"distances": figure})


def _diameter(x: np.ndarray) -> float:
    return float(np.linalg.norm(x[:, None] - x[None], axis=2).max())
