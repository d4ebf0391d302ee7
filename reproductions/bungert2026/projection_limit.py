"""At zero temperature tokens go to a projection of themselves."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points, uniform
from metastable.observe import wasserstein
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._cold import BILINEAR, VALUE, frozen_flow, projected, smooth_start

ENTRY = Entry(
    title="At zero temperature tokens go to a projection of themselves",
    places=["arXiv:2605.10931, abstract"],
    claim=(
        "As β → ∞ the tokens concentrate, exponentially fast, on the image of the start under a "
        "projection map made of Q, K and V: x ↦ Px/‖Px‖ with P the leading spectral projection of "
        "VKᵀQ."
    ),
    method=(
        "On the circle: attention at large β against the flow at zero temperature (SciPy) while "
        "tokens are dense, and that flow's Wasserstein distance to P_#μ_0, whose rate is the gap "
        "of VKᵀQ over ‖KᵀQφ‖. On the sphere with a double leading eigenvalue: tokens against "
        "their own projections."
    ),
    subject="metastability",
    basis="report",
    limits=(
        "Finitely many tokens follow the mean-field equation only until the flow has thinned them "
        "out around the repelling directions, t of about log n. P and its rate are derived here."
    ),
    planted="SelfAttention.value * 0.5",
    settings={"tokens": 800, "beta": 160.0, "horizon": 1.5, "cloud": 600, "late": 4.0},
    fast={"tokens": 400, "beta": 80.0, "cloud": 250},
)


def projection_limit(
    *, tokens: int, beta: float, horizon: float, cloud: int, late: float
) -> Finding:
    """Attention at large β, the flow at zero temperature, and the projection."""
    x = smooth_start(tokens)
    times = np.linspace(0, horizon, 7)
    run = flow(Points(x), SelfAttention(beta, query=BILINEAR, value=VALUE), horizon, frames=7)
    cold = frozen_flow(x, times, VALUE, BILINEAR)
    apart = [wasserstein(f, Points(y)) for f, y in zip(run.frames, cold, strict=True)]
    long = np.linspace(0, 8, 17)
    target = projected(x, VALUE, BILINEAR)
    path = frozen_flow(x, long, VALUE, BILINEAR)
    far = np.array([wasserstein(Points(y), target) for y in path])
    mine = [wasserstein(f, target) for f in run.frames]
    roots = np.sort(np.linalg.eigvals(VALUE @ BILINEAR).real)
    phi = np.asarray(target.points)[0]
    rate = (roots[1] - roots[0]) / np.linalg.norm(BILINEAR @ phi)
    seen = -np.polyfit(long[8:], np.log(far[8:]), 1)[0]
    # A double eigenvalue: the projection is onto a great circle.
    ball = uniform(cloud, 3, seed=1)
    value = np.diag([1.0, 1.0, 0.2])
    there = flow(ball, SelfAttention(60.0, value=value), late, frames=2).frames[-1]
    flat = np.asarray(projected(np.asarray(ball.points), value, np.eye(3)).points)
    angles = np.arccos(np.clip(np.sum(np.asarray(there.points) * flat, axis=1), -1, 1))
    first = np.arccos(np.clip(np.sum(np.asarray(ball.points) * flat, axis=1), -1, 1))
    rows = [
        holds(f"β = {beta:g}: distance from the flow at zero temperature up to t = {horizon:g}",
              "abstract", max(apart) < np.sqrt(np.log(beta) / beta) / 4,
              "below a quarter of √(log β/β)", f"{max(apart):.4f} at most"),
        judge("zero temperature: rate of the approach to P_#μ_0", "rate derived", float(rate),
              float(seen), relative=0.03),
        holds("double eigenvalue on the sphere: root mean square angle to one's own projection",
              "abstract", np.sqrt(np.mean(angles**2)) < 0.15, "below 0.15",
              f"{np.sqrt(np.mean(angles**2)):.3f}, {np.sqrt(np.mean(first**2)):.3f} at first"),
    ]  # fmt: skip
    figure = plot_lines(
        {f"β = {beta:g}": (run.times, mine), "zero temperature": (long, far)},
        Axis("time t", clock="SA"), Axis("$W_2$ to the projection (radians)", scale="log"),
        f"{tokens} tokens on the circle on the way to P_#μ_0; dashed: the rate of the gap.",
        theory={"$e^{-ct}$": (long, far[8] * np.exp(-rate * (long - long[8])))},
    )  # fmt: skip
    return Finding(rows, {"distance": figure})
