"""Query and key matrices do affect the end: a third resting place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import brentq

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points, uniform
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="A simple largest eigenvalue of V and two poles",
    places=["Table 1, rows 2 and 3", "the conjectures of section 4"],
    claim=(
        "Under a causal mask, with any Q and K and almost any start, tokens end at ξ or −ξ if V "
        "has a simple largest eigenvalue λ > 0 with unit eigenvector ξ (conjectured)."
    ),
    method=(
        "Two tokens on the circle with V = diag(λ, μ), Q = diag(−1, 4), K = I: run from all sides "
        "and compare the end with the zero of one equation; then random starts with Q = K = I, "
        "and a double largest eigenvalue with random Q and K."
    ),
    known="disagree",
    correction=(
        "The score may fall on the way to −ξ and rise near it: then a token rests, stably, where "
        "its pull w to the first token and its own (1−w) balance, wλ = −(1−w)(λ−μ) cos θ. An open "
        "set of starts ends there, away from ±ξ. With Q = K = I both poles are all there is."
    ),
    subject="causal",
    basis="report",
    limits=(
        "The conjecture is quoted from a reading note and a formal transcription. The "
        "counterexample is derived here, for two tokens; how often random Q and K have such "
        "places is not estimated, and the double eigenvalue is tested on few starts."
    ),
    planted="SelfAttention.beta * 0.7",
    settings={"beta": 4.0, "angles": 16, "tokens": 12, "starts": 10, "horizon": 60.0},
    fast={"angles": 6, "starts": 3, "tokens": 8},
)
LARGE, SMALL = 2.0, 1.0


def two_poles(*, beta: float, angles: int, tokens: int, starts: int, horizon: float) -> Finding:
    """Ends of the second of two tokens from all sides, and of many tokens with Q = K = I."""
    query, value = np.diag([-1.0, 4.0]), np.diag([LARGE, SMALL])
    rest: Any = brentq(_pull, 2.0, math.pi - 1e-6, args=(beta,))
    ends, curves = [], {}
    # From beyond the unstable zero of the equation between the pole ξ and the resting place.
    edge: Any = brentq(_pull, math.pi / 4, 2.0, args=(beta,))
    for begin in np.linspace(edge + 0.1, math.pi - 0.1, angles):
        places = np.array([0.3, begin])
        pair = Points(np.stack([np.cos(places), np.sin(places)], axis=1))
        run = flow(pair, SelfAttention(beta, query, None, value, causal=True), horizon, frames=121)
        curve = np.degrees(np.arctan2(run.points[:, 1, 1], run.points[:, 1, 0]))
        ends.append(curve[-1])
        curves[f"from {math.degrees(begin):.0f}°"] = (run.times, curve)
    far = float(np.abs(np.sin(np.radians(ends))).max())
    poles, points = [], []
    for seed in range(starts):
        draw = np.random.default_rng(seed)
        frame = np.linalg.qr(draw.standard_normal((4, 4)))[0]
        start = uniform(tokens, 4, seed=seed)
        simple = frame @ np.diag([2.0, 1.0, 0.5, 0.2]) @ frame.T
        run = flow(start, SelfAttention(1.0, value=simple, causal=True), horizon, frames=2)
        poles.append(1 - np.abs(run.points[-1] @ frame[:, 0]).min())
        left, right = draw.standard_normal((2, 4, 4)) / 4
        double = frame @ np.diag([2.0, 2.0, 0.5, 0.2]) @ frame.T
        field = SelfAttention(1.0, left, right, double, causal=True)
        run = flow(start, field, 2 * horizon, frames=2)
        part = frame[:, :2] @ (frame[:, :2].T @ np.asarray(start.points[0]))
        points.append(np.linalg.norm(run.points[-1] - part / np.linalg.norm(part), axis=1).max())
    rows = [
        judge("largest distance of the end from the line of ξ, two tokens", "Table 1", 0.0, far,
              absolute=1e-3),
        judge("resting place of the second token (degrees from ξ), mean", "derived",
              math.degrees(rest), float(np.mean(ends)), absolute=1e-3),
        judge("spread of resting places over starts (degrees)", "derived", 0.0,
              float(np.ptp(ends)), absolute=1e-3),
        holds("the resting place is stable: the pull turns it back", "derived",
              _pull(rest - 0.05, beta) < 0 < _pull(rest + 0.05, beta), "− before, + after",
              f"{_pull(rest - 0.05, beta):.2g}, {_pull(rest + 0.05, beta):.2g}"),
        judge("largest 1 − |⟨x, ξ⟩| at the end, Q = K = I", "Table 1", 0.0, float(max(poles)),
              absolute=1e-6),
        judge("λ double: largest distance from the direction of x_1(0) in L", "Table 1", 0.0,
              float(max(points)), absolute=1e-5),
    ]  # fmt: skip
    figure = plot_lines(
        curves, "time t (SA clock)", "angle of token 2 from ξ (degrees)",
        f"Two tokens, β = {beta:g}, V = diag(2, 1), Q = diag(−1, 4); dashed: the resting place.",
        lines=True, theory={"resting place": ([0, horizon], [math.degrees(rest)] * 2)},
    )  # fmt: skip
    return Finding(rows, {"angles": figure})


def _pull(angle: float, beta: float) -> float:
    """wλ + (1−w)(λ−μ) cos θ: positive where token 2 moves to ξ, with w = its weight on token 1."""
    c, s = math.cos(angle), math.sin(angle)
    score = -c - (-c * c + 4 * s * s)  # of token 1 at ξ above its own
    w = 1 / (1 + math.exp(-beta * score))
    return w * LARGE + (1 - w) * (LARGE - SMALL) * c
