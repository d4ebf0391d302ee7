"""Tokens carried by a density."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow, push
from metastable.measures import Density, Points
from metastable.observe import sobolev_distance
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.spectrum import dominant_mode, max_rate

ENTRY = Entry(
    title="Tokens carried by a density",
    places=["summary: Lagrangian flow techniques"],
    claim="Tokens that follow the velocity of the density remain distributed according to it.",
    method="Push samples along the density's velocity and measure a weak distance.",
    subject="existence",
    basis="text",
    limits=(
        "The circle at β = 5 while the first mode grows, up to 4000 tokens; later clusters are "
        "not followed."
    ),
    planted="flow.times * 2.0",
    settings={"beta": 5.0, "tokens": [250, 1000, 4000], "seeds": 20},
    fast={"tokens": [250, 1000], "seeds": 4},
)


def carried_tokens(*, beta: float, tokens: list[int], seeds: int) -> Finding:
    """Tokens carried by the density's velocity stay distributed by it, to their sampling error."""
    mode, rate = dominant_mode(beta, 2), max_rate(beta, 2)
    run = flow(Density.mode(2, mode, 0.05), SelfAttention(beta), 2.0 / rate, frames=9)
    # Carried tokens do not feel each other: those of all samples are carried together.
    moved = push(run, run.frames[0].sample(seeds * sum(tokens), 0))
    firsts, lasts = (np.asarray(moved.frames[k].points) for k in (0, -1))
    before, after, used = [], [], 0
    for n in tokens:
        sizes = []
        for _ in range(seeds):
            part, used = slice(used, used + n), used + n
            ends = [(firsts[part], run.frames[0]), (lasts[part], run.frames[-1])]
            sizes.append([sobolev_distance(Points(x), 1.0, density) for x, density in ends])
        first, last = np.sqrt(np.mean(np.square(sizes), axis=0))
        before.append(first)
        after.append(last)
    ratio = float(np.max(np.array(after) / before))
    slope = np.polyfit(np.log(tokens), np.log(after), 1)[0]
    rows = [
        holds("distance from the density at the end over that at the start", "Lagrangian flow",
              ratio < 2, "of order one", ratio),
        judge("power of n in it", "sampling error", -0.5, slope,
              absolute=0.1 + 1 / math.sqrt(seeds * len(tokens))),
    ]  # fmt: skip
    figure = plot_lines(
        {"start": (tokens, before), "carried to the end": (tokens, after)},
        "tokens n", "distance in H^(−1)", log="xy", lines=True,
        caption=f"Root mean square over {seeds} samples, circle, β = {beta:g}.",
        theory={"n^(−1/2)": (tokens, before[0] * np.sqrt(tokens[0] / np.array(tokens)))},
    )  # fmt: skip
    return Finding(rows, {"distance": figure})
