"""Bounds in negative Sobolev norms."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import Verdict, judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import uniform
from metastable.observe import sobolev_distance
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.spectrum import max_rate

ENTRY = Entry(
    title="Bounds in negative Sobolev norms",
    places=["summary: bounds in negative Sobolev spaces"],
    claim=(
        "Sampled starts are of size n^(−1/2) in negative Sobolev norms, which grow no faster "
        "than the largest rate."
    ),
    method=(
        "Norms along runs from independent tokens; their starting size against the exact variance."
    ),
    subject="existence",
    basis="text",
    limits=(
        "4000 tokens on the circle at β = 7, orders 1 and 2, up to the exit; the constants of a"
        " theorem are not known and not tested."
    ),
    planted="flow.times * 0.7",
    settings={"beta": 7.0, "tokens": 4000, "seeds": 40, "orders": [1.0, 2.0]},
    fast={"tokens": 1000, "seeds": 8},
)


def sobolev_bounds(*, beta: float, tokens: int, seeds: int, orders: list[float]) -> Finding:
    """In negative Sobolev norms a sampled start is small, and grows no faster than its rate."""
    rate = max_rate(beta, 2)
    horizon = 0.8 * math.log(tokens) / (2 * rate)
    curves, slopes, starts = {}, [], {s: [] for s in orders}
    for seed in range(seeds):
        run = flow(uniform(tokens, 2, seed), SelfAttention(beta), horizon, frames=25)
        for s in orders:
            size = np.array([sobolev_distance(frame, s, highest=256) for frame in run.frames])
            starts[s].append(size[0] * math.sqrt(tokens))
            slopes.append(np.diff(np.log(size)).max() / np.diff(run.times).max())
            if seed == 0:
                curves[f"H^(−{s:g})"] = (run.times, size)
    top = next(iter(curves.values()))
    rows = [
        holds("no norm grows faster than the largest rate", "long-term bounds",
              max(slopes) < 1.05 * rate, f"below {rate:.4g}", max(slopes)),
        *[_judge_sampling(s, np.square(values)) for s, values in starts.items()],
    ]  # fmt: skip
    figure = plot_lines(
        curves, "time t (SA clock)", "‖μ_n − uniform‖", log="y", lines=True,
        caption=f"{tokens} tokens on the circle, β = {beta:g}, before they leave uniform.",
        theory={"e^(λt)": (top[0], top[1][0] * np.exp(rate * top[0]))},
    )  # fmt: skip
    return Finding(rows, {"norms": figure})


def _judge_sampling(s: float, squares: np.ndarray) -> Verdict:
    """n‖μ_n − uniform‖² of independent tokens has a known mean; four of its standard errors."""
    claim = f"n times the squared norm of the start, mean over the samples, s = {s:g}"
    error = 4 * squares.std(ddof=1) / math.sqrt(len(squares))
    source = "variance of n independent tokens"
    return judge(claim, source, _sampling(s), squares.mean(), absolute=error)


def _sampling(s: float) -> float:
    """Σ_{k≠0} (1+k²)^(−s): mean of n‖μ_n − uniform‖² of independent tokens on the circle."""
    k = np.arange(1, 257)
    return float(2 * np.sum((1.0 + k**2) ** -s))
