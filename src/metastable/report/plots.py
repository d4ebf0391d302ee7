"""Plain plots of numbers: lines, points with errors, bars, histograms, images; labelled always."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from metastable.report.style import CATEGORIES, INK, TIME, legend, new_figure

__all__ = ["draw_bars", "draw_histograms", "draw_image", "draw_lines"]

DASHES = ("--", ":", "-.")
Curve = tuple[Any, Any] | tuple[Any, Any, Any]  # x, y and perhaps the error of y


def draw_lines(
    curves: Mapping[str, Curve],
    x: str,
    y: str,
    caption: str,
    *,
    theory: Mapping[str, Curve] | None = None,
    log: str = "",
    marks: Mapping[str, float] | None = None,
    lines: bool = False,
    size: tuple[float, float] = (4.6, 3.1),
) -> Figure:
    """What was measured as points (with `lines`, joined), what is expected as dashed lines.

    `log` names the logarithmic axes: "x", "y" or "xy". `marks` are named places on the x axis.
    """
    figure, ax = new_figure(size=size)
    for colour, (name, curve) in zip(_colours(), curves.items(), strict=False):
        error = np.asarray(curve[2]) if len(curve) == 3 else None
        shape = "-" if lines and error is None else "o-" if lines else "o"
        ax.errorbar(
            np.asarray(curve[0]), np.asarray(curve[1]), error, fmt=shape, ms=3.5, lw=1.4,
            capsize=2, color=colour, label=name, zorder=2,
        )  # fmt: skip
    paired = len(theory or {}) == len(curves) > 1
    for k, (name, curve) in enumerate((theory or {}).items()):
        dash, shade = ("--", CATEGORIES[k % 8]) if paired else (DASHES[k % len(DASHES)], INK)
        ax.plot(np.asarray(curve[0]), np.asarray(curve[1]), dash, lw=1.2, color=shade, label=name)
    for name, place in (marks or {}).items():
        ax.axvline(place, color=INK, lw=0.9, ls=":", label=name)
    if "x" in log:
        ax.set_xscale("log")
    if "y" in log:
        ax.set_yscale("log")
    elif all(np.asarray(curve[1]).dtype.kind in "iu" for curve in curves.values()):
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    return _finished(figure, ax, x, y, caption, len(curves) + len(theory or {}) + len(marks or {}))


def draw_bars(
    places: Sequence[Any],
    series: Mapping[str, Sequence[float]],
    x: str,
    y: str,
    caption: str,
    *,
    errors: Mapping[str, Sequence[float]] | None = None,
    size: tuple[float, float] = (4.6, 3.1),
) -> Figure:
    """Groups of bars side by side, one bar of each series at each place."""
    figure, ax = new_figure(size=size)
    width = 0.8 / len(series)
    at = np.arange(len(places))
    for k, (colour, (name, heights)) in enumerate(zip(_colours(), series.items(), strict=False)):
        error = (errors or {}).get(name)
        ax.bar(
            at + (k - (len(series) - 1) / 2) * width, heights, width, yerr=error, color=colour,
            label=name, error_kw={"ecolor": INK, "lw": 1, "capsize": 2},
        )  # fmt: skip
    ax.set_xticks(at, [str(place) for place in places])
    longest = max(len(str(place)) for place in places)
    if longest * len(places) > 10 * size[0]:
        ax.tick_params(axis="x", rotation=30)
        for label in ax.get_xticklabels():
            label.set_horizontalalignment("right")
    if len(series) > 1:
        ax.margins(y=0.08 * (len(series) + 1))  # room for the names
    return _finished(figure, ax, x, y, caption, len(series))


def draw_histograms(
    samples: Mapping[str, Any],
    x: str,
    caption: str,
    *,
    bins: Any = 40,
    laws: Mapping[str, Curve] | None = None,
    size: tuple[float, float] = (4.6, 3.1),
) -> Figure:
    """Densities of samples, with laws as dashed lines."""
    figure, ax = new_figure(size=size)
    for colour, (name, values) in zip(_colours(), samples.items(), strict=False):
        ax.hist(
            np.asarray(values).ravel(), bins, density=True, color=colour, alpha=0.55, label=name
        )
    for name, curve in (laws or {}).items():
        ax.plot(np.asarray(curve[0]), np.asarray(curve[1]), "--", lw=1.3, color=INK, label=name)
    return _finished(figure, ax, x, "density", caption, len(samples) + len(laws or {}))


def draw_image(
    values: Any,
    extent: tuple[float, float, float, float],
    x: str,
    y: str,
    shade: str,
    caption: str,
    *,
    curves: Mapping[str, Curve] | None = None,
    size: tuple[float, float] = (5.0, 3.4),
) -> Figure:
    """Rows of numbers as shades, the first row at the bottom, with a labelled bar."""
    figure, ax = new_figure(size=size)
    shown = ax.imshow(
        np.asarray(values), origin="lower", aspect="auto", extent=extent, cmap=TIME,
        interpolation="nearest",
    )  # fmt: skip
    bar = figure.colorbar(shown, ax=ax)
    bar.set_label(shade, color=INK, fontsize=10)
    bar.ax.tick_params(colors=INK, labelsize=9)
    ax.grid(False)
    for name, curve in (curves or {}).items():
        ax.plot(
            np.asarray(curve[0]), np.asarray(curve[1]), "--", lw=1.5, color="#d55e00", label=name
        )
    return _finished(figure, ax, x, y, caption, len(curves or {}), outside=bool(curves))


def _colours() -> Any:
    while True:
        yield from CATEGORIES


def _finished(
    figure: Figure, ax: Any, x: str, y: str, caption: str, named: int, outside: bool = False
) -> Figure:
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    if outside or named > 5:
        # Too many names to stand on the picture: they go under it.
        where = {"loc": "outside lower center", "ncols": 2 if named > 1 else 1}
        figure.legend(frameon=False, fontsize=8.5, labelcolor=INK, **where)
    elif named > 1:
        legend(ax)
    figure.set_label(caption)
    return figure
