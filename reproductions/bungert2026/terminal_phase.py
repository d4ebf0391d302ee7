"""In the end the value matrix alone decides."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.observe import wasserstein
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._cold import projected, smooth_start

ENTRY = Entry(
    title="In the end the value matrix alone decides",
    places=["arXiv:2605.10931, abstract, numerical experiments"],
    claim=(
        "For finite β and late times the tokens leave the projection for a terminal phase that "
        "the spectrum of V governs."
    ),
    method=(
        "On the circle with leading eigenvectors of VKᵀQ and of V at a right angle: distance to "
        "the projection and to ± the leading eigenvector of V, and the late rate of the latter "
        "against the gap of V, as a cluster c moves by ċ = P_cVc."
    ),
    subject="metastability",
    basis="abstract",
    limits="Diagonal matrices on the circle and moderate β, so that the end is reached.",
    planted="SelfAttention.value * 1.3",
    settings={"tokens": 120, "betas": [4.0, 8.0, 16.0], "horizon": 60.0},
    fast={"tokens": 60, "betas": [4.0, 8.0]},
)


def terminal_phase(*, tokens: int, betas: list[float], horizon: float) -> Finding:
    """First near the projection of VKᵀQ, then at the eigenvectors of V."""
    value, query = np.diag([1.0, 0.6]), np.diag([0.5, 2.0])
    x = smooth_start(tokens)
    first = projected(x, value, query)
    near, order, rates, ends, curves = [], [], [], [], {}
    for beta in betas:
        run = flow(Points(x), SelfAttention(beta, query=query, value=value), horizon, frames=121)
        early = np.array([wasserstein(frame, first) for frame in run.frames])
        angle = np.abs(np.arctan(run.points[:, :, 1] / run.points[:, :, 0]))
        late = np.sqrt(np.mean(angle**2, axis=1))
        near.append(early.min() / early[0])
        ends.append(late[-1])
        order.append(run.times[early.argmin()] < run.times[np.flatnonzero(late < 0.1)[0]])
        part = (late < 0.05) & (late > 1e-7)
        rates.append(-np.polyfit(run.times[part], np.log(late[part]), 1)[0])
        curves[f"to the projection, β = {beta:g}"] = (run.times, early)
        curves[f"to ±φ of V, β = {beta:g}"] = (run.times, late + 1e-16)
    gap = value[0, 0] - value[1, 1]
    rows = [
        holds("at the end all tokens are at ± the leading eigenvector of V: largest angle",
              "abstract", max(ends) < 1e-4, "< 1e-4", f"{max(ends):.1e}"),
        holds("before that they come near the projection: least distance over the first",
              "abstract", max(near) < 0.5 and all(order), "below a half, earlier",
              f"{max(near):.2f} at most"),
        judge("late rate of the angle, farthest from the gap of V", "derived", gap,
              float(max(rates, key=lambda r: abs(r - gap))), relative=0.02),
    ]  # fmt: skip
    figure = plot_lines(
        curves, Axis("time t", clock="SA"), Axis("distance (radians)", scale="log"),
        "Tokens on the circle: first to the leading eigenvectors of VKᵀQ, then to those of V.",
        lines=True,
    )  # fmt: skip
    return Finding(rows, {"phases": figure})
