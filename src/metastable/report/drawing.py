"""Figures drawn: one function turns the data of any figure into a picture by matplotlib."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, Normalize

from metastable.core import figure as data
from metastable.core.figure import Figure, Map, Panels, Series, Strip
from metastable.report import styles
from metastable.report.clouds import draw_cloud
from metastable.report.picture import DPI, Picture
from metastable.report.styles import CATEGORIES, INK, OTHER, category, legend, letters, set_axis

Size = tuple[float, float] | str | None
SIZE = (4.6, 3.1)
DASHES = ("--", ":", "-.")
DASH = {"solid": "-", "dashed": "--", "dotted": ":", "dashdot": "-."}
MARKERS = {"circle": "o", "square": "s", "diamond": "D", "triangle": "v", "cross": "x", "ring": "o"}


def draw(
    figure: Figure, ax: Axes | None = None, *, size: Size = None, style: str | None = None
) -> Any:
    """Draw a figure and return matplotlib's; its label is the caption.

    - `ax`: axes of yours to draw on, for figures of one panel; their figure is returned.
    - `size`: (width, height) in inches, or "column" (3.25 in) or "page" (6.75 in), at which the
      figure keeps its proportions. By default the figure's own.
    - `style`: "default" or "paper", instead of the one chosen by `style(...)`.

    A film is drawn as its last frame; `write_film` writes the moving picture.
    """
    if isinstance(figure, data.Film):
        own = figure.size or figure.frames[-1].size
        return draw(dataclasses.replace(figure.frames[-1], size=own), ax, size=size, style=style)
    with styles.styled(style) as name:
        if ax is not None:
            if isinstance(figure, Panels | Strip | data.Custom):
                raise ValueError(f"ax must be left out for {figure.kind}, which has its own axes.")
            if size is not None:
                raise ValueError("size must be left out beside ax, whose figure has one.")
            styles.dress(ax)
            _DRAW[type(figure)](figure, ax)
            return ax.get_figure(root=True)
        if isinstance(figure, Panels | Strip):
            picture = _draw_grid(figure, size)
        elif isinstance(figure, data.Custom):
            inches = styles.fitted(size, figure.size or SIZE)
            picture = Picture(figsize=inches, layout="constrained", facecolor="none")
            figure.paint(figure.data, picture)
        else:
            picture, ax = styles.new_figure(size=styles.fitted(size, figure.size or SIZE))
            _DRAW[type(figure)](figure, ax)
        picture.settings = styles.LOOKS[name].settings
        picture.set_label(figure.caption)
        return picture


def to_svg(picture: Any) -> str:
    """A picture as SVG, on no ground. `savefig` would draw it twice."""
    buffer = io.StringIO()
    picture.set_dpi(DPI)
    picture.set_facecolor("none")
    # Without these entries matplotlib writes the date and a description with addresses.
    absent = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    FigureCanvasSVG(picture).print_svg(buffer, metadata=absent)
    return buffer.getvalue()


def _draw_grid(figure: Panels | Strip, size: Size) -> Picture:
    strip = isinstance(figure, Strip)
    parts = list(figure.frames if strip else figure.panels)
    rows = -(-len(parts) // (figure.columns or 3))
    columns = figure.columns or -(-len(parts) // rows)
    each = (2.2, 2.4) if strip else (3.4, 2.9)
    inches = styles.fitted(size, figure.size or (each[0] * columns, each[1] * rows))
    picture, axes = styles.new_figure(rows, columns, size=inches)
    flat = np.atleast_1d(np.asarray(axes)).ravel()
    for ax in flat[len(parts) :]:
        ax.set_visible(False)
    shared = not strip and figure.shared
    mesh = None
    for k, (ax, part) in enumerate(zip(flat, parts, strict=False)):
        mesh = _DRAW[type(part)](part, ax, **({"bar": not strip} if isinstance(part, Map) else {}))
        if shared and ax.get_legend() is not None:
            ax.get_legend().remove()
        if shared and k % columns:
            ax.set_ylabel("")
        if shared and k < len(parts) - columns:
            ax.set_xlabel("")
    if strip and isinstance(parts[0], Map):
        styles.color_bar(picture, mesh, list(flat[: len(parts)]), parts[0].value)
    if shared:
        handles: dict[str, Any] = {}
        for ax in flat[: len(parts)]:
            for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        if handles:
            where = {"loc": "outside lower center", "ncols": min(len(handles), 4)}
            style: dict[str, Any] = {"frameon": False, "labelcolor": INK}
            style["fontsize"] = letters(8.5)
            picture.legend(handles.values(), handles.keys(), **style, **where)
    return picture


def _draw_lines(figure: data.Lines, ax: Axes) -> None:
    theory = [s for s in figure.series if s.role == "theory"]
    paired = len(theory) == len(figure.series) - len(theory) > 1
    if figure.paths is not None:
        _draw_paths(ax, figure.paths)
    counts = {True: 0, False: 0}
    for series in figure.series:
        expected = series.role == "theory"
        k = counts[expected]
        counts[expected] += 1
        own = series.group is not None or series.shade is not None
        color = _color(series, k) if own or paired or not expected else INK
        dash = "-" if not expected else "--" if own or paired else DASHES[k % len(DASHES)]
        _draw_series(ax, series, color, DASH.get(series.dash, dash))
    names = [series.label for series in figure.series if series.label]
    names += _draw_levels(figure.levels, ax.axhline) + _draw_levels(figure.marks, ax.axvline)
    for x, y, text in figure.notes:
        ax.annotate(text, (x, y), (2, 2), textcoords="offset points", color=INK,
                    fontsize=letters(8.5))  # fmt: skip
    xs, ys = [list(figure.marks.values())], [list(figure.levels.values())]
    for series in figure.series:
        xs.append(series.x)
        ys += [series.y, *([] if series.band is None else [series.band])]
        if series.error is not None:
            half = np.atleast_2d(np.asarray(series.error, float))
            ys.append(np.asarray(series.y, float) + half[-1])
    if figure.paths is not None:
        xs, ys = [*xs, figure.paths.x], [*ys, figure.paths.values]
    _set_axes(figure, ax, xs, ys)
    if figure.equal:
        ax.set_aspect("equal", adjustable="datalim")
    if figure.legend and (len(names) > 1 or (names and len(figure.series) > 1)):
        legend(ax, names, figure.names)


def _set_axes(figure: Any, ax: Axes, xs: Sequence[Any] = (), ys: Sequence[Any] = ()) -> None:
    set_axis(ax, "x", figure.x, xs)
    set_axis(ax, "y", figure.y, ys)
    styles.set_title(ax, figure.title)


def _draw_levels(levels: Mapping[str, float], draw_level: Any) -> list[str]:
    for k, (name, level) in enumerate(levels.items()):
        draw_level(level, color=INK, lw=styles.lines(0.9), ls=DASHES[(k + 1) % 3], label=name)
    return [name for name in levels if name]


def _draw_paths(ax: Axes, paths: data.Paths) -> None:
    x, groups = np.asarray(paths.x, float), np.asarray(paths.groups)
    curves = [np.column_stack([x, values]) for values in np.asarray(paths.values, float)]
    look: dict[str, Any] = {"linewidths": styles.lines(0.7), "alpha": 0.6, "rasterized": True}
    ax.add_collection(LineCollection(curves, colors=styles.category_colors(groups), **look))
    ax.autoscale_view()
    ax.margins(y=0.03)


def _draw_series(ax: Axes, series: Series, color: Any, dash: str) -> None:
    x, y = np.asarray(series.x), np.asarray(series.y, float)
    label, width = series.label or None, styles.lines(series.width)
    if series.band is not None:
        alone = series.style == "band"
        low, high = np.asarray(series.band, float)
        filled: dict[str, Any] = {"alpha": 0.28, "label": label} if alone else {"alpha": 0.18}
        ax.fill_between(x, low, high, color=color, lw=0, **filled)
        if alone:
            return
    if series.sizes is not None:
        sizes = np.asarray(series.sizes)
        ax.scatter(x, y, sizes, color=[color], lw=0, label=label, rasterized=True)
        return
    if series.style == "steps":
        ax.step(x, y, where="post", color=color, lw=width, ls=dash, label=label)
        return
    line = dash if series.style in ("line", "both") else "none"
    marker = MARKERS[series.marker] if series.style in ("points", "both") else ""
    look: dict[str, Any] = {"ls": line, "marker": marker, "lw": width, "color": color}
    look |= {"label": label, "mew": 1.4 if series.marker in ("cross", "ring") else 0}
    look["ms"] = (2.0 if series.marker == "circle" else 3.5) + series.width
    look["ms"] = styles.lines(look["ms"])
    if series.marker == "ring":
        look |= {"ms": styles.lines(9), "mfc": "none"}
    if series.error is None:
        ax.plot(x, y, rasterized=x.size > 3000, **look)
    else:
        ax.errorbar(x, y, np.asarray(series.error, float), capsize=2, **look)


def _draw_bars(figure: data.Bars, ax: Axes) -> None:
    width = 0.8 / max(len(figure.heights), 1)
    at = np.arange(len(figure.places))
    for k, (name, heights) in enumerate(figure.heights.items()):
        look: dict[str, Any] = {"color": category(k), "label": name}
        look |= {
            "yerr": figure.errors.get(name),
            "error_kw": {"ecolor": INK, "lw": 1, "capsize": 2},
        }
        places = at + (k - (len(figure.heights) - 1) / 2) * width
        ax.bar(places, np.asarray(heights, float), width, **look)
    names = [name for name in figure.heights if name] + _draw_levels(figure.levels, ax.axhline)
    _set_axes(figure, ax)
    ax.set_xticks(at, [str(place) for place in figure.places])
    if sum(len(str(place)) for place in figure.places) > 42:
        ax.tick_params(axis="x", rotation=30)
        for text in ax.get_xticklabels():
            text.set_horizontalalignment("right")
    if len(names) > 1:
        if figure.y.limits == (None, None):
            ax.margins(y=0.1 * (len(names) + 1))  # room for the names
        legend(ax, names)


def _draw_histogram(figure: data.Histogram, ax: Axes) -> None:
    top, heavy = 0.0, 0.0
    for k, (name, (edges, heights)) in enumerate(figure.bins.items()):
        color = OTHER if figure.group < 0 else category(figure.group + k)
        heights, label = np.asarray(heights, float), name or None
        ax.stairs(heights, np.asarray(edges), fill=True, color=color, alpha=0.55, label=label)
        top = max(top, float(heights.max(initial=0.0)))
        heavy += heights[: heights.size // 2].sum() - heights[-(heights.size // 2) :].sum()
    for k, law in enumerate(figure.laws):
        color = INK if law.group is None else _color(law, k)
        dash = DASH.get(law.dash, DASHES[k % 3])
        ax.plot(np.asarray(law.x), np.asarray(law.y), dash, lw=1.3, color=color, label=law.label)
    if figure.y.limits == (None, None) and top > 0:
        ax.set_ylim(0, 1.25 * top)  # a law may rise without bound at an edge
    if figure.note:  # on the side where there is more room
        place, side = (0.96, "right") if heavy > 0 else (0.04, "left")
        style: dict[str, Any] = {"ha": side, "va": "top", "fontsize": letters(7.5), "color": INK}
        ax.text(place, 0.96, figure.note, transform=ax.transAxes, **style)
    _set_axes(figure, ax, [edges for edges, _ in figure.bins.values()])
    names = [name for name in figure.bins if name] + [law.label for law in figure.laws if law.label]
    if len(names) > 1:
        legend(ax, names)


def _draw_map(figure: Map, ax: Axes, bar: bool = True) -> Any:
    values = np.ma.masked_invalid(np.asarray(figure.values, float))
    low, high = figure.value.limits
    if figure.value.scale == "log":
        positive = values.compressed()
        positive = positive[positive > 0]
        low = float(positive.min()) if low is None and positive.size else low
        high = float(positive.max()) if high is None and positive.size else high
        norm: Any = LogNorm(low or 1e-4, high or 1.0, clip=True)
        values = np.ma.masked_less_equal(values, 0)
    elif figure.palette == "groups":
        norm = Normalize(-1.5, data.COLORS - 0.5)
    else:
        norm = Normalize(low, high)
    smooth = figure.shading == "smooth"
    edges = np.asarray(figure.x_edges, float), np.asarray(figure.y_edges, float)
    look: dict[str, Any] = {"cmap": styles.PALETTES[figure.palette], "norm": norm}
    look |= {"shading": "gouraud" if smooth else "auto", "rasterized": True}
    mesh = ax.pcolormesh(*edges, values.filled(np.nan) if smooth else values, **look)
    ax.grid(False)
    limits = ax.get_xlim(), ax.get_ylim()
    for series in (s for s in figure.lines if s.role != "theory"):
        _draw_series(ax, series, INK, "-")
    for k, series in enumerate(s for s in figure.lines if s.role == "theory"):
        _draw_series(ax, series, CATEGORIES[5], ("-", *DASHES)[k % 4])
    for x, y, text in figure.notes:
        ax.text(x, y, text, ha="center", va="center", fontsize=letters(7), color=INK)
    _set_axes(figure, ax)
    if figure.x.limits == (None, None):
        left, right = limits[0]
        if figure.x.scale == "log" and left <= 0:  # t = 0 has no place there
            left = edges[0][edges[0] > 0].min()
        ax.set_xlim(left, right)
    if figure.y.limits == (None, None):
        ax.set_ylim(*limits[1])
    if figure.equal:
        ax.set_aspect("equal")
    if figure.palette == "gray":  # pictures, which need no frame
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
    names = [series.label for series in figure.lines if series.label]
    styles.set_title(ax, figure.title, pad=6 + letters(15) * -(-len(names) // 2))
    if names:
        shown: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 2}
        ax.legend(frameon=False, fontsize=letters(8.5), labelcolor=INK, columnspacing=1.0, **shown)
    if bar and figure.bar:
        styles.color_bar(ax.get_figure(), mesh, [ax], figure.value)
    return mesh


def _color(series: Series, k: int) -> Any:
    if series.shade is not None:
        return styles.SCALES[series.scale](series.shade)
    if series.role == "control":
        return OTHER
    return category(k if series.group is None else series.group)


_DRAW: dict[type, Callable[..., Any]] = {data.Lines: _draw_lines, data.Bars: _draw_bars}
_DRAW |= {data.Histogram: _draw_histogram, Map: _draw_map, data.Cloud: draw_cloud}
