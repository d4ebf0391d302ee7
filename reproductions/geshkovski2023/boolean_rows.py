"""Boolean rows over many prompts."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from metastable.core.verdict import judge
from metastable.measures import gaussian_points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.limits import boolean_limit

from .._slopes import fitted_slope
from ._pure_attention import log_rest, pure_run

ENTRY = Entry(
    title="Boolean rows over many prompts",
    places=["Theorem 1", "proof of Theorem 1, bound on the entries of a row"],
    claim=(
        "From every prompt of distinct tokens all rows but one become Boolean doubly "
        "exponentially, because P_ij is at most exp(-c x_i) for a positive token i and j "
        "other than the last."
    ),
    method=(
        "Run many Gaussian prompts in d = 1; in log domain, fit the rate of the slowest row, "
        "count rows left undecided, and test the proof's bound at every frame."
    ),
    subject="clusters",
    basis="text",
    limits=(
        "Fifty prompts of ten tokens on the line; the fit of the doubly exponential rate ends "
        "at t = 12."
    ),
    implies=("attention_line",),
    planted="pure_run.times * 1.3",
    settings={"tokens": 10, "draws": 50, "horizon": 12.0},
    fast={"draws": 12},
)


def boolean_rows(*, tokens: int, draws: int, horizon: float) -> Finding:
    """Many prompts in d = 1: how fast rows become Boolean, how many do not, the proof's bound."""
    slopes, undecided, slack, curves = [], 0, [], {}
    for seed in range(draws):
        run = pure_run(gaussian_points(tokens, 1, seed=seed), horizon, frames=49)
        x = run.points[:, :, 0] * np.exp(run.times)[:, None]
        limit = boolean_limit(x[-1])
        undecided = max(undecided, int(np.sum(limit < 0)))
        rest = log_rest(x, limit)
        late = run.times >= 0.7 * horizon
        slopes.append(fitted_slope(run.times[late], np.log(-rest[late])))
        slack.append(_proof_slack(x))
        if seed < 8:
            shown = rest < 0
            curves[f"start {seed + 1}"] = (run.times[shown], -rest[shown])
    slopes = np.array(slopes)
    worst = slopes[np.abs(slopes - 1).argmax()]
    rows = [
        judge(
            f"slope of log(−log(1 − P)) in t, worst of {draws} prompts",
            "Theorem 1",
            1.0,
            float(worst),
            absolute=0.03,
        ),
        holds("rows that are not Boolean", "Theorem 1", undecided <= 1, "at most 1", undecided),
        holds(
            "P_ij ≤ e^{−c x_i} for x_i > 0 and j ≠ n, c the smallest gap at the start",
            "proof of Theorem 1",
            max(slack) <= 1e-9,
            "log P_ij + c x_i ≤ 0",
            f"largest {max(slack):.2e}",
        ),
    ]
    times = np.linspace(0.5 * horizon, horizon, 20)
    top = max(float(curve[1][-1]) for curve in curves.values())
    figure = plot_lines(
        curves,
        "time t (SA clock)",
        "$-\\log(1 - P_{i,k(i)})$, slowest row",
        f"How Boolean the slowest row is, for {len(curves)} prompts of {tokens} tokens: a straight "
        "line of slope 1 is doubly exponential decay.",
        theory={"$e^{t}$": (times, top * np.exp(times - horizon))},
        log="y",
        lines=True,
    )
    return Finding(rows, {"rates": figure})


def _proof_slack(x: np.ndarray) -> float:
    """max of log P_ij + c x_i over times, x_i > 0 and j other than the largest token."""
    c = np.diff(np.sort(x[0])).min()
    logits = x[:, :, None] * x[:, None, :]
    log_p = logits - logsumexp(logits, axis=2, keepdims=True)
    log_p[:, :, np.argmax(x[0])] = -np.inf
    return float(np.where(x > 0, log_p.max(axis=2) + c * x, -np.inf).max())
