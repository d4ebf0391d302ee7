"""How figures look: one ink, colors that hold on light and dark pages, labelled axes.

Nothing here touches matplotlib's global settings or its pyplot state: every figure is an object of
its own, so figures can be drawn in threads and without a display.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from matplotlib import colormaps, rc_context, ticker
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap, to_rgba
from matplotlib.figure import Figure

from metastable.core.figure import Axis

# Axes and text. SVG files replace it by the text color of the page they stand on (see svg.py),
# which cannot be done inside rasterised artists.
INK = "#1f2430"
# Okabe and Ito's color-blind-safe set without its black and yellow, which vanish on one of the two
# backgrounds; then two more. All eight and the grey keep ΔE ≥ 16 for each kind of color blindness.
CATEGORIES = tuple("#0072b2 #e69f00 #009e73 #cc79a7 #56b4e9 #d55e00 #8a2be8 #823a1b".split())
OTHER = "#585858"
# Names on one picture at most; letters of a long name, and of one that fits beside a picture.
MANY, LONG, SHORT = 5, 34, 14
LETTERS = 11  # of tick labels on an inch


def _cut(name: str, low: float, high: float) -> Colormap:
    """A map without its ends, which are too close to black or white for one of the backgrounds."""
    return ListedColormap(colormaps[name](np.linspace(low, high, 256)), f"{name}_cut")


def _veil() -> Colormap:
    """From transparent to opaque, blue to vermilion: empty is the page itself, light or dark."""
    stops = np.array([[86, 180, 233], [0, 114, 178], [142, 84, 178], [213, 94, 0]]) / 255
    at, s = [0, 0.5, 0.75, 1], np.linspace(0, 1, 256)
    channels = [np.interp(s, at, stops[:, k]) for k in range(3)]
    return ListedColormap(np.column_stack([*channels, np.interp(s, at, [0.12, 0.8, 1, 1])]), "veil")


def _groups() -> Colormap:
    """A veil of grey for what is in no group, then the categories."""
    return ListedColormap([to_rgba(OTHER, 0.16), *map(to_rgba, CATEGORIES)], "groups")


TIME, BETA, DENSITY = _cut("viridis", 0.15, 0.9), _cut("plasma", 0.2, 0.85), _veil()
PALETTES = {"sequential": TIME, "diverging": "PuOr", "density": DENSITY, "gray": "gray"}
PALETTES["groups"] = _groups()
SCALES = {"time": TIME, "beta": BETA}


def new_figure(
    rows: int = 1, columns: int = 1, size: tuple[float, float] = (4.6, 3.1)
) -> tuple[Figure, Any]:
    """A figure of `size` inches, transparent, and its axes: one, or an array of rows × columns."""
    figure = Figure(figsize=size, layout="constrained", facecolor="none")
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.flat:
        for own, room in ((ax.xaxis, size[0] / columns), (ax.yaxis, size[1] / rows)):
            # A tick or two an inch are read; more are drawn, laid out and measured for nothing.
            own.set_major_locator(
                ticker.MaxNLocator(4 if room < 2.6 else 6, steps=[1, 2, 2.5, 5, 10])
            )
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


def legend(ax: Axes, labels: Sequence[str], title: str = "") -> None:
    """The names of what is drawn: on the picture, or outside it where they are many or long."""
    style: dict[str, Any] = {"frameon": False, "fontsize": 8.5, "labelcolor": INK}
    style |= {"title_fontsize": 8.5, "title": title or None}
    figure: Any = ax.get_figure(root=True)
    longest = max(map(len, labels), default=0)
    if len(labels) > MANY or (longest > LONG and len(labels) > 2):
        if longest > SHORT and len(figure.axes) == 1:
            columns = 2 if 2 * longest < 13 * figure.get_size_inches()[0] else 1
            shown = figure.legend(loc="outside lower center", ncols=columns, **style)
        else:
            shown = ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), **style)
    else:
        shown = ax.legend(loc="best", **style)
    shown.get_title().set_color(INK)


def color_bar(picture: Any, mesh: Any, axes: list[Axes], value: Axis) -> None:
    """A bar of the colors of `mesh` beside `axes`."""
    bar = picture.colorbar(mesh, ax=axes, label=value.text, shrink=0.9)
    bar.outline.set_visible(False)
    bar.ax.set_facecolor("none")
    ink_axis(bar.ax)


def set_axis(ax: Axes, side: str, axis: Axis, values: Sequence[Any]) -> None:
    """Label, scale, limits and ticks of one side ("x" or "y") on which `values` lie."""
    own = ax.xaxis if side == "x" else ax.yaxis
    own.set_label_text(axis.text)
    set_scale, set_limits = getattr(ax, f"set_{side}scale"), getattr(ax, f"set_{side}lim")
    powers = _powers(values) if axis.scale in ("log", "log2") else np.empty(0)
    if powers.size:  # the margins of an automatic scale overflow next to the largest numbers
        getattr(ax, f"set_autoscale{side}_on")(False)
    if axis.scale == "log2":
        set_scale("log", base=2)
        own.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    elif axis.scale == "symlog":
        set_scale("symlog", linthresh=1, linscale=0.4)
    elif axis.scale != "linear":
        set_scale(axis.scale)
    if powers.size:
        _fit_powers(own, set_limits, powers, axis.limits)
    if axis.ticks == "pi":
        own.set_major_locator(ticker.MultipleLocator(np.pi / 2))
        own.set_major_formatter(ticker.FuncFormatter(_multiple_of_pi))
    elif axis.ticks == "none":
        own.set_major_locator(ticker.NullLocator())
    elif axis.ticks == "integer" and axis.scale == "linear":
        own.set_major_locator(ticker.MaxNLocator(integer=True))
    elif axis.ticks == "integer":
        own.set_major_formatter(ticker.ScalarFormatter())
        own.set_minor_formatter(ticker.NullFormatter())
    if len(axis.places):
        names = list(axis.names) or [f"{place:g}" for place in axis.places]
        own.set_major_locator(ticker.FixedLocator(list(axis.places)))
        own.set_major_formatter(ticker.FixedFormatter(names))
        own.set_minor_locator(ticker.NullLocator())
        if len(names) > 12 and axis.names:  # words at every place
            own.set_tick_params(labelsize=6.5)
        figure: Any = ax.get_figure(root=True)
        place = ax.get_subplotspec()
        columns = 1 if place is None else place.get_gridspec().ncols
        room = LETTERS * figure.get_size_inches()[0] / columns
        if side == "x" and sum(len(name) + 1 for name in names) > room:
            own.set_tick_params(labelrotation=90)
    low, high = axis.limits
    if axis.scale == "linear" and low is not None and high is None:  # air above, as below
        top = float(getattr(ax, f"get_{side}lim")()[1])
        high = top + 0.03 * (top - low)
    if low is not None or high is not None:
        set_limits(low, high)


def _powers(values: Sequence[Any]) -> np.ndarray:
    """Logarithms of what a logarithmic axis can show; none if that is a single number."""
    shown = np.concatenate([np.ravel(np.asarray(v, float)) for v in [[], *values]])
    powers = np.log10(shown[np.isfinite(shown) & (shown > 0)])
    return powers if powers.size and np.ptp(powers) > 0 else np.empty(0)


def _fit_powers(own: Any, set_limits: Any, powers: np.ndarray, limits: Any) -> None:
    """Limits of a logarithmic axis: what is shown, with a little air, inside floating point.

    Past twelve decades every second, fifth, ... power has a tick.
    """
    low, high = float(powers.min()), float(powers.max())
    air = 0.02 * (high - low)
    low, high = max(low - air, -307.0), min(high + air, 308.0)
    low = low if limits[0] is None else math.log10(limits[0])
    high = high if limits[1] is None else math.log10(limits[1])
    set_limits(10.0**low, 10.0**high)
    if high - low > 12:
        every = next(n for n in (2, 5, 10, 20, 50, 100) if (high - low) / n < 8)
        ticks = range(math.ceil(low / every) * every, math.floor(high) + 1, every)
        own.set_major_locator(ticker.FixedLocator([10.0**k for k in ticks]))
        own.set_minor_locator(ticker.NullLocator())


def _multiple_of_pi(value: float, _: object = None) -> str:
    halves = round(value / (np.pi / 2))
    if halves == 0:
        return "0"
    sign, count = "−" if halves < 0 else "", abs(halves) if halves % 2 else abs(halves) // 2
    return f"{sign}{'' if count == 1 else count}π{'/2' if halves % 2 else ''}"


def category_colors(labels: np.ndarray) -> np.ndarray:
    """A color for each label 0, 1, …: the heaviest groups have their own, all others are grey."""
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
    settings: Any = {"font.family": "serif", "mathtext.fontset": "cm", "pdf.fonttype": 42}
    with rc_context(settings):
        yield
