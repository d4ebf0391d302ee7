"""A picture as data: what is shown, not how it is drawn.

A figure is one of a few shapes (lines, bars, histogram, map, cloud, strip, film, panels) with its
axes, units, clock and caption. `metastable.report.drawing` draws it with matplotlib for pages and
papers; the explorer reads `to_json()`. `to_tree` and `from_tree` take the arrays of a figure
out and put them back, so that a result folder keeps figures as numbers.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from metastable.core import show

COLORS = 24  # that stand for groups, those most unlike each other first


@dataclasses.dataclass(frozen=True)
class Axis:
    """What is measured along an axis.

    - `scale`: "linear", "log", "log2" or "symlog" (linear up to 1).
    - `limits`: both ends; an end that is None follows the data.
    - `ticks`: "" (chosen), "pi" (multiples of π/2), "integer" (whole numbers), "none"; or
      `places`, which may have `names`.
    """

    label: str = ""
    unit: str = ""
    clock: str = ""
    scale: str = "linear"
    limits: tuple[float | None, float | None] = (None, None)
    ticks: str = ""
    places: Sequence[float] = ()
    names: Sequence[str] = ()

    @property
    def text(self) -> str:
        """Label, unit and clock as one line.

        >>> Axis("time t", clock="SA").text
        'time t (SA clock)'
        """
        notes = [self.unit, f"{self.clock} clock" if self.clock not in ("", "none") else ""]
        notes = [note for note in notes if note]
        return f"{self.label} ({', '.join(notes)})" if notes else self.label


def time_axis(times: Any, clock: str, log: bool | None = None) -> Axis:
    """The time axis of a run; logarithmic, without t = 0, past three decades of frames."""
    times = np.asarray(times, float)
    later = times[times > 0]
    if log is None:
        log = later.size > 0 and times[-1] > 1000 * later[0]
    return Axis("time t", clock=clock, scale="log" if log else "linear")


@dataclasses.dataclass(frozen=True)
class Series:
    """One curve.

    - `error`: half the height of error bars, or (2, n) below and above.
    - `band`: a shaded region, (2, n) low and high.
    - `role`: "observed", "theory" (dashed) or "control" (gray).
    - `style`: "line", "points", "both" (points joined by a line), "steps", or "band" alone.
    - `group`: the number of its color, −1 for gray; None takes the next one.
    - `shade`: its place in [0, 1] on the color `scale`, "time" or "beta", instead of a group.
    - `sizes`: areas of its points, where they differ.
    - `marker`: "circle", "ring", "square", "diamond", "triangle" or "cross"; `dash`: "solid",
      "dashed", "dotted", "dashdot", or "" for that of its role; `width` of the line.
    """

    label: str
    x: Any
    y: Any
    error: Any = None
    band: Any = None
    role: str = "observed"
    style: str = "line"
    group: int | None = None
    shade: float | None = None
    scale: str = "time"
    sizes: Any = None
    marker: str = "circle"
    dash: str = ""
    width: float = 1.5


@dataclasses.dataclass(frozen=True)
class Paths:
    """Many thin curves: `values` (k, T) over `x` (T,), each in the color of its `groups` (k,)."""

    x: Any
    values: Any
    groups: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figure:
    """What every figure has: a `caption` that says what is shown, in which units and clock.

    The `kind` of a class is its name in small letters.
    """

    kind: ClassVar[str] = ""
    caption: str = ""
    size: tuple[float, float] | None = None

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__name__.lower()

    def draw(self, ax: Any = None, *, size: Any = None, style: str | None = None) -> Any:
        """The figure drawn by matplotlib; see `metastable.report.draw`."""
        return show.draw_figure(self, ax, size=size, style=style)

    def save(self, path: str | Path, *, size: Any = None, style: str | None = None) -> Path:
        """Write a PDF, SVG or PNG (a film: GIF), by the end of `path`; see `draw`."""
        return show.save_picture(self, path, size=size, style=style)

    def show(self) -> None:
        """Show the figure in a notebook; elsewhere write a page and print its path."""
        show.show(self)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]] | None:
        return None if isinstance(self, Film) else show.draw_figure(self)._repr_png_()

    def _repr_html_(self) -> str | None:
        return show.html(self) if isinstance(self, Film) else None

    def to_json(self) -> dict[str, Any]:
        """Plain values only; numbers that are not finite become None."""
        return _plain(_encode(self))

    def to_tree(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The figure without its arrays, and the arrays by their place in it."""
        arrays: dict[str, np.ndarray] = {}
        return _without_arrays(_encode(self), "", arrays), arrays


@dataclasses.dataclass(frozen=True)
class Lines(Figure):
    """Curves over one axis; `levels` are named horizontal lines, `marks` named vertical ones.

    `notes` are short texts (x, y, text) beside a place; `names` is the title of the legend.
    """

    x: Axis
    y: Axis
    series: Sequence[Series] = ()
    paths: Paths | None = None
    levels: Mapping[str, float] = dataclasses.field(default_factory=dict)
    marks: Mapping[str, float] = dataclasses.field(default_factory=dict)
    notes: Sequence[tuple[float, float, str]] = ()
    title: str = ""
    legend: bool = True
    names: str = ""
    equal: bool = False  # one scale for both axes


@dataclasses.dataclass(frozen=True)
class Bars(Figure):
    """Groups of bars side by side, one of each series at each place; `levels` as in `Lines`."""

    places: Sequence[str]
    heights: Mapping[str, Any]
    x: Axis
    y: Axis
    errors: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    levels: Mapping[str, float] = dataclasses.field(default_factory=dict)
    title: str = ""


@dataclasses.dataclass(frozen=True)
class Histogram(Figure):
    """Densities: `bins` are edges (k+1,) and heights (k,) by name, `laws` are theory's curves.

    `group` is the number of the first color, −1 for gray.
    """

    bins: Mapping[str, tuple[Any, Any]]
    x: Axis
    y: Axis = Axis("density")
    laws: Sequence[Series] = ()
    note: str = ""
    group: int = 0
    title: str = ""

    @classmethod
    def of(cls, samples: Mapping[str, Any], x: Axis, *, count: Any = 40, **rest: Any) -> Histogram:
        """From samples by name: normalised histograms of `count` bins, or on given edges."""
        bins = {}
        for name, values in samples.items():
            heights, edges = np.histogram(np.asarray(values).ravel(), count, density=True)
            bins[name] = (edges, heights)
        return cls(bins, x, **rest)


@dataclasses.dataclass(frozen=True)
class Map(Figure):
    """One number over two axes: `values` (rows, columns), NaN left blank; `lines` lie over it.

    `x_edges` and `y_edges` are the borders of the cells, or their centres (one fewer).
    `palette`: "sequential", "diverging", "density" (transparent where empty), "gray", or "groups"
    (values 0, …, COLORS − 1 are colors that differ, −1 is light gray).
    `shading`: "cells", or "smooth" (values at centres, interpolated). `notes` are short texts
    (x, y, text) at a place.
    """

    x: Axis
    y: Axis
    value: Axis
    x_edges: Any
    y_edges: Any
    values: Any
    lines: Sequence[Series] = ()
    notes: Sequence[tuple[float, float, str]] = ()
    palette: str = "sequential"
    shading: str = "cells"
    title: str = ""
    bar: bool = True
    equal: bool = False


@dataclasses.dataclass(frozen=True)
class Cloud(Figure):
    """Points in a space: "circle", "sphere", "plane", "space" (R³) or "line".

    - `points` (n, d); `masses` (n,) make dots grow, None for equal small dots.
    - `groups` (n,): number of the color of each point; −1 is gray. None for one color.
    - `segments` (k, 2, d): edges to draw, such as those of a hull; `planes` = (functional, levels).
    - `words` (n,): texts beside the points, "" for none. `view` (3, 3): right, up, towards.
    - `reach`: half the width of the frame; None follows the points.
    """

    points: Any
    space: str = "plane"
    groups: Any = None
    masses: Any = None
    segments: Any = None
    planes: tuple[Any, Any] | None = None
    words: Sequence[str] = ()
    view: Any = None
    reach: float | None = None
    x: Axis = Axis()
    y: Axis = Axis()
    title: str = ""


@dataclasses.dataclass(frozen=True)
class Strip(Figure):
    """Several clouds or maps of one thing at chosen times, side by side."""

    frames: Sequence[Figure]
    columns: int | None = None


@dataclasses.dataclass(frozen=True)
class Panels(Figure):
    """Figures in a grid, row by row; with `shared`, one legend for all, from the first."""

    panels: Sequence[Figure]
    columns: int
    shared: bool = False


@dataclasses.dataclass(frozen=True)
class Film(Figure):
    """Frames shown one after the other for `seconds`; the last stays for a second more."""

    frames: Sequence[Figure]
    seconds: float = 6.0


@dataclasses.dataclass(frozen=True)
class Custom(Figure):
    """The one escape: data, and a function of a module of ours that draws them.

    `paint` is called as paint(data, figure) with an empty matplotlib figure. A custom figure cannot
    be read back from a file, since nothing in a file may name code to run.
    """

    data: Mapping[str, Any]
    paint: Callable[[Mapping[str, Any], Any], None]


_KINDS = {c.kind: c for c in (Lines, Bars, Histogram, Map, Cloud, Strip, Panels, Film)}
_PARTS = {"axis": Axis, "series": Series, "paths": Paths}


def _encode(value: Any) -> Any:
    """Figures and their parts as dictionaries with a kind; arrays stay."""
    if isinstance(value, Custom):
        return {"kind": value.kind, "data": _encode(dict(value.data)), "caption": value.caption}
    if isinstance(value, Figure | Axis | Series | Paths):
        kind = value.kind if isinstance(value, Figure) else type(value).__name__.lower()
        fields = dataclasses.fields(value)
        return {"kind": kind} | {f.name: _encode(getattr(value, f.name)) for f in fields}
    if isinstance(value, Mapping):
        return {str(key): _encode(item) for key, item in value.items()}
    if isinstance(value, str | bytes) or value is None:
        return value
    if isinstance(value, np.ndarray) or hasattr(value, "__array__"):
        return np.asarray(value)
    if isinstance(value, Sequence):
        items = list(value)
        number = lambda item: isinstance(item, int | float) and not isinstance(item, bool)
        long = len(items) > 8 and all(map(number, items))
        return np.asarray(items) if long else [_encode(item) for item in items]
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _without_arrays(value: Any, place: str, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        inside = f"{place}." if place else ""
        return {k: _without_arrays(v, f"{inside}{k}", arrays) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_arrays(v, f"{place}.{k}", arrays) for k, v in enumerate(value)]
    if isinstance(value, np.ndarray) and value.dtype.kind in "bifu":
        arrays[place] = value
        return {"array": place}
    return _plain(value)


def from_tree(tree: Any, arrays: Mapping[str, Any]) -> Any:
    """The figure that `to_tree` took apart; ValueError for a kind it does not know."""
    if isinstance(tree, list):
        return [from_tree(item, arrays) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if set(tree) == {"array"}:
        return np.asarray(arrays[tree["array"]])
    fields = {key: from_tree(item, arrays) for key, item in tree.items() if key != "kind"}
    if "kind" not in tree:
        return fields
    made = _KINDS.get(tree["kind"]) or _PARTS.get(tree["kind"])
    if made is None:
        raise ValueError(f"kind must be a figure that can be read back; got {tree['kind']!r}.")
    return made(**fields)
