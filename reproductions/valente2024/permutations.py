"""Permutation equivariance."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points, uniform
from metastable.report.figures.plain import plot_bars
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Permutation equivariance",
    places=["Definition 1"],
    claim="A transformer without positions commutes with permutations of its tokens.",
    method=(
        "Flows from a start and from its permutation, plain and with random matrices; a "
        "causal mask as a contrast."
    ),
    subject="networks",
    basis="text",
    limits=(
        "One permutation of 20 tokens in d = 4, plain, random and causal attention, up to t = 4."
    ),
    planted="SelfAttention.causal = True",
    settings={"tokens": 20, "dim": 4, "beta": 2.0, "horizon": 4.0},
)


def permutations(*, tokens: int, dim: int, beta: float, horizon: float) -> Finding:
    """Permuting the input permutes the output, unless tokens know their order."""
    order = np.random.default_rng(4).permutation(tokens)
    start = uniform(tokens, dim, seed=5)
    mixed = Points(np.asarray(start.points)[order])
    gaps = {}
    for name, field in {
        "plain": SelfAttention(beta),
        "random Q, K, V": SelfAttention(
            beta, *(np.random.default_rng(6).normal(size=(3, dim, dim)) / np.sqrt(dim))
        ),
        "causal": SelfAttention(beta, causal=True),
    }.items():
        a, b = (np.asarray(flow(m, field, horizon, frames=2).points[-1]) for m in (start, mixed))
        gaps[name] = float(np.abs(a[order] - b).max())
    rows = [
        judge("f(πX) against πf(X), whole flow: largest error", "Definition 1", 0.0,
              max(gaps["plain"], gaps["random Q, K, V"]), absolute=1e-9),
        holds("a causal mask breaks it", "masked attention", gaps["causal"] > 1e-3, "differs",
              gaps["causal"]),
    ]  # fmt: skip
    figure = plot_bars(
        list(gaps), {"largest difference": [max(gap, 1e-17) for gap in gaps.values()]},
        "attention", "‖f(πX) − πf(X)‖", f"{tokens} tokens, d = {dim}, β = {beta:g}.",
        log=True,
    )  # fmt: skip
    return Finding(rows, {"differences": figure})
