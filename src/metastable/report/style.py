"""How figures look: one ink, colours that hold on light and dark pages, labelled axes.

Nothing here touches matplotlib's global settings or its pyplot state: every figure is an object of
its own, so figures can be drawn in threads and without a display.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap
from matplotlib.figure import Figure

__all__ = [
    "BETA",
    "CATEGORIES",
    "DENSITY",
    "INK",
    "OTHER",
    "TIME",
    "category_colors",
    "ink_axis",
    "legend",
    "new_figure",
    "paper_style",
    "time_axis",
]

# Axes and text. SVG files replace it by the text colour of the page they stand on (see svg.py),
# which cannot be done inside rasterised artists.
INK = "#1f2430"
# Okabe and Ito's colour-blind-safe set without its black and yellow, which vanish on one of the two
# backgrounds; then two more. All eight and the grey keep ΔE ≥ 16 for each kind of colour blindness.
CATEGORIES = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#8a2be8",
    "#823a1b",
)
OTHER = "#585858"


def _cut(name: str, low: float, high: float) -> Colormap:
    """A map without its ends, which are too close to black or white for one of the backgrounds."""
    return ListedColormap(colormaps[name](np.linspace(low, high, 256)), f"{name}_cut")


def _veil() -> Colormap:
    """From transparent to opaque, blue to vermilion: empty is the page itself, light or dark."""
    stops = np.array([[86, 180, 233], [0, 114, 178], [142, 84, 178], [213, 94, 0]]) / 255
    at, s = [0, 0.5, 0.75, 1], np.linspace(0, 1, 256)
    channels = [np.interp(s, at, stops[:, k]) for k in range(3)]
    return ListedColormap(np.column_stack([*channels, np.interp(s, at, [0.12, 0.8, 1, 1])]), "veil")


TIME, BETA, DENSITY = _cut("viridis", 0.15, 0.9), _cut("plasma", 0.2, 0.85), _veil()


def new_figure(
    rows: int = 1, columns: int = 1, size: tuple[float, float] = (4.6, 3.1)
) -> tuple[Figure, Any]:
    """A figure of `size` inches, transparent, and its axes: one, or an array of rows × columns."""
    figure = Figure(figsize=size, layout="constrained", facecolor="none")
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.flat:
        ax.set_facecolor("none")
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set(color=INK, linewidth=0.8)
        ax.grid(color=INK, alpha=0.12, linewidth=0.6)
        ax.set_axisbelow(True)
        ink_axis(ax)
        ax.title.set(color=INK, fontsize=9.5)
    return figure, axes[0, 0] if rows == columns == 1 else axes


def ink_axis(ax: Axes) -> None:
    """Ticks, tick labels and axis labels in ink, at a size that stands being halved."""
    ax.tick_params(which="both", colors=INK, labelsize=9, width=0.8)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set(color=INK, fontsize=10)
        axis.get_offset_text().set(color=INK, fontsize=9)


def legend(ax: Axes, **where: Any) -> None:
    shown = ax.legend(frameon=False, fontsize=8.5, labelcolor=INK, title_fontsize=8.5, **where)
    shown.get_title().set_color(INK)


def time_axis(ax: Axes, times: np.ndarray, clock: str, log: bool | None = None) -> None:
    """Label the x axis with its clock; logarithmic, without t = 0, past three decades of frames."""
    first, last = float(times[times > 0][0]), float(times[-1])
    if log is None:
        log = last > 1000 * first
    # A little air on both sides, or markers of the first and last frame are cut in half.
    if log:
        air = (last / first) ** 0.01
        ax.set_xscale("log")
        ax.set_xlim(first / air, last * air)
    else:
        air = 0.01 * (last - times[0])
        ax.set_xlim(times[0] - air, last + air)
    ax.set_xlabel("time t" if clock == "none" else f"time t ({clock} clock)")


def category_colors(labels: np.ndarray) -> np.ndarray:
    """A colour for each label 0, 1, …: the heaviest groups have their own, all others are grey."""
    palette = np.array([*CATEGORIES, OTHER])
    labels = np.where(labels < 0, len(CATEGORIES), labels)
    return palette[np.minimum(labels, len(CATEGORIES))]


@contextmanager
def paper_style(style: str) -> Iterator[None]:
    """Settings while a figure is drawn: none for "page"; serif fonts that match TeX for "paper"."""
    if style == "page":
        yield
        return
    if style != "paper":
        raise ValueError(f"style must be 'page' or 'paper'; got {style!r}.")
    settings = {"font.family": "serif", "mathtext.fontset": "cm", "pdf.fonttype": 42}
    with rc_context(settings):
        yield
