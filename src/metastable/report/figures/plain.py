"""Figures of plain numbers: lines, bars, histograms and images, from arrays by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from metastable.core.figure import Axis, Bars, Histogram, Lines, Map, Series

# By name: x, y and perhaps the error of y.
Curves = Mapping[str, tuple[Any, Any] | tuple[Any, Any, Any]]


def plot_lines(
    curves: Curves, x: str | Axis, y: str | Axis, caption: str, *, theory: Curves | None = None,
    log: str = "", lines: bool = False, **rest: Any,
) -> Lines:  # fmt: skip
    """What was measured as points (with `lines`, joined; whole numbers by steps), theory dashed.

    `log` names the logarithmic axes: "x", "y" or "xy". `rest` are fields of `Lines`.
    """
    whole = bool(curves) and all(
        np.asarray(curve[1]).dtype.kind in "iu" for curve in curves.values()
    )
    joined = "steps" if whole else "line"
    style = lambda curve: "points" if not lines else joined if len(curve) == 2 else "both"
    series = [Series(name, *curve, style=style(curve)) for name, curve in curves.items()]
    series += _theory(theory)
    across, up = _axis(x, "x" in log), _axis(y, "y" in log, "integer" if whole else "")
    return Lines(across, up, series, caption=caption, **rest)


def plot_bars(
    places: Sequence[Any], heights: Mapping[str, Sequence[float]], x: str | Axis, y: str | Axis,
    caption: str, *, log: bool = False, **rest: Any,
) -> Bars:  # fmt: skip
    """Groups of bars side by side, one bar of each series at each place."""
    names = [str(place) for place in places]
    return Bars(names, heights, _axis(x), _axis(y, log), caption=caption, **rest)


def plot_histograms(
    samples: Mapping[str, Any], x: str | Axis, caption: str, *, bins: Any = 40,
    laws: Curves | None = None, **rest: Any,
) -> Histogram:  # fmt: skip
    """Densities of samples, with laws as dashed lines."""
    rest |= {"laws": _theory(laws), "caption": caption}
    return Histogram.of(samples, _axis(x), count=bins, **rest)


def plot_image(
    values: Any, extent: tuple[float, float, float, float], x: str | Axis, y: str | Axis,
    value: str | Axis, caption: str, *, curves: Curves | None = None, dots: Sequence[Series] = (),
    size: tuple[float, float] = (5.0, 3.4), **rest: Any,
) -> Map:  # fmt: skip
    """Rows of numbers as shades, the first at the bottom; `extent` is left, right, low, high."""
    values = np.asarray(values, float)
    rows, columns = values.shape
    lines = [*_theory(curves), *dots]
    across, up = np.linspace(*extent[:2], columns + 1), np.linspace(*extent[2:], rows + 1)
    axes = _axis(x), _axis(y), _axis(value)
    return Map(*axes, across, up, values, lines, caption=caption, size=size, **rest)


def _theory(curves: Curves | None) -> list[Series]:
    return [Series(name, *curve, role="theory") for name, curve in (curves or {}).items()]


def _axis(given: str | Axis, log: bool = False, ticks: str = "") -> Axis:
    if isinstance(given, Axis):
        return given
    return Axis(given, scale="log" if log else "linear", ticks="" if log else ticks)
