"""Films of a run of tokens: on the circle, on S², and in R^d up to d = 3."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.core import checks
from metastable.core.figure import Axis, Cloud, Figure, Film, Map, Panels
from metastable.fields import Rescaled
from metastable.flows import Trajectory
from metastable.observe.attention import attention
from metastable.observe.clusters import clusters
from metastable.observe.geometry import hull_edges
from metastable.report.figures import run as tokens


def film_on_sphere(run: Trajectory, seconds: float = 6.0, frames: int = 90) -> Film:
    """A run on the circle or S² as a film of at most `frames` of its frames, evenly chosen."""
    tokens.check_on_sphere(run)
    checks.positive("seconds", seconds)
    groups, view = tokens.cluster_of_each(run)[0], tokens.view_of(run.frames[-1])
    chosen = _evenly(run, frames)
    shown = [tokens.snapshot(run.frames[k], groups, view, _title(run, k)) for k in chosen]
    caption = f"{run.frames[0].count} tokens. {tokens.clock_sentence(run)}"
    return Film(shown, seconds, caption=caption)


def film_in_space(
    run: Trajectory, seconds: float = 6.0, frames: int = 90, *,
    planes: tuple[Any, Any] | None = None, matrix: bool = False,
) -> Film:  # fmt: skip
    """Tokens in R, R² or R³ with their convex hull, as a film.

    Tokens have the color of the place (or plane) where they end; R³ is seen from a side that
    turns slowly. `planes` are parallel hyperplanes to show, as (functional, levels). With `matrix`
    the attention matrix P(t) stands beside the tokens, rows and columns in the order of their last
    first coordinate; the run must then be one of `Rescaled`.
    """
    first, last = run.frames[0], run.frames[-1]
    if first.on_sphere or first.dim > 3:
        raise ValueError(f"run must be in R^d, d <= 3, to be drawn so; got {first!r}.")
    if matrix and not isinstance(run.field, Rescaled):
        raise ValueError(f"matrix needs a run of Rescaled(...); got {run.field!r}.")
    checks.positive("seconds", seconds)
    chosen = _evenly(run, frames)
    reach = 1.08 * max(float(np.abs(run.frames[k].points).max()) for k in chosen)
    if first.dim == 3:
        reach *= 1.15  # a turned box needs more room
    if planes is None:
        labels = clusters(last, angle=0.01 * reach).labels
    else:  # the colors of planes begin at the third
        values = np.asarray(last.points) @ np.asarray(planes[0], float)
        labels = np.abs(values[:, None] - np.asarray(planes[1])).argmin(axis=1) + 2
    order = np.argsort(np.asarray(last.points)[:, 0])
    names = {1: ("$z$", ""), 2: ("$z_1$", "$z_2$"), 3: ("", "")}[first.dim]
    same: dict[str, Any] = {"x": Axis(names[0]), "y": Axis(names[1]), "planes": planes}
    same |= {"space": "plane" if first.dim < 3 else "space", "groups": labels, "reach": reach}
    shown: list[Figure] = []
    for index, share in zip(chosen, np.linspace(0, 1, len(chosen)), strict=True):
        points = np.asarray(run.frames[index].points)
        view, title = _view_from(0.5 + share) if first.dim == 3 else None, _title(run, index)
        cloud = Cloud(points, segments=hull_edges(points), view=view, title=title, **same)
        shown.append(cloud if not matrix else Panels([cloud, _matrix(run, index, order)], 2))
    size = (4.0 + 3.6 * matrix, 4.3 if first.dim > 1 else 3.0)
    return Film(shown, seconds, caption=f"{first.count} tokens in R^{first.dim}.", size=size)


def _view_from(turn: float, tilt: float = 0.45) -> np.ndarray:
    """Rows right, up and towards, (3, 3), of an orthographic view from `turn` radians around."""
    right = np.array([-np.sin(turn), np.cos(turn), 0.0])
    towards = np.array([np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)])
    return np.array([right, np.cross(towards, right), towards])


def _matrix(run: Trajectory, index: int, order: np.ndarray) -> Map:
    field: Any = run.field
    head = field.attention
    states = field.tokens(run.frames[index], run.times[index])
    weights = np.asarray(attention(states, head.beta, head.query, head.key))[np.ix_(order, order)]
    edges = np.arange(len(order) + 1) - 0.5
    y = Axis("token i", ticks="integer", limits=(float(edges[-1]), float(edges[0])))
    axes = Axis("token j", ticks="integer"), y, Axis("", limits=(0.0, 1.0))
    title = "attention $P_{ij}(t)$"
    return Map(*axes, edges, edges, weights, title=title, bar=False, equal=True)


def _evenly(run: Trajectory, frames: int) -> np.ndarray:
    chosen = np.linspace(0, len(run.times) - 1, checks.integer("frames", frames, 2))
    return np.unique(chosen.round().astype(int))


def _title(run: Trajectory, index: int) -> str:
    return f"t = {run.times[index]:.3g} ({run.clock} clock)"
