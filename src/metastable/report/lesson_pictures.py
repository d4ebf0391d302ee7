"""Pictures of a lesson beside its curves: points on their way, and a number over two parameters."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure as Picture

from metastable.core.figure import Axis, Cloud, Film, Strip
from metastable.learn.curves import Chart, Curves, Frames
from metastable.report.drawing import draw
from metastable.report.style import CATEGORIES, INK, TIME, legend, new_figure

__all__ = ["draw_chart", "draw_frames", "draw_panels", "film_frames"]


def draw_frames(frames: Frames, count: int = 5) -> Picture:
    """A strip of at most `count` frames, evenly chosen, each point in the color of its class."""
    chosen = np.unique(np.linspace(0, len(frames.times) - 1, count).round().astype(int))
    size = (2.1 * len(chosen), 2.5)
    shown = [_cloud(frames, int(k)) for k in chosen]
    return draw(Strip(shown, columns=len(chosen), caption=frames.caption, size=size))


def film_frames(frames: Frames, seconds: float = 4.0) -> Film:
    """All frames as a film."""
    shown = [_cloud(frames, k) for k in range(len(frames.times))]
    return Film(shown, seconds, caption=frames.caption, size=(4.0, 4.2))


def draw_chart(chart: Chart) -> Picture:
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


def draw_panels(panels: Mapping[str, Curves], columns: int) -> Picture:
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


def _cloud(frames: Frames, index: int) -> Cloud:
    axes = Axis("first axis"), Axis("second axis" if index == 0 else "")
    title = f"t = {frames.times[index]:.3g}"
    return Cloud(frames.places[index], groups=frames.classes, x=axes[0], y=axes[1], title=title)
