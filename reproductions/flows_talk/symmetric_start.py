"""A symmetric start stays symmetric."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.observe import clusters
from metastable.report.figures.run import plot_angles
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.ring import ring_rates

from ._periodic import periodic

ENTRY = Entry(
    title="A symmetric start stays symmetric",
    places=["section on symmetry: a symmetric start on the circle"],
    claim=(
        "A start that a rotation maps to itself stays so; it ends in a symmetric set of "
        "clusters, which is a fixed point but not a stable one."
    ),
    method=(
        "Tokens in equal sectors of the circle, turned by one sector at every frame; then a "
        "ring of clusters displaced along its fastest mode."
    ),
    subject="clusters",
    basis="text",
    limits=(
        "Three sectors of twelve tokens on the circle at β = 5; instability for that ring alone."
    ),
    planted="SelfAttention.beta * 1.1",
    settings={"beta": 5.0, "copies": 3, "each": 12, "horizon": 40.0},
    fast={"each": 8},
)


def symmetric_start(*, beta: float, copies: int, each: int, horizon: float) -> Finding:
    """Tokens in k equal sectors stay so, end in k clusters, and these clusters are a saddle."""
    field = SelfAttention(beta)
    run = flow(periodic(copies, each, 0.0, seed=0), field, horizon, frames=61)
    step = 2 * np.pi / copies
    turn = np.array([[np.cos(step), -np.sin(step)], [np.sin(step), np.cos(step)]])
    off = max(
        np.abs(np.roll(np.asarray(x.points), -each, axis=0) - x.points @ turn.T).max()
        for x in run.frames
    )
    last = run.frames[-1]
    count = clusters(last, angle=1e-3).count
    # Mode p displaces cluster q by cos(2πpq/k); the fastest one is followed for an e-folding time.
    rates = ring_rates(beta, copies)
    fastest, p = float(rates.max()), int(rates.argmax()) + 1
    q = np.arange(copies)
    pushed = Points(_unit(step * q + 1e-5 * np.cos(step * p * q)))
    later = flow(pushed, field, 1 / fastest, frames=2).frames[-1]
    shift = [np.unwrap(_angles(x) - step * q) for x in (pushed, later)]
    size = [np.linalg.norm(s - s.mean()) for s in shift]
    rows = [
        judge(f"turned by 1/{copies} of the circle tokens fall on tokens: worst error, any time",
              "symmetric start on the circle", 0.0, float(off), absolute=1e-9),
        holds("clusters at the end", "symmetric start on the circle", count == copies, copies,
              count),
        judge("they are at rest: largest speed", "fixed point by symmetry", 0.0,
              float(np.abs(field.velocity(last)).max()), absolute=1e-7),
        judge("but unstable: rate at which a displaced ring leaves (SA clock)",
              "clustering theorem: all other fixed points are saddles; ring of k clusters", fastest,
              float(math.log(size[1] / size[0]) * fastest), relative=1e-3),
    ]  # fmt: skip
    return Finding(rows, {"angles": plot_angles(run)})


def _unit(angles: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _angles(measure: Points) -> np.ndarray:
    x = np.asarray(measure.points)
    return np.arctan2(x[:, 1], x[:, 0])
