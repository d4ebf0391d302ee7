"""Figures of a sweep: each observable over its axes, with what theory says where it says it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray
from matplotlib.figure import Figure

from metastable.core.result import Result
from metastable.report.page import Facts, Listing, Picture, Section, Table, write_page
from metastable.report.predicted import curves_for
from metastable.report.style import BETA, CATEGORIES, INK, TIME, ink_axis, legend, new_figure
from metastable.report.svg import save_figure
from metastable.sweep.spec import Sweep
from metastable.sweep.status import open_sweep, status

__all__ = ["draw_map", "draw_series", "figures_of_sweep", "report_sweep", "write_sweep"]

NAMES = {"beta": "β", "kappa": "κ", "dim": "d", "tokens": "n", "time": "time t", "clusters": "k"}
PANELS = 6  # small multiples along a third axis, at most


def report_sweep(folder: str | Path) -> Path:
    """Write `report.html` and `figures/` into a store; return the page's path.

    Cells that are not done yet are left blank, so a running sweep can be looked at.
    """
    folder = Path(folder)
    data, state = open_sweep(folder), status(folder)
    sweep = Sweep.model_validate(data.attrs["sweep"])
    facts: dict[str, Any] = {k: state[k] for k in ("cells", "done", "failed", "left")}
    facts |= {f"axis {axis}": span for axis, span in state["axes"].items()}
    facts |= {"samples in a cell": sweep.samples, "seed": sweep.seed}
    blocks: list[Any] = [Facts(facts)]
    for name, figure in figures_of_sweep(data, sweep).items():
        save_figure(figure, folder / "figures", name)
        blocks.append(Picture(figure))
    if state["failures"]:
        rows = [[cell, why["outcome"], why["message"]] for cell, why in state["failures"].items()]
        blocks.append(Table(["cell", "outcome", "why"], rows, "Failed cells"))
    blocks.append(Listing("Spec (TOML)", sweep.to_toml(), open=True))
    title = sweep.name or folder.resolve().name
    return write_page(folder / "report.html", title, Section(title, blocks))


def write_sweep(result: Result) -> Path:
    """Write `report.html` and `figures/` into the folder of a sweep; return the page's path."""
    assert result.folder is not None
    return report_sweep(result.folder)


def figures_of_sweep(data: xarray.Dataset, sweep: Sweep) -> dict[str, Figure]:
    """A figure for each observable, the mean over repetitions: a map over two axes, else lines."""
    figures = {}
    for name in sweep.observables:
        values, spread = _over_repetitions(data[name].where(data["done"]))
        curves = curves_for(name, sweep, values)
        if values.ndim == 1 or _words(values, values.dims[0]) or name in _LINES:
            figures[name] = draw_series(values, spread, curves, data)
        else:
            figures[name] = draw_map(values, curves, data)
    return figures


def _over_repetitions(every: xarray.DataArray) -> tuple[xarray.DataArray, xarray.DataArray]:
    """Mean and standard error over the repetitions done; NaN where none is, or one is infinite."""
    axis = every.dims.index("repetition")
    values = every.values
    known = ~np.isnan(values)
    count = known.sum(axis)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, values, 0).sum(axis) / count
        mean = np.where(np.isfinite(mean), mean, np.nan)
        off = np.where(known, values - np.expand_dims(mean, axis), 0)
        error = np.sqrt((off**2).sum(axis)) / count
    like = every.isel(repetition=0, drop=True)
    return like.copy(data=mean), like.copy(data=error)


# Counts and lifetimes are read off lines, one for each value of the second axis.
_LINES = ("first_clusters", "last_clusters", "lifetime", "dominant_mode")


def draw_map(values: xarray.DataArray, curves: Mapping[Any, Any], data: xarray.Dataset) -> Figure:
    """One number over two axes, as colours; panels along a third axis; theory as lines.

    `curves` gives, for a panel's value (None for a single panel), lines by label: arrays x, y.
    """
    dims = [str(d) for d in values.dims]
    x = "time" if "time" in dims else "kappa" if "kappa" in dims else dims[-1]
    y = "beta" if "beta" in dims and x != "beta" else next(d for d in dims if d != x)
    third = [d for d in dims if d not in (x, y)]
    values = values.isel({d: 0 for d in third[1:]})
    shown: list[Any] = [None]
    if third:
        every = values[third[0]].values
        kept = np.linspace(0, len(every) - 1, min(len(every), PANELS)).round().astype(int)
        shown = [every[k] for k in kept]
    columns = min(len(shown), 3)
    rows = -(-len(shown) // columns)
    size = (5.0, 3.4) if len(shown) == 1 else (3.1 * columns + 0.8, 2.6 * rows)
    figure, axes = new_figure(rows, columns, size)
    axes = np.atleast_1d(np.asarray(axes)).ravel()
    finite = values.values[np.isfinite(values.values)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    mesh: Any = None
    for ax, panel in zip(axes, shown, strict=False):
        part = values if panel is None else values.sel({third[0]: panel})
        grid = part.transpose(y, x).values
        places = (_edges(data[x].values), _edges(data[y].values))
        mesh = ax.pcolormesh(*places, grid, cmap=TIME, vmin=low, vmax=high, rasterized=True)
        for k, (label, line) in enumerate((curves.get(panel) or {}).items()):
            ax.plot(*line, color="#d55e00", lw=1.6, ls=("-", "--", ":")[k % 3], label=label)
        ax.set_xlim(places[0][0], places[0][-1])
        ax.set_ylim(places[1][0], places[1][-1])
        ax.set(xlabel=_label(x, data), ylabel=_label(y, data))
        ax.grid(False)
        if panel is not None:
            ax.set_title(f"{NAMES.get(third[0], third[0])} = {_short(panel)}")
        if ax.get_legend_handles_labels()[0]:
            legend(ax, loc="upper right")
            ax.get_legend().set(frame_on=True)
            ax.get_legend().get_frame().set(facecolor="white", alpha=0.75, linewidth=0)
    for ax in axes[len(shown) :]:
        ax.set_visible(False)
    bar = figure.colorbar(mesh, ax=list(axes[: len(shown)]), shrink=0.9)
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    ink_axis(bar.ax)
    about = values.attrs.get("long_name", values.name)
    labels = {label for lines in curves.values() for label in lines}
    figure.set_label(f"{about} over {_label(x, data)} and {_label(y, data)}{_theory(labels)}.")
    return figure


def draw_series(
    values: xarray.DataArray,
    spread: xarray.DataArray,
    curves: Mapping[Any, Any],
    data: xarray.Dataset,
) -> Figure:
    """One number along one axis, a line for each value of another, with standard errors."""
    dims = [str(d) for d in values.dims]
    x = next((d for d in ("time", "beta") if d in dims), dims[-1])
    others = [d for d in dims if d != x]
    values = values.isel({d: 0 for d in others[1:]})
    spread = spread.isel({d: 0 for d in others[1:]})
    figure, ax = new_figure(size=(5.2, 3.5))
    lines: list[Any] = [None] if not others else list(values[others[0]].values)
    wordy = bool(others) and _words(values, others[0])
    spectrum = BETA(np.linspace(0, 1, max(len(lines), 2)))
    colours = [CATEGORIES[k % 8] for k in range(len(lines))] if wordy else spectrum
    clustering = values.name == "similarity" and x == "time"
    told: dict[str, str] = {}
    for colour, line in zip(colours, lines, strict=False):
        part = values if line is None else values.sel({others[0]: line})
        error = spread if line is None else spread.sel({others[0]: line})
        label = None if line is None else _short(line)
        place, height = data[x].values, part.values
        if clustering:  # 1 − γ tells exponential, stretched and power laws apart
            height = np.where((height < 1 - 1e-13) & (place > 0), 1 - height, np.nan)
            ax.plot(place, height, color=colour, lw=1.5, label=label)
        else:
            known = np.isfinite(height)
            seen = place[known], height[known], error.values[known]
            ax.errorbar(*seen, fmt="o", ms=4.5, color=colour, capsize=2, lw=1, label=label)
        for name, curve in (curves.get(line) or {}).items():
            style = told.setdefault(name, ("--", ":")[len(told) % 2])
            ax.plot(*curve, color=INK if clustering or not others else colour, ls=style, lw=1.1)
    for name, style in told.items():
        ax.plot([], [], color=INK, ls=style, lw=1.1, label=name)
    about = values.attrs.get("long_name", str(values.name))
    ax.set(xlabel=_label(x, data), ylabel="1 − mean cosine" if clustering else _axis(values))
    if clustering:
        ax.set(xscale="log", yscale="log")
    elif values.name == "lifetime":
        ax.set_yscale("log")
    if ax.get_legend_handles_labels()[0]:
        title = NAMES.get(others[0], others[0]) if others else None
        legend(ax, loc="best", title=title, ncols=2 if len(lines) > 4 else 1)
    labels = {label for each in curves.values() for label in each}
    figure.set_label(f"{about[0].upper()}{about[1:]} against {_label(x, data)}{_theory(labels)}.")
    return figure


def _axis(values: xarray.DataArray) -> str:
    words = {"lifetime": "lifetime", "dominant_mode": "dominant degree"}
    return words.get(str(values.name), str(values.name).replace("_", " "))


def _theory(labels: set[str]) -> str:
    return f"; lines: {', '.join(sorted(labels))}" if labels else ""


def _label(dim: str, data: xarray.Dataset) -> str:
    clock = data[dim].attrs.get("clock")
    return NAMES.get(dim, dim) + (f" ({clock} clock)" if clock not in (None, "none") else "")


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)


def _words(values: xarray.DataArray, dim: Any) -> bool:
    return values[dim].dtype.kind not in "if"


def _edges(places: np.ndarray) -> np.ndarray:
    """Borders half way between places; the outer ones as far out as in."""
    if len(places) == 1:
        return np.array([places[0] - 0.5, places[0] + 0.5])
    middles = (places[1:] + places[:-1]) / 2
    return np.concatenate([[2 * places[0] - middles[0]], middles, [2 * places[-1] - middles[-1]]])
