"""Many tokens are the mean-field limit."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Density
from metastable.observe import sobolev_distance
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.spectrum import dominant_mode, max_rate

ENTRY = Entry(
    title="Many tokens are the mean-field limit",
    places=["summary: mean-field interacting particle system"],
    claim="The empirical measure of n tokens follows the mean-field equation.",
    method="Samples of growing size against the density, in a weak norm.",
    subject="existence",
    basis="text",
    limits="The circle at β = 5 up to the exit, up to 16 000 tokens; no uniform bound in time.",
    planted="sobolev_distance + 0.1",
    settings={"beta": 5.0, "tokens": [250, 1000, 4000, 16000], "seeds": 40},
    fast={"tokens": [250, 2000], "seeds": 10},
)


def tokens_and_density(*, beta: float, tokens: list[int], seeds: int) -> Finding:
    """n tokens stay n^(−1/2) away from the density of infinitely many, until they leave uniform."""
    mode, rate = dominant_mode(beta, 2), max_rate(beta, 2)
    start, span = Density.mode(2, mode, 0.1), 1.0 / rate
    whole = flow(start, SelfAttention(beta), span, frames=2).frames[-1]
    sizes = []
    for n in tokens:
        runs = [
            flow(start.sample(n, seed), SelfAttention(beta), span, frames=2).frames[-1]
            for seed in range(seeds)
        ]
        sizes.append(np.sqrt(np.mean([sobolev_distance(x, 1.0, whole) ** 2 for x in runs])))
    slope = np.polyfit(np.log(tokens), np.log(sizes), 1)[0]
    error = 1.5 / math.sqrt(2 * seeds) / math.log(tokens[-1] / tokens[0])
    rows = [
        judge("power of n in the distance from the density", "mean-field limit", -0.5, slope,
              absolute=0.05 + error)
    ]  # fmt: skip
    figure = plot_lines(
        {"runs": (tokens, sizes)},
        "tokens n",
        "‖μ_n − μ‖ in H^(−1)",
        log="xy",
        caption=f"Root mean square over {seeds} samples, one e-folding time, β = {beta:g}.",
        theory={"n^(−1/2)": (tokens, sizes[0] * np.sqrt(tokens[0] / np.array(tokens)))},
    )
    return Finding(rows, {"distance": figure})
