"""Pictures of a lesson beside its curves: points on their way, and a number over two parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from metastable.learn.lesson import Chart, Curves, Frames
from metastable.report.animation import film
from metastable.report.style import CATEGORIES, INK, TIME, category_colors, legend, new_figure

__all__ = ["animate_frames", "draw_chart", "draw_frames", "draw_panels"]


def draw_frames(frames: Frames, count: int = 5) -> Figure:
    """A strip of at most `count` frames, evenly chosen, each point in the colour of its class."""
    chosen = np.unique(np.linspace(0, len(frames.times) - 1, count).round().astype(int))
    figure, axes = new_figure(1, len(chosen), size=(2.1 * len(chosen), 2.3))
    for ax, index in zip(np.ravel(axes), chosen, strict=True):
        _draw_frame(ax, frames, int(index))
    figure.set_label(frames.caption)
    return figure


def animate_frames(frames: Frames, path: str | Path, seconds: float = 4.0) -> Path:
    """Write all frames as a GIF, the last one held for a second, and return its path."""
    figure, ax = new_figure(size=(4.0, 4.2))

    def draw(index: int, _: float) -> None:
        ax.clear()
        _draw_frame(ax, frames, index)

    return film(figure, draw, range(len(frames.times)), path, seconds)


def draw_chart(chart: Chart) -> Figure:
    """The values as tiles, with a colour bar, and the lines over them."""
    figure, ax = new_figure(size=(4.8, 3.4))
    ax.grid(False)
    tiles = ax.pcolormesh(
        chart.columns, chart.rows, chart.values, cmap=TIME, shading="nearest", rasterized=True
    )
    bar = figure.colorbar(tiles, ax=ax)
    bar.set_label(chart.value, color=INK, fontsize=10)
    bar.ax.tick_params(colors=INK, labelsize=9)
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    limits = ax.get_xlim(), ax.get_ylim()
    for (name, (x, y)), style in zip(chart.lines.items(), ("-", "--", ":", "-."), strict=False):
        ax.plot(x, y, color="white", ls=style, lw=1.6, label=name)
    ax.set(xlabel=chart.x, ylabel=chart.y, xlim=limits[0], ylim=limits[1])
    if chart.lines:
        legend(ax, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        for handle in ax.get_legend().legend_handles:  # white shows on the tiles alone
            handle.set_color(INK)
    figure.set_label(chart.caption)
    return figure


def draw_panels(panels: Mapping[str, Curves], columns: int) -> Figure:
    """Curves with the same lines side by side, title → curves, on logarithmic scales."""
    rows = -(-len(panels) // columns)
    figure, axes = new_figure(rows, columns, size=(2.3 * columns, 2.3 * rows))
    axes = np.atleast_2d(axes)
    for k, (ax, (title, curves)) in enumerate(zip(axes.flat, panels.items(), strict=True)):
        for j, (name, (x, y)) in enumerate(curves.lines.items()):
            half = curves.bars.get(name)
            # A bar down to zero has no end on this scale.
            half = None if half is None else np.minimum(half, 0.9 * np.asarray(y))
            style = {"color": CATEGORIES[j], "marker": "o", "ms": 3, "lw": 1.3, "capsize": 2}
            ax.errorbar(x, y, half, label=name, **style)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_title(title, color=INK, fontsize=9.5)
        ax.set(xlabel=curves.x if k >= len(panels) - columns else "")
        ax.set(ylabel=curves.y if k % columns == 0 else "")
    low = min(ax.get_ylim()[0] for ax in axes.flat)
    high = max(ax.get_ylim()[1] for ax in axes.flat)
    for ax in axes.flat:
        ax.set_ylim(low, high)
    legend(axes[0, 0], loc="lower left")
    return figure


def _draw_frame(ax: Any, frames: Frames, index: int) -> None:
    places = frames.places[index]
    ax.scatter(*places.T, s=6, color=category_colors(frames.classes), linewidths=0)
    # Equal scales, since distances are what separates; the box follows the points, which spread.
    low, high = places.min(axis=0), places.max(axis=0)
    half = 0.55 * max(float((high - low).max()), 1e-12)
    middle = (low + high) / 2
    ax.set(xlim=(middle[0] - half, middle[0] + half), ylim=(middle[1] - half, middle[1] + half))
    ax.set_aspect("equal")
    ax.set_title(f"t = {frames.times[index]:.3g}", color=INK, fontsize=9.5)
    ax.set(xlabel="first axis", ylabel="second axis" if index == 0 else "")
