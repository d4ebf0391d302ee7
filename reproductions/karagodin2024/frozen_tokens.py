"""Frozen tokens capture all others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import brentq

from metastable.core.verdict import judge
from metastable.flows import flow
from metastable.measures import Points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions.karagodin2024._frozen import FrozenAttention

ENTRY = Entry(
    title="Frozen tokens capture all others",
    places=["Theorem 5.2"],
    claim=(
        "On the circle, if some tokens are frozen, farther than cβ^(−1/2) apart, every other token "
        "of a causal chain ends within εβ^(−1/2) of one of them, almost surely, when "
        "N h((c−1−2ε)β^(−1/2)) < h(εβ^(−1/2)) and −N h'((c−2ε)β^(−1/2)) < h'(εβ^(−1/2))."
    ),
    method=(
        "Freeze a ring of tokens, run random chains until nothing moves, and compare the largest "
        "distance to the nearest frozen token with the least ε that the conditions allow."
    ),
    subject="causal",
    basis="report",
    limits=(
        "Frozen tokens equally spaced, weights 1, one β. The sign of the second condition follows "
        "the reading of a formal transcription: as printed, without the minus, it holds for free."
    ),
    planted="FrozenAttention.beta * 0.1",
    settings={"beta": 64.0, "frozen": 10, "tokens": 24, "starts": 12, "horizon": 3000.0},
    fast={"tokens": 12, "starts": 3},
)


def frozen_tokens(*, beta: float, frozen: int, tokens: int, starts: int, horizon: float) -> Finding:
    """Distances to the nearest frozen token at the end, over random chains."""
    ring = 2 * math.pi * np.arange(frozen) / frozen
    # A hair less than the spacing, as the condition is strict.
    c, total = 0.999 * 2 * math.pi / frozen * math.sqrt(beta), tokens + frozen
    least: Any = brentq(_condition, 1e-9, 0.15, args=(c, beta, total))
    slope = -total * _slope((c - 2 * least) / math.sqrt(beta), beta)
    farthest, speed, curves = 0.0, 0.0, {}
    for seed in range(starts):
        angles = np.random.default_rng(seed).uniform(0, 2 * math.pi, tokens)
        places = np.concatenate([ring, angles])
        points = np.stack([np.cos(places), np.sin(places)], axis=1)
        times = np.concatenate([np.zeros(frozen), 1.0 + np.arange(tokens)])
        field = FrozenAttention(beta)
        run = flow(Points(points, times=times), field, horizon,
                   frames=np.concatenate([[0.0], np.geomspace(0.1, horizon, 60)]))  # fmt: skip
        nearest = np.arccos(
            np.clip((run.points[:, frozen:] @ points[:frozen].T).max(axis=2), -1, 1)
        )
        farthest = max(farthest, float(nearest[-1].max()) * math.sqrt(beta))
        speed = max(speed, float(np.abs(field.velocity(run.frames[-1])).max()))
        curves[f"start {seed}"] = (run.times[1:], nearest[1:].max(axis=1) * math.sqrt(beta))
    rows = [
        holds("distance to the nearest frozen token at the end, in β^(−1/2)", "Theorem 5.2",
              farthest < least, f"< {least:.3g} (least ε of the conditions)", f"{farthest:.3g}"),
        holds("the second condition holds at this ε", "Theorem 5.2",
              slope < _slope(least / math.sqrt(beta), beta),
              f"< {_slope(least / math.sqrt(beta), beta):.3f}", f"{slope:.3g}"),
        judge("largest speed at the end", "Theorem 5.2", 0.0, speed, absolute=1e-6),
    ]  # fmt: skip
    figure = plot_lines(
        dict(list(curves.items())[:6]), "time t (SA clock)",
        "largest distance to a frozen token (β^(−1/2))", f"{frozen} frozen tokens, β = {beta:g}.",
        lines=True, log="xy", theory={"least ε": ([0.1, horizon], [least, least])},
    )  # fmt: skip
    return Finding(rows, {"distance": figure})


def _pull(x: float, beta: float) -> float:
    return math.exp(beta * (math.cos(x) - 1)) * math.sin(x)


def _slope(x: float, beta: float) -> float:
    return math.exp(beta * (math.cos(x) - 1)) * (math.cos(x) - beta * math.sin(x) ** 2)


def _condition(eps: float, c: float, beta: float, total: int) -> float:
    far, near = (c - 1 - 2 * eps) / math.sqrt(beta), eps / math.sqrt(beta)
    return _pull(near, beta) - total * _pull(far, beta)
