"""Two time scales."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import Rescaled, SelfAttention
from metastable.flows import Hardmax, flow
from metastable.measures import Points, gaussian_points
from metastable.observe import hull, leaders
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from .._slopes import fitted_slope
from ._pure_attention import positive_query, pure_run

ENTRY = Entry(
    title="Two time scales",
    places=["section on two timescales (proof of Theorem 2)"],
    claim=(
        "During times of order 1 hulls shrink; after that β = exp(2t) is gigantic, and the "
        "velocity is, up to a small error, the sum of z_j - z_i over the argmax of the "
        "logits."
    ),
    method=(
        "Compare the softmax velocity with its argmax form along runs, with single and with "
        "doubled tokens; follow the hull's area; continue from t = 3 by the event-driven "
        "limit β = ∞ and compare the ends."
    ),
    subject="clusters",
    basis="text",
    limits=(
        "Twenty prompts of 20 tokens in the plane up to t = 10.7; the switch to β = ∞ at one "
        "time, t = 3."
    ),
    planted="pure_run.horizon * 0.3",
    settings={"tokens": 20, "draws": 20, "horizon": 10.6667},
    fast={"draws": 6},
)


def two_time_scales(*, tokens: int, draws: int, horizon: float) -> Finding:
    """When softmax may be replaced by argmax, and what the hull does before and after."""
    gaps, areas, ends = [], [], []
    for seed in range(draws):
        query = positive_query(2, seed)
        run = pure_run(gaussian_points(tokens, 2, seed=seed), horizon, query=query)
        field: Rescaled = run.field  # pyright: ignore[reportAssignmentType]
        gaps.append([argmax_gap(z, field, t) for t, z in zip(run.times, run.frames, strict=True)])
        area = np.array([hull(frame).volume for frame in run.frames])
        areas.append(area / area[0])
        # From t = 3 on, the event-driven limit should lead to the same places.
        chase = flow(run.frames[9], field, math.inf, stepper=Hardmax(), frames=2)
        places = np.asarray(chase.frames[-1].points)
        apart = np.asarray(run.frames[-1].points)[:, None] - places
        ends.append(float(np.linalg.norm(apart, axis=2).min(axis=1).max()))
    gaps, areas = np.array(gaps), np.array(areas)
    doubled = gaussian_points(tokens, 2, seed=0)
    twice = Points(np.repeat(np.asarray(doubled.points), 2, axis=0), on_sphere=False)
    plain = Rescaled(SelfAttention(1.0))
    late = horizon / 2
    left = (areas - areas[:, -1:]).mean(axis=0)
    rest = (run.times >= 3) & (run.times <= 8)
    rows = [
        holds(
            f"once e^{{2t}} is gigantic, ż_i ≈ Σ (z_j − z_i) over j in argmax⟨Az_i,Az_k⟩: largest "
            f"relative gap at t = {horizon:g}",
            "section on two timescales",
            gaps[:, -1].max() < 1e-6 < gaps[:, 0].min(),
            "order 1 at t = 0, below 1e−6 at the end",
            f"{gaps[:, 0].min():.2f} at t = 0, {gaps[:, -1].max():.1e} at the end",
        ),
        judge(
            "with equal tokens it is the mean over the argmax, not the sum: sum over velocity for "
            "tokens taken twice",
            "section on two timescales, corrected",
            2.0,
            _sum_over_mean(twice, plain, late),
            absolute=1e-3,
        ),
        judge(
            "during t = O(1) hulls shrink and then come to rest: rate r of the area left, e^{−rt}",
            "section on two timescales; rate derived here",
            1.0,
            -fitted_slope(run.times[rest], np.log(left[rest])),
            absolute=0.1,
        ),
        judge(
            "attention at β = ∞ from t = 3 leads each token to the same place: largest distance",
            "section on two timescales",
            0.0,
            max(ends),
            absolute=0.05,
            reason="the softmax still moves the leaders a little after t = 3",
        ),
    ]
    figure = plot_lines(
        {
            "gap to argmax, slowest prompt": (run.times, np.maximum(gaps.max(axis=0), 1e-17)),
            "area left to lose, mean": (
                run.times[:-1], np.maximum(left[:-1], 1e-17),
            ),
        },
        "time t (SA clock)",
        "relative size",
        f"Two time scales of {tokens} tokens, {draws} prompts: softmax becomes argmax doubly "
        "exponentially, while the hull comes to rest.",
        theory={"$e^{-t}$": (run.times, np.exp(-run.times))},
        log="y",
        lines=True,
    )  # fmt: skip
    return Finding(rows, {"scales": figure})


def argmax_gap(measure: Points, field: Rescaled, t: float) -> float:
    """Largest ‖ż_i − Σ_{argmax}(z_j − z_i)‖ in units of the largest token."""
    z = np.asarray(measure.points)
    chosen = leaders(measure, field.attention.query, field.attention.key)
    exact = np.asarray(field.velocity(measure, t=t))
    size = np.linalg.norm(z, axis=1).max()
    return float(np.linalg.norm(exact - (z[chosen] - z), axis=1).max() / size)


def _sum_over_mean(measure: Points, field: Rescaled, t: float) -> float:
    """Size of the sum over the argmax relative to the velocity, tokens far from rest only."""
    z = np.asarray(measure.points)
    scores = z @ z.T
    chosen = scores >= scores.max(axis=1, keepdims=True) - 1e-12
    total = chosen @ z - chosen.sum(axis=1)[:, None] * z
    exact = np.asarray(field.velocity(measure, t=t))
    moving = np.linalg.norm(total, axis=1) > 0.1
    ratio = np.linalg.norm(total[moving], axis=1) / np.linalg.norm(exact[moving], axis=1)
    return float(np.median(ratio))
