"""How figures look: one ink, colors that hold on light and dark pages, labelled axes.

The default style touches none of matplotlib's global settings and no pyplot state: every figure is
an object of its own, so figures can be drawn in threads and without a display. The paper style sets
fonts, and takes them back, while a figure is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps, rc_context, ticker
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap, to_rgba

from metastable.core.figure import COLORS, Axis
from metastable.report.picture import Measured, Picture, wrap

# Axes and text. SVG files replace it by the text color of the page they stand on (see svg.py),
# which cannot be done inside rasterised artists.
INK = "#1f2430"
# Okabe and Ito's color-blind-safe set without its black and yellow, which vanish on one of the two
# backgrounds; then two more. All eight and the grey keep ΔE ≥ 16 for each kind of color blindness.
# The other two rows were found by search, each color farthest from all before: ΔE ≥ 12 among all.
CATEGORIES = tuple(
    "#0072b2 #e69f00 #009e73 #cc79a7 #56b4e9 #d55e00 #8a2be8 #823a1b "
    "#9cc06c #9c78fc #3c3ca8 #783078 #d8a8a8 #908448 #5400fc #846048 "
    "#a83c00 #a84884 #84b4cc #e424c0 #789c30 #fc6c84 #7854d8 #6c90e4".split()
)
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


@dataclass(frozen=True)
class Look:
    """Fonts (none: matplotlib's own), the scale of letters and lines, and widths in inches."""

    settings: Any = None
    letters: float = 1.0
    lines: float = 1.0
    width: float | None = None  # of a figure of one panel; None for its own


COLUMN, PAGE = 3.25, 6.75  # inches, of journals with two columns
WIDTHS = {"column": COLUMN, "page": PAGE}
LOOKS = {
    "default": Look(),
    # STIX comes with matplotlib and sits beside Times and its like; what it lacks, DejaVu has.
    "paper": Look(
        {
            "font.family": ["STIXGeneral", "DejaVu Serif"],
            "mathtext.fontset": "stix",
            "axes.unicode_minus": True,
        },
        letters=0.8,
        lines=0.75,
        width=COLUMN,
    ),
}
_chosen = "default"
_look: ContextVar[Look] = ContextVar("look", default=LOOKS["default"])


class Chosen:
    """The style chosen; as a context manager, until the end of the block."""

    def __init__(self, name: str, before: str):
        self.name, self.before = name, before

    def __enter__(self) -> Chosen:
        return self

    def __exit__(self, *_: object) -> None:
        style(self.before)

    def __repr__(self) -> str:
        return f"style({self.name!r})"


def style(name: str) -> Chosen:
    """Choose how all figures are drawn and saved from now on: "paper", or "default" again.

    "paper" is for print: letters of 8 points in STIX (no LaTeX is needed, and it sits well beside
    TeX's text), thinner lines, one panel at the width of a column (3.25 in), more at that of a
    page (6.75 in). In `with style("paper"):` it ends with the block.
    """
    global _chosen
    _known(name)
    before, _chosen = _chosen, name
    return Chosen(name, before)


@contextmanager
def styled(name: str | None) -> Iterator[str]:
    """Draw inside in a style, by default the one chosen; gives its name."""
    name = _chosen if name is None else name
    look = _known(name)
    token = _look.set(look)
    try:
        if look.settings is None:
            yield name
        else:
            with rc_context(look.settings):
                yield name
    finally:
        _look.reset(token)


def _known(name: str) -> Look:
    if name not in LOOKS:
        raise ValueError(f"style must be 'default' or 'paper'; got {name!r}: choose one.")
    return LOOKS[name]


def letters(points: float) -> float:
    """A size of letters in the style at hand; nothing is smaller than 6 points in print."""
    scale = _look.get().letters
    return points if scale == 1 else max(scale * points, 6.0)


def lines(width: float) -> float:
    """A width of lines, or a size of markers, in the style at hand."""
    return _look.get().lines * width


def fitted(asked: Any, own: tuple[float, float]) -> tuple[float, float]:
    """The size in inches for `asked`: None, "column", "page" or (width, height).

    The first three keep the proportions of the figure's `own` size.
    """
    if asked is None:
        width = _look.get().width
        if width is None:
            return own
        asked = "column" if own[0] < 5.5 else "page"
    if isinstance(asked, str):
        if asked not in WIDTHS:
            raise ValueError(
                f"size must be 'column', 'page' or (width, height) in inches; got {asked!r}."
            )
        return WIDTHS[asked], own[1] * WIDTHS[asked] / own[0]
    width, height = map(float, asked)
    if not (0 < width < 100 and 0 < height < 100):
        raise ValueError(f"size must be (width, height) in inches, up to 100; got {asked!r}.")
    return width, height


def new_figure(
    rows: int = 1, columns: int = 1, size: tuple[float, float] = (4.6, 3.1)
) -> tuple[Picture, Any]:
    """A figure of `size` inches, transparent, and its axes: one, or an array of rows × columns."""
    figure = Picture(figsize=size, layout="constrained", facecolor="none")
    own: Any = {"axes_class": Measured}
    axes = figure.subplots(rows, columns, squeeze=False, subplot_kw=own)
    for ax in axes.flat:
        dress(ax)
    return figure, axes[0, 0] if rows == columns == 1 else axes


def dress(ax: Axes) -> None:
    """Give axes our ticks, spines, grid and ink."""
    for own, room in zip((ax.xaxis, ax.yaxis), room_of(ax), strict=True):
        # A tick or two an inch are read; more are drawn, laid out and measured for nothing.
        own.set_major_locator(ticker.MaxNLocator(4 if room < 2.6 else 6, steps=[1, 2, 2.5, 5, 10]))
    ax.set_facecolor("none")
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set(color=INK, linewidth=lines(0.8))
    ax.grid(color=INK, alpha=0.12, linewidth=lines(0.6))
    ax.set_axisbelow(True)
    ink_axis(ax)


def room_of(ax: Axes) -> tuple[float, float]:
    """Inches that axes have, labels included."""
    figure: Any = ax.get_figure(root=True)
    width, height = figure.get_size_inches()
    place = ax.get_subplotspec()
    if place is None:
        box = ax.get_position()
        return width * box.width + 0.6, height * box.height + 0.5
    grid = place.get_gridspec()
    return width / grid.ncols, height / grid.nrows


def set_title(ax: Axes, text: str, pad: float = 6.0) -> None:
    """A title over axes, on as many lines as it needs."""
    size = letters(9.5)
    shown = wrap(text, room_of(ax)[0] - 0.45, size)
    ax.set_title(shown, pad=pad, color=INK, fontsize=size)


def ink_axis(ax: Axes) -> None:
    """Ticks, tick labels and axis labels in ink, at a size that stands being halved."""
    settings = _look.get().settings
    family: Any = {} if settings is None else {"labelfontfamily": settings["font.family"]}
    ax.tick_params(which="both", colors=INK, labelsize=letters(9), width=lines(0.8), **family)
    for axis in (ax.xaxis, ax.yaxis):
        if settings is not None:  # axes of others have labels made before
            axis.label.set(family=settings["font.family"], math_fontfamily="stix")
        axis.label.set(color=INK, fontsize=letters(10))
        axis.get_offset_text().set(color=INK, fontsize=letters(9))


def legend(ax: Axes, labels: Sequence[str], title: str = "") -> None:
    """The names of what is drawn: on the picture, or outside it where they are many or long."""
    size = letters(8.5)
    style: dict[str, Any] = {"frameon": False, "fontsize": size, "labelcolor": INK}
    style |= {"title_fontsize": size, "title": title or None}
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
    boxes = [ax.get_position() for ax in axes]
    height = (max(box.y1 for box in boxes) - min(box.y0 for box in boxes)) * picture.get_figheight()
    text = wrap(value.text, 0.9 * height, letters(10))
    bar = picture.colorbar(mesh, ax=axes, label=text, shrink=0.9)
    bar.outline.set_visible(False)
    bar.ax.set_facecolor("none")
    ink_axis(bar.ax)


def set_axis(ax: Axes, side: str, axis: Axis, values: Sequence[Any]) -> None:
    """Label, scale, limits and ticks of one side ("x" or "y") on which `values` lie."""
    own = ax.xaxis if side == "x" else ax.yaxis
    # An upright label lies beside the axes, which are lower than their room.
    room = room_of(ax)[0] - 0.45 if side == "x" else room_of(ax)[1] - 0.3
    own.set_label_text(wrap(axis.text, room, letters(10)))
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
        own.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        own.set_minor_formatter(ticker.NullFormatter())
    if len(axis.places):
        names = list(axis.names) or [f"{place:g}" for place in axis.places]
        own.set_major_locator(ticker.FixedLocator(list(axis.places)))
        own.set_major_formatter(ticker.FixedFormatter(names))
        own.set_minor_locator(ticker.NullLocator())
        if len(names) > 12 and axis.names:  # words at every place
            own.set_tick_params(labelsize=letters(6.5))
        if side == "x" and sum(len(name) + 1 for name in names) > LETTERS * room_of(ax)[0]:
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

    Past twelve decades every second, fifth, ... power has a tick; within two, 1, 2 and 5 times the
    powers have plain numbers.
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
    elif high - low < 2 and max(abs(low), abs(high)) < 5:  # 30, 50, 70: not 3×10¹ beside 4×10¹
        subs = (1, 2, 5) if high - low > 0.8 else (1, 2, 3, 4, 5, 6, 8)
        own.set_major_locator(ticker.LogLocator(subs=subs))
        own.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        own.set_minor_formatter(ticker.NullFormatter())


def _multiple_of_pi(value: float, _: object = None) -> str:
    halves = round(value / (np.pi / 2))
    if halves == 0:
        return "0"
    sign, count = "−" if halves < 0 else "", abs(halves) if halves % 2 else abs(halves) // 2
    return f"{sign}{'' if count == 1 else count}π{'/2' if halves % 2 else ''}"


def category(group: int) -> str:
    """The color of a group: its own, or grey for −1 and past the last."""
    return CATEGORIES[group] if 0 <= group < COLORS else OTHER


def category_colors(labels: np.ndarray) -> np.ndarray:
    """A color for each label 0, 1, …: the heaviest groups have their own, all others are grey."""
    palette = np.array([*CATEGORIES, OTHER])
    labels = np.where(labels < 0, len(CATEGORIES), labels)
    return palette[np.minimum(labels, len(CATEGORIES))]
