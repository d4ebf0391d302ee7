"""Runs of pure attention in R^d and what is read off their ends, shared by the entries on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.fields import Rescaled, SelfAttention
from metastable.flows import Trajectory, flow
from metastable.flows.steppers import Adaptive
from metastable.measures import Points
from metastable.observe import attention, clusters, hull, hull_contains
from metastable.theory.limits import polytope_residual

__all__ = [
    "drop_legends",
    "fitted_slope",
    "last_attention",
    "legend_below",
    "limit_corners",
    "pure_run",
    "residual_rate",
    "skew_value",
]


def pure_run(
    start: Points, horizon: float, *, value: Any = None, query: Any = None, frames: int = 33
) -> Trajectory:
    """z = e^{−tV}x of pure attention with β = 1 and Q = K, from `start` in R^d."""
    field = Rescaled(SelfAttention(1.0, query, query, value))
    return flow(start, field, horizon, frames=frames, stepper=Adaptive(max_steps=30_000))


def fitted_slope(x: Any, y: Any) -> float:
    return float(np.polyfit(np.asarray(x), np.asarray(y), 1)[0])


def limit_corners(measure: Points, tolerance: float = 1e-3) -> np.ndarray:
    """Vertices of the limit polytope: merged tokens outside the hull of the other ones."""
    places = clusters(measure, angle=tolerance).centres
    if len(places) < 2:
        return places
    outside = []
    for i, place in enumerate(places):
        others = hull(Points(np.delete(places, i, 0), on_sphere=False))
        outside.append(not hull_contains(others, place[None], tolerance / 10)[0])
    return places[np.array(outside)]


def residual_rate(times: np.ndarray, points: np.ndarray, root: Any, after: float = 6.0) -> float:
    """Rate r in max_i |‖Az_i‖² − max_j⟨Az_i,Av_j⟩| ~ e^{−rt}, v_j the corners of the last hull."""
    corners = hull(Points(points[-1], on_sphere=False)).points
    worst = np.array([polytope_residual(z, corners, root).max() for z in points])
    late = times >= after
    return -fitted_slope(times[late], np.log(worst[late]))


def drop_legends(figure: Any) -> None:
    """Take the names off a figure whose curves are tokens: there are too many to name."""
    for shown in [*figure.legends, *(ax.get_legend() for ax in figure.axes)]:
        if shown is not None:
            shown.remove()


def legend_below(figure: Any) -> None:
    """Move the names from the picture, where they would hide curves, to below it."""
    from metastable.report.style import INK

    drop_legends(figure)
    where = {"loc": "outside lower center", "ncols": 2}
    figure.legend(frameon=False, fontsize=8.5, labelcolor=INK, **where)


def last_attention(run: Trajectory, index: int = -1) -> np.ndarray:
    """The attention matrix P(t) of one frame of a run of `pure_run`."""
    field: Any = run.field
    a = field.attention
    tokens = field.tokens(run.frames[index], run.times[index])
    return np.asarray(attention(tokens, a.beta, a.query, a.key))


def skew_value(eigenvalues: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """V with these real eigenvalues in a random skew basis (columns of the second result)."""
    size = len(eigenvalues)
    random = np.random.default_rng(seed)
    basis = np.eye(size) + 0.35 * random.normal(size=(size, size))
    basis /= np.linalg.norm(basis, axis=0)
    return basis @ np.diag(eigenvalues) @ np.linalg.inv(basis), basis
