"""Figures drawn: one function turns the data of any figure into a picture by matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure as Picture
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    MaxNLocator,
    MultipleLocator,
    NullFormatter,
    NullLocator,
    ScalarFormatter,
)

from metastable.core.figure import (
    Axis,
    Bars,
    Cloud,
    Custom,
    Figure,
    Film,
    Histogram,
    Lines,
    Map,
    Panels,
    Paths,
    Series,
    Strip,
)
from metastable.report.clouds import draw_cloud
from metastable.report.style import (
    CATEGORIES,
    DENSITY,
    INK,
    OTHER,
    TIME,
    category_colors,
    ink_axis,
    legend,
    new_figure,
    paper_style,
)

__all__ = ["draw", "write_film"]

SIZE = (4.6, 3.1)  # inches
DASHES = ("--", ":", "-.")
PALETTES = {"sequential": TIME, "density": DENSITY, "gray": "gray"}
MANY = 5  # names on one picture; with more they stand under it


def draw(
    figure: Figure,
    ax: Axes | None = None,
    *,
    size: tuple[float, float] | None = None,
    style: str = "page",
) -> Picture:
    """Draw a figure and return matplotlib's; its label is the caption.

    - `ax`: axes of yours to draw on, for figures of one panel; their figure is returned.
    - `size`: inches; by default the figure's own.
    - `style`: "page", or "paper" (a column's width, serif fonts, for TeX).

    A film is drawn as its last frame; `write_film` writes the moving picture.
    """
    if isinstance(figure, Film):
        return draw(figure.frames[-1], ax, size=size or figure.size, style=style)
    with paper_style(style):
        if ax is not None:
            if isinstance(figure, Panels | Strip | Custom):
                raise ValueError(f"ax must be left out for {figure.kind}, which has its own axes.")
            _DRAW[type(figure)](figure, ax)
            return ax.get_figure(root=True)  # pyright: ignore[reportReturnType]
        if isinstance(figure, Panels | Strip):
            picture = _draw_grid(figure, size)
        elif isinstance(figure, Custom):
            picture = Picture(size or figure.size or SIZE, layout="constrained", facecolor="none")
            figure.draw(figure.data, picture)
        else:
            picture, ax = new_figure(size=size or figure.size or SIZE)
            _DRAW[type(figure)](figure, ax)
        picture.set_label(figure.caption)
        return picture


def write_film(film: Film, path: str | Path) -> Path:
    """Write a film as a GIF and return its path; the last picture stays for a second."""
    from PIL import Image

    size = film.size or (4.0, 4.3)
    images: list[Any] = []
    for frame in film.frames:
        picture = draw(frame, size=size)
        picture.set_facecolor("white")
        canvas = FigureCanvasAgg(picture)
        canvas.draw()
        image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
        images.append(image)
    # One palette for all, from the last frame, where every color is at its fullest.
    palette = images[-1].quantize(256)
    images = [image.quantize(256, palette=palette, dither=Image.Dither.NONE) for image in images]
    each = [max(int(1000 * film.seconds / len(images)), 20)] * len(images)
    each[-1] += 1000
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    images[0].save(
        path, format="GIF", save_all=True, append_images=images[1:], duration=each, loop=0
    )
    return path


def _draw_grid(figure: Panels | Strip, size: tuple[float, float] | None) -> Picture:
    parts = list(figure.panels if isinstance(figure, Panels) else figure.frames)
    rows = -(-len(parts) // 3) if figure.columns is None else -(-len(parts) // figure.columns)
    columns = figure.columns or -(-len(parts) // rows)
    each = (2.2, 2.4) if isinstance(figure, Strip) else (3.4, 2.9)
    size = size or figure.size or (each[0] * columns, each[1] * rows)
    picture, axes = new_figure(rows, columns, size=size)
    flat = np.atleast_1d(np.asarray(axes)).ravel()
    for ax in flat[len(parts) :]:
        ax.set_visible(False)
    shared = isinstance(figure, Panels) and figure.shared
    meshes = []
    for k, (ax, part) in enumerate(zip(flat, parts, strict=False)):
        bar = isinstance(part, Map) and isinstance(figure, Panels)
        mesh = _DRAW[type(part)](part, ax, **({"bar": bar} if isinstance(part, Map) else {}))
        meshes.append(mesh)
        if shared and ax.get_legend() is not None:
            ax.get_legend().remove()
        if shared and k % columns:
            ax.set_ylabel("")
        if shared and k < len(parts) - columns:
            ax.set_xlabel("")
    if isinstance(figure, Strip) and isinstance(parts[0], Map):
        _bar(picture, meshes[-1], list(flat[: len(parts)]), parts[0].value)
    if shared:
        handles: dict[str, Any] = {}
        for ax in flat[: len(parts)]:
            for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        if handles:
            where = {"loc": "outside lower center", "ncols": min(len(handles), 4)}
            picture.legend(
                handles.values(),
                handles.keys(),
                frameon=False,
                labelcolor=INK,
                fontsize=8.5,
                **where,
            )
    return picture


def _draw_lines(figure: Lines, ax: Axes) -> None:
    named = [s for s in figure.series if s.label]
    theory = [s for s in figure.series if s.role == "theory"]
    observed = [s for s in figure.series if s.role != "theory"]
    paired = len(theory) == len(observed) > 1
    if figure.paths is not None:
        _draw_paths(ax, figure.paths)
    for k, series in enumerate(observed):
        _draw_series(ax, series, _color(series, k), "-")
    for k, series in enumerate(theory):
        color = _color(series, k) if paired or series.group is not None else INK
        _draw_series(ax, series, color, "--" if paired else DASHES[k % len(DASHES)])
    for k, (name, level) in enumerate(figure.levels.items()):
        ax.axhline(level, color=INK, lw=0.9, ls=DASHES[(k + 1) % 3], label=name)
    for k, (name, place) in enumerate(figure.marks.items()):
        ax.axvline(place, color=INK, lw=0.9, ls=DASHES[(k + 1) % 3], label=name)
    for x, y, text in figure.notes:
        ax.annotate(text, (x, y), (2, 2), textcoords="offset points", fontsize=8.5, color=INK)
    xs, ys = [s.x for s in figure.series], [s.y for s in figure.series]
    if figure.paths is not None:
        xs, ys = [*xs, figure.paths.x], [*ys, figure.paths.values]
    _set_axes(ax, figure.x, figure.y, xs, ys)
    if figure.equal:
        ax.set_aspect("equal", adjustable="datalim")
    ax.set_title(figure.title)
    count = len(named) + len(figure.levels) + len(figure.marks)
    if figure.legend and (count > 1 or (count == 1 and len(figure.series) > 1)):
        _legend(ax, count, figure.names)


def _draw_paths(ax: Axes, paths: Paths) -> None:
    x, groups = np.asarray(paths.x, float), np.asarray(paths.groups)
    curves = [np.column_stack([x, values]) for values in np.asarray(paths.values, float)]
    colors = category_colors(groups)
    ax.add_collection(
        LineCollection(curves, colors=colors, linewidths=0.7, alpha=0.6, rasterized=True)
    )
    ax.autoscale_view()
    ax.margins(y=0.03)


def _draw_series(ax: Axes, series: Series, color: Any, dash: str) -> None:
    x, y = np.asarray(series.x), np.asarray(series.y, float)
    if series.band is not None:
        low, high = np.asarray(series.band, float)
        ax.fill_between(x, low, high, color=color, alpha=0.18, lw=0)
    label = series.label or None
    if series.sizes is not None:
        ax.scatter(x, y, np.asarray(series.sizes), color, lw=0, label=label, rasterized=True)
        return
    if series.style == "steps":
        ax.step(x, y, where="post", color=color, lw=1.6, ls=dash, label=label)
        return
    line = dash if series.style in ("line", "both") else "none"
    marker = "o" if series.style in ("points", "both") else ""
    shape: dict[str, Any] = {"ls": line, "marker": marker, "ms": 3.5, "mew": 0, "lw": 1.5}
    if series.role == "theory":
        shape["lw"] = 1.2
    many = x.size > 3000
    if series.error is None:
        ax.plot(x, y, color=color, label=label, rasterized=many, **shape)
    else:
        ax.errorbar(
            x, y, np.asarray(series.error, float), color=color, label=label, capsize=2, **shape
        )


def _draw_bars(figure: Bars, ax: Axes) -> None:
    width = 0.8 / max(len(figure.heights), 1)
    at = np.arange(len(figure.places))
    for k, (name, heights) in enumerate(figure.heights.items()):
        error = figure.errors.get(name)
        ax.bar(
            at + (k - (len(figure.heights) - 1) / 2) * width,
            np.asarray(heights, float),
            width,
            yerr=error,
            color=CATEGORIES[k % len(CATEGORIES)],
            label=name,
            error_kw={"ecolor": INK, "lw": 1, "capsize": 2},
        )
    _set_axes(ax, figure.x, figure.y, [], [])
    ax.set_xticks(at, [str(place) for place in figure.places])
    if sum(len(str(place)) for place in figure.places) > 42:
        ax.tick_params(axis="x", rotation=30)
        for text in ax.get_xticklabels():
            text.set_horizontalalignment("right")
    if len(figure.heights) > 1:
        ax.margins(y=0.08 * (len(figure.heights) + 1))  # room for the names
        _legend(ax, len(figure.heights))
    ax.set_title(figure.title)


def _draw_histogram(figure: Histogram, ax: Axes) -> None:
    top = 0.0
    for k, (name, (edges, heights)) in enumerate(figure.bins.items()):
        color = CATEGORIES[k % len(CATEGORIES)]
        heights = np.asarray(heights, float)
        ax.stairs(
            heights, np.asarray(edges), fill=True, color=color, alpha=0.55, label=name or None
        )
        top = max(top, float(heights.max(initial=0.0)))
    for k, law in enumerate(figure.laws):
        ax.plot(
            np.asarray(law.x), np.asarray(law.y), DASHES[k % 3], lw=1.3, color=INK, label=law.label
        )
    if figure.y.limits == (None, None) and top > 0:
        ax.set_ylim(0, 1.25 * top)  # a law may rise without bound at an edge
    if figure.note:
        ax.text(0.04, 0.96, figure.note, transform=ax.transAxes, va="top", fontsize=7.5, color=INK)
    _set_axes(ax, figure.x, figure.y, [e for e, _ in figure.bins.values()], [])
    ax.set_title(figure.title)
    named = [name for name in figure.bins if name] + [law.label for law in figure.laws if law.label]
    if len(named) > 1:
        _legend(ax, len(named))


def _draw_map(figure: Map, ax: Axes, bar: bool = True) -> Any:
    values = np.ma.masked_invalid(np.asarray(figure.values, float))
    low, high = figure.value.limits
    if figure.value.scale == "log":
        seen = values.compressed()
        seen = seen[seen > 0]
        low = float(seen.min()) if low is None and seen.size else low
        high = float(seen.max()) if high is None and seen.size else high
        norm: Any = LogNorm(low or 1e-4, high or 1.0, clip=True)
        values = np.ma.masked_less_equal(values, 0)
    else:
        norm = Normalize(low, high)
    smooth = figure.shading == "smooth"
    mesh = ax.pcolormesh(
        np.asarray(figure.x_edges, float),
        np.asarray(figure.y_edges, float),
        values if not smooth else values.filled(np.nan),
        cmap=PALETTES[figure.palette],
        norm=norm,
        shading="gouraud" if smooth else "auto",
        rasterized=True,
    )
    ax.grid(False)
    limits = ax.get_xlim(), ax.get_ylim()
    observed = [s for s in figure.lines if s.role != "theory"]
    for series in observed:
        _draw_series(ax, series, INK, "-")
    for k, series in enumerate(s for s in figure.lines if s.role == "theory"):
        _draw_series(ax, series, CATEGORIES[5], ("-", *DASHES)[k % 4])
    _set_axes(ax, figure.x, figure.y, [], [])
    if figure.x.limits == (None, None):
        ax.set_xlim(*limits[0])
    if figure.y.limits == (None, None):
        ax.set_ylim(*limits[1])
    if figure.equal:
        ax.set_aspect("equal")
    ax.set_title(figure.title)
    if any(s.label for s in figure.lines):
        legend(ax, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    if bar and figure.bar:
        _bar(ax.get_figure(), mesh, [ax], figure.value)
    return mesh


def _draw_cloud(figure: Cloud, ax: Axes) -> None:
    draw_cloud(ax, figure)
    ax.set_title(figure.title)


def _color(series: Series, k: int) -> Any:
    if series.shade is not None:
        return TIME(series.shade)
    if series.role == "control":
        return OTHER
    group = k if series.group is None else series.group
    return OTHER if group < 0 else CATEGORIES[group % len(CATEGORIES)]


def _set_axes(ax: Axes, x: Axis, y: Axis, xs: Sequence[Any], ys: Sequence[Any]) -> None:
    for axis, side, values in ((x, "x", xs), (y, "y", ys)):
        own = ax.xaxis if side == "x" else ax.yaxis
        own.set_label_text(axis.text)
        if axis.scale == "log2":
            getattr(ax, f"set_{side}scale")("log", base=2)
            own.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        elif axis.scale == "symlog":
            getattr(ax, f"set_{side}scale")("symlog", linthresh=1, linscale=0.4)
        elif axis.scale != "linear":
            getattr(ax, f"set_{side}scale")(axis.scale)
        if axis.scale in ("log", "log2"):
            _leave_out_zero(ax, side, values)
        if axis.ticks == "pi":
            own.set_major_locator(MultipleLocator(np.pi / 2))
            own.set_major_formatter(FuncFormatter(_multiple_of_pi))
        elif axis.ticks == "integer":
            if axis.scale == "linear":
                own.set_major_locator(MaxNLocator(integer=True))
            else:
                own.set_major_formatter(ScalarFormatter())
                own.set_minor_formatter(NullFormatter())
        if len(axis.places):
            own.set_major_locator(FixedLocator(list(axis.places)))
            own.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
            own.set_minor_locator(NullLocator())
        low, high = axis.limits
        if low is not None or high is not None:
            getattr(ax, f"set_{side}lim")(low, high)


def _leave_out_zero(ax: Axes, side: str, values: Sequence[Any]) -> None:
    """On a logarithmic axis the limits follow what can be shown, with a little air."""
    parts = [np.ravel(np.asarray(v, float)) for v in values]
    seen = np.concatenate(parts) if parts else np.empty(0)
    seen = seen[np.isfinite(seen) & (seen > 0)]
    if seen.size and seen.max() > seen.min():
        air = (seen.max() / seen.min()) ** 0.02
        getattr(ax, f"set_{side}lim")(seen.min() / air, seen.max() * air)


def _legend(ax: Axes, count: int, title: str = "") -> None:
    where: dict[str, Any] = {"loc": "best"}
    if count > MANY:
        where = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
    legend(ax, title=title or None, **where)


def _bar(picture: Any, mesh: Any, axes: list[Axes], value: Axis) -> None:
    bar = picture.colorbar(mesh, ax=axes, label=value.text, shrink=0.9)
    bar.outline.set_visible(False)
    bar.ax.set_facecolor("none")
    ink_axis(bar.ax)


def _multiple_of_pi(value: float, _: object = None) -> str:
    halves = round(value / (np.pi / 2))
    sign, size = "−" if halves < 0 else "", abs(halves)
    if size == 0:
        return "0"
    whole, half = divmod(size, 2)
    if not half:
        return f"{sign}{'' if whole == 1 else whole}π"
    return f"{sign}{'' if size == 1 else size}π/2"


_DRAW: Mapping[type, Callable[..., Any]] = {
    Lines: _draw_lines,
    Bars: _draw_bars,
    Histogram: _draw_histogram,
    Map: _draw_map,
    Cloud: _draw_cloud,
}
