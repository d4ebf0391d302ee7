"""Snapshots of tokens on the circle and on S², alone and in a strip."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from metastable.flows import Trajectory
from metastable.measures import Points
from metastable.observe.clusters import clusters
from metastable.report.style import CATEGORIES, INK, category_colors, new_figure
from metastable.report.tracks import choose_frames, follow, partition

__all__ = ["check_drawable", "draw_snapshot", "draw_strip", "snapshot_colours", "view_of"]


def draw_strip(run: Trajectory, count: int = 6) -> Figure:
    """A strip of `count` frames of a run on the circle or S², dense where tokens move."""
    check_drawable(run)
    chosen = choose_frames(run, count)
    rows = -(-len(chosen) // 3)
    columns = -(-len(chosen) // rows)
    figure, axes = new_figure(rows, columns, size=(2.2 * columns, 2.4 * rows))
    colours, time = snapshot_colours(run)
    view = view_of(run.frames[-1])
    axes = np.atleast_1d(axes).ravel()
    for ax in axes[len(chosen) :]:
        ax.set_visible(False)
    for ax, index in zip(axes, chosen, strict=False):
        draw_snapshot(ax, run.frames[index], colours, view)
        ax.set_title(f"t = {run.times[index]:.3g}")
    caption = f"{run.frames[0].count} tokens at {len(chosen)} times of the {run.clock} clock"
    if colours is not None:
        caption += f", in the colour of their cluster at t = {time:.4g}"
    caption += "; dots grow with the mass at their place."
    if run.frames[0].dim == 3:
        caption += " Orthographic view; tokens on the far side are faint."
    figure.set_label(caption)
    return figure


def snapshot_colours(run: Trajectory) -> tuple[np.ndarray | None, float]:
    """A colour for each token, and the time whose clusters they show; None once tokens merged."""
    if follow(run) is None:
        return None, float(run.times[-1])
    groups, time = partition(run)
    return category_colors(groups.labels), time


def view_of(measure: Points) -> np.ndarray:
    """Rows right, up and towards the reader, (3, 3): the side that shows most of the mass.

    A small power of the depth favours many clusters inside the disc over one in its centre.
    North is up, and the view stays within 53° of the equator.
    """
    if measure.dim != 3:
        return np.eye(3)
    k = np.arange(400)
    height, turn = 0.8 * (2 * (k + 0.5) / k.size - 1), k * np.pi * (3 - np.sqrt(5))
    radius = np.sqrt(1 - height**2)
    sides = np.column_stack([radius * np.cos(turn), radius * np.sin(turn), height])
    depths = np.asarray(measure.points) @ sides.T
    towards = sides[np.argmax(np.asarray(measure.weights) @ np.maximum(depths, 0) ** 0.35)]
    right = np.cross([0.0, 0.0, 1.0], towards)
    right /= np.linalg.norm(right)
    return np.array([right, np.cross(towards, right), towards])


def draw_snapshot(ax: Axes, measure: Points, colours: np.ndarray | None, view: np.ndarray) -> None:
    """Tokens of one frame on the circle, or on the sphere seen along the last row of `view`."""
    ax.set_axis_off()
    ax.set_aspect("equal")
    ax.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15))
    colours = np.full(measure.count, CATEGORIES[0]) if colours is None else colours
    x, masses, heads = _gather(measure)
    colours = colours[heads]
    # Area grows with mass; a token among very many must still be seen.
    sizes = np.clip(900 * masses, 2.5, 300)
    ax.add_patch(Circle((0, 0), 1, fill=False, edgecolor=INK, linewidth=0.8))
    if measure.dim == 2:
        ax.scatter(*x.T, s=sizes, c=colours, lw=0, alpha=0.7, rasterized=True, zorder=3)
        return
    _graticule(ax, view)
    right, up, depth = view @ x.T
    for side, shade, order in ((depth < 0, 0.28, 2), (depth >= 0, 0.85, 3)):
        ax.scatter(
            right[side],
            up[side],
            s=sizes[side],
            c=colours[side],
            lw=0,
            alpha=shade,
            rasterized=True,
            zorder=order,
        )


def _gather(measure: Points) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places, masses, and one token of each: tokens too close to tell apart make one dot."""
    found = clusters(measure, angle=0.02)
    tight = found.radii < 0.04
    alone = ~np.append(tight, False)[found.labels]
    numbers, firsts = np.unique(found.labels, return_index=True)
    heads = firsts[numbers >= 0][tight]
    places = np.concatenate([np.asarray(measure.points)[alone], found.centres[tight]])
    masses = np.concatenate([np.asarray(measure.weights)[alone], found.masses[tight]])
    return places, masses, np.concatenate([np.flatnonzero(alone), heads])


def _graticule(ax: Axes, view: np.ndarray) -> None:
    """Meridians and parallels every 30°, on the near side only."""
    s = np.linspace(-np.pi, np.pi, 241)
    lines = []
    for angle in np.radians(np.arange(0, 180, 30)):
        c = np.cos(angle), np.sin(angle)
        lines.append(np.stack([np.cos(s) * c[0], np.cos(s) * c[1], np.sin(s)]))
    for height in np.radians(np.arange(-60, 61, 30)):
        c = np.cos(height)
        lines.append(np.stack([c * np.cos(s), c * np.sin(s), np.full_like(s, np.sin(height))]))
    parts = []
    for line in lines:
        right, up, depth = view @ line
        seen = np.where(depth >= 0, right, np.nan)
        parts.append(np.column_stack([seen, up]))
    ax.add_collection(LineCollection(parts, colors=INK, linewidths=0.4, alpha=0.3, zorder=1))


def check_drawable(run: Trajectory) -> None:
    """Refuse what has no picture on a disc."""
    first = run.frames[0]
    if not first.on_sphere or first.dim > 3:
        raise ValueError(f"run must be on the circle or S² to be drawn so; got {first!r}.")
