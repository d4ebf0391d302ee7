"""Tokens in R^d and their convex hulls."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from metastable.fields import Rescaled
from metastable.flows import Trajectory
from metastable.measures import Points
from metastable.observe.geometry import hull
from metastable.report.style import TIME, legend, new_figure
from metastable.report.tracks import choose_frames

__all__ = ["draw_hulls"]


def draw_hulls(run: Trajectory, count: int = 6) -> Figure:
    """Tokens and their convex hull in the first two axes, at several times."""
    if run.frames[0].dim < 2:
        raise ValueError("run must have dim >= 2 for hulls in the plane; use draw_line for dim 1.")
    figure, ax = new_figure(size=(5.4, 3.8))
    chosen = choose_frames(run, count)
    for colour, index in zip(TIME(np.linspace(0, 1, len(chosen))), chosen, strict=True):
        plane = np.asarray(run.frames[index].points)[:, :2]
        corners = _around(hull(Points(plane, run.frames[index].weights, on_sphere=False)).points)
        ax.plot(*corners.T, color=colour, lw=1.3, label=f"{run.times[index]:.3g}")
        ax.scatter(*plane.T, s=9, color=colour, lw=0, alpha=0.8, rasterized=len(plane) > 200)
    letter = "z" if isinstance(run.field, Rescaled) else "x"
    ax.set(xlabel=f"${letter}_1$", ylabel=f"${letter}_2$")
    ax.set_aspect("equal", adjustable="datalim")
    legend(ax, title=f"t ({run.clock} clock)", loc="center left", bbox_to_anchor=(1.0, 0.5))
    rescaled = " in the rescaled variable z = exp(−tV)x" if letter == "z" else ""
    flat = "" if run.frames[0].dim == 2 else ", projected to the first two axes,"
    figure.set_label(
        f"{run.frames[0].count} tokens{rescaled}{flat} and their convex hull at {len(chosen)} "
        f"times of the {run.clock} clock."
    )
    return figure


def _around(corners: np.ndarray) -> np.ndarray:
    """Corners of a convex polygon in the order of a walk around it, closed."""
    centred = corners - corners.mean(axis=0)
    order = np.argsort(np.arctan2(centred[:, 1], centred[:, 0]))
    return corners[np.append(order, order[0])]
