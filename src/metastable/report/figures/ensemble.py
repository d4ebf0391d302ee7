"""Figures of ensembles: what the starts end in, and shares and means over time."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from metastable.core.figure import Axis, Bars, Figure, Histogram, Lines, Panels, Series, time_axis
from metastable.core.result import Result
from metastable.observe.equilibria import Share

SIZE = (5.4, 3.3)
MOST_KINDS = 6  # curves of shares in one figure
MOST_BARS = 24  # whole numbers in a row that have a bar each
MOST_WORDS = 10  # of other values; those beyond are counted together
NO_END = "no end"
WHISKERS = "whiskers are 95 % intervals (Wilson)"


def figures_of_ensemble(result: Result) -> dict[str, Figure]:
    """By name: each observable at the end, then over time where there are times between.

    >>> import metastable as ms
    >>> start, count = lambda seed: ms.uniform(4, 3, seed=seed), lambda m: ms.clusters(m).count
    >>> how = {"samples": 3, "observe": {"clusters": count}, "frames": 9}
    >>> list(figures_of_ensemble(ms.ensemble(start, ms.SelfAttention(1.0), 9.0, **how)))
    ['clusters', 'clusters_over_time']
    """
    data = result.data["samples"]
    names = list(data.attrs["observed"])
    figures = {_file(name): plot_ends(result, name) for name in names}
    if data.sizes.get("time", 0) > 2:
        figures |= {f"{_file(name)}_over_time": _over_time(data, name) for name in names}
    return {name: figure for name, figure in figures.items() if figure is not None}


def plot_ensemble(result: Result) -> Figure | None:
    """Each observable at the end, up to four side by side; None where none is a single value."""
    data = result.data["samples"]
    names = list(data.attrs["observed"])
    ends = [figure for name in names if (figure := plot_ends(result, name)) is not None][:4]
    if len(ends) < 2:
        return ends[0] if ends else None
    rows = -(-len(ends) // 2)
    size, caption = (2 * 4.4, 3.1 * rows), " ".join(figure.caption for figure in ends)
    return Panels(ends, 2, size=size, caption=caption)


def plot_ends(result: Result, name: str) -> Figure | None:
    """What the starts end in: a bar for each value, or a histogram of numbers; None for arrays."""
    data = result.data["samples"]
    array = data[name].isel(time=-1) if "time" in data[name].dims else data[name]
    if array.ndim != 1:
        return None
    values, tried = array.values, int(data.attrs["starts"])
    values = values if values.dtype.kind in "biuf" else np.array([str(v) for v in values])
    about = str(array.attrs.get("about") or name.replace("_", " "))
    when = f" at {data.attrs['end']}" if "time" in data[name].dims or _at_end(data, name) else ""
    shown = {"title": f"{tried} starts{when}", "size": SIZE}
    said = about if about.lower() == name.replace("_", " ").lower() else f"{about} ({name})"
    said = f"{said[:1].upper()}{said[1:]} of {tried} independent starts{when}"
    lost = tried - len(values)
    known = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    bars = _bars(known)
    if bars is not None:
        missing = {"none": len(values) - len(known), NO_END: lost}
        bars |= {word: hits for word, hits in missing.items() if hits}
        caption = f"{said}: share of each value; {WHISKERS}."
        if lost:
            caption += f" “{NO_END}”: did not reach the horizon."
        return _of_shares(bars, about, tried, caption, shown)
    if not len(known):
        return None
    whole = known.dtype.kind != "f"
    edges = _edges(known, whole)
    counts, mean = np.histogram(known, edges)[0], float(known.mean())
    line = Series("mean", [mean, mean], [0.0, float(counts.max())], role="theory")
    table = data[f"{name}_interval"]
    table = table.isel(time=-1) if "time" in table.dims else table
    note = f"mean {mean:.4g}"
    if table.ndim == 1 and np.isfinite(table.values).all():
        note += " ({:.4g} to {:.4g})".format(*table.values[1:])
    wide = "bars of one width" if not whole else f"bars of {edges[1] - edges[0]:g} values each"
    caption = f"{said}: how many starts end where, in {wide}; dashed, the mean"
    caption += ", in brackets its 95 % interval." if "(" in note else "."
    if len(known) < tried:
        caption += f" {tried - len(known)} starts have no value."
    x, y = Axis(about), Axis("starts", ticks="integer")
    return Histogram({"": (edges, counts)}, x, y, laws=[line], note=note, caption=caption, **shown)


def _at_end(data: Any, name: str) -> bool:
    """Whether a value without a time is one of the last frames, not of whole runs."""
    return "time" not in data.dims and not data[name].attrs.get("of_run", False)


def _bars(values: np.ndarray) -> dict[str, int] | None:
    """How many starts have each value, in the order of the axis; None where bars do not suit."""
    if not len(values):
        return None
    kinds, hits = np.unique(values, return_counts=True)
    if kinds.dtype.kind == "b":
        return {"yes" if kind else "no": int(n) for kind, n in zip(kinds, hits, strict=True)}
    if kinds.dtype.kind not in "iuf":
        order = np.argsort(-hits, kind="stable")
        bars = {str(kinds[k]): int(hits[k]) for k in order[: MOST_WORDS - 1]}
        rest = order[MOST_WORDS - 1 :]
        return bars | ({f"{len(rest)} others": int(hits[rest].sum())} if len(rest) else {})
    if not np.all(kinds == np.round(kinds)):
        return None
    counted = {int(kind): int(n) for kind, n in zip(kinds, hits, strict=True)}
    low, high = min(counted), max(counted)
    if high - low < MOST_BARS:  # also those between that nobody saw
        return {str(k): counted.get(k, 0) for k in range(low, high + 1)}
    few = len(kinds) <= MOST_WORDS and kinds.dtype.kind != "f"
    return {str(k): n for k, n in counted.items()} if few else None


def _of_shares(bars: dict[str, int], about: str, tried: int, caption: str, shown: Any) -> Bars:
    seen = {word: Share(hits, tried) for word, hits in bars.items()}
    heights = np.array([share.value for share in seen.values()])
    bounds = np.array([share.interval for share in seen.values()]).T
    errors = np.abs(np.where(heights > 0, bounds - heights, np.nan))
    every = 1 if len(bars) <= 13 else 2
    places = [word if k % every == 0 or word in ("none", NO_END) else "" for k, word in
              enumerate(seen)]  # fmt: skip
    x, y = Axis(about), Axis("share of starts", limits=(0.0, None))
    return Bars(places, {"": heights}, x, y, {"": errors}, caption=caption, **shown)


def _edges(values: np.ndarray, whole: bool) -> np.ndarray:
    """Borders of at most some twenty bins; between whole numbers where all are whole."""
    low, high = float(values.min()), float(values.max())
    if whole:
        step = max(1, int(np.ceil((high - low + 1) / MOST_BARS)))
        return np.arange(low - 0.5, high + step, step)
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # all the same but for rounding
        half = 0.05 * max(abs(low), abs(high))
        return np.array([low - half, high + half])
    bins = len(np.histogram_bin_edges(values, "auto")) - 1
    return np.linspace(low, high, int(np.clip(bins, 4, MOST_BARS)) + 1)


def _over_time(data: Any, name: str) -> Figure | None:
    """Shares or the mean in every frame, with 95 % intervals; None for arrays."""
    table = data[f"{name}_interval"]
    kinds, times = f"{name}_value", data["time"].values
    if "time" not in table.dims or table.ndim > 3 or (table.ndim > 2 and kinds not in table.dims):
        return None
    x, about = time_axis(times, data.attrs["clock"]), str(data[name].attrs.get("about") or name)
    caption = f"{about} over time, of {data.attrs['starts']} independent starts"
    if kinds not in table.dims:
        series = [_band("", times, table.values)]
        caption += ": the mean, with its 95 % interval."
        return Lines(x, Axis(about), series, size=SIZE, caption=caption)
    ends = table.values[0].max(axis=0)
    kept = np.sort(np.argsort(-ends, kind="stable")[:MOST_KINDS])
    series = [_band(str(table[kinds].values[k]), times, table.values[..., k]) for k in kept]
    y = Axis("share of starts", limits=(0.0, 1.02))
    some = " of the most frequent values" if len(kept) < len(ends) else " of each value"
    caption += f": share{some}, with 95 % intervals (Wilson)."
    title = name.replace("_", " ")
    return Lines(x, y, series, names=title, size=SIZE, caption=caption)


def _band(label: str, times: Any, table: np.ndarray) -> Series:
    return Series(label, times, table[0], band=table[1:])


def _file(name: str) -> str:
    """The name of an observable as that of a file."""
    return re.sub(r"[^\w.-]", "_", name)
