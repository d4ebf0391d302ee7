"""How fast a cone closes, and from when on."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points, caps
from metastable.observe import hemisphere
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="How fast a cone closes, and from when on",
    places=["Lemma 6.4", "proof of Lemma 6.4, second step"],
    claim=(
        "From a hemisphere, and from some moment on, the token farthest from the final point x* "
        "closes in at least as fast as α̇ = (1 − α)/(2n e^{2β}), α its cosine with x*."
    ),
    method=(
        "Tokens from wide caps: α̇ from the field in every frame past α = 1/2, where for two "
        "tokens the inequality holds; then two nearly opposite tokens, for which the cosine from "
        "which it holds is the root of one equation."
    ),
    subject="rates",
    basis="report",
    limits=(
        "The moment in the lemma is not explicit; α = 1/2 is our choice. Softmax attention with "
        "Q = K = V = I only."
    ),
    planted="SelfAttention.beta * 1.3",
    settings={"tokens": 6, "dim": 3, "beta": 1.0, "draws": 12, "horizon": 14.0},
    fast={"draws": 4},
)


def cone_inequality(*, tokens: int, dim: int, beta: float, draws: int, horizon: float) -> Finding:
    """α̇·2n e^{2β}/(1 − α) along cones, and the cosine at which two tokens begin to obey."""
    field = SelfAttention(beta)
    ratios, falls, late, series = [], [], [], []
    for seed in range(draws):
        start = caps(tokens, np.eye(dim)[:1], 0.49 * np.pi, seed)
        run = flow(start, field, horizon, frames=141)
        alpha, ratio = closing(run.frames, field, beta)
        obeys = (alpha > 0.5) & (alpha < 1 - 1e-6)
        ratios.append(ratio[obeys].min())
        late.append(ratio[obeys][-1])
        axis = hemisphere(start).direction
        lowest = np.array([(np.asarray(f.points) @ axis).min() for f in run.frames])
        falls.append(np.diff(lowest).min())
        if seed < 3:
            series.append(Series(f"{tokens} tokens, start {seed + 1}", run.times, ratio))
    # Two tokens: 2α(1+α)/(1+e^{2β(1−α²)}) = e^{−2β}/4.
    law = lambda a: 2 * a * (1 + a) / (1 + np.exp(2 * beta * (1 - a * a))) - np.exp(-2 * beta) / 4
    root: Any = brentq(law, 1e-6, 0.9)
    half = np.arccos(np.linspace(0.5, 1.5, 41) * root)
    pairs = [
        Points(np.array([[np.cos(h), np.sin(h)], [np.cos(h), -np.sin(h)]])) for h in half
    ]  # fmt: skip
    cosine, pair_ratio = closing(pairs, field, beta, np.array([1.0, 0.0]))
    crossing = float(np.interp(1.0, pair_ratio, cosine))
    rows = [
        holds("past α = 1/2 the cone closes at least that fast", "Lemma 6.4", min(ratios) >= 1,
              "ratio at least 1", f"{min(ratios):.3g}"),
        holds("the lowest cosine with the hemisphere's axis never falls", "Lemma 6.4, first step",
              min(falls) > -1e-8, "≥ 0", f"{min(falls):.2g}"),
        judge("two tokens obey from this cosine on", "derived", root, crossing, relative=1e-3),
        # 1 − α ~ e^{−2t}, and one frame before the end the correction is of the size of 1 − α.
        judge("late ratio: the true speed 2(1 − α) over the lemma's", "derived",
              4 * tokens * np.exp(2 * beta), float(np.mean(late)), relative=1e-3),
    ]  # fmt: skip
    figure = Lines(
        Axis("time t", clock="SA"), Axis("α̇ over the lemma's lower bound", scale="log"), series,
        levels={"the lemma": 1.0},
        caption=f"Tokens from a wide cap, β = {beta:g}: how much faster than the bound α closes.",
    )  # fmt: skip
    return Finding(rows, {"ratio": figure})


def closing(frames, field, beta, target=None) -> tuple[np.ndarray, np.ndarray]:
    """α, the least cosine with the final point, and α̇ over (1 − α)/(2n e^{2β}), by frames."""
    if target is None:
        last = np.asarray(frames[-1].points).mean(axis=0)
        target = last / np.linalg.norm(last)
    alpha, ratio = [], []
    for frame in frames:
        x, v = np.asarray(frame.points), np.asarray(field.velocity(frame))
        k = np.argmin(x @ target)
        alpha.append(x[k] @ target)
        ratio.append(v[k] @ target * 2 * len(x) * np.exp(2 * beta) / (1 - alpha[-1]))
    return np.array(alpha), np.array(ratio)
