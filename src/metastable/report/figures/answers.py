"""Figures of what is answered without a run of one's own: predictions and ensembles."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.comparison.prediction import Prediction
from metastable.core.figure import Axis, Bars, Figure, Lines, Panels, Series, time_axis
from metastable.core.result import Result

MOST_RATES, MOST_KINDS = 16, 6


def plot_prediction(prediction: Prediction) -> Figure | None:
    """Growth rates of the first modes, and how many clusters form first; None if neither is known.

    Modes above 0 grow away from the uniform measure.
    """
    panels: list[Figure] = []
    rates = [np.nan if r is None else r for r in (prediction.rates or [])[:MOST_RATES]]
    if np.isfinite(rates).any():
        modes = np.arange(1, len(rates) + 1)
        series = [Series("", modes, rates, style="both")]
        marks = {}
        if prediction.dominant_mode and prediction.dominant_mode <= MOST_RATES:
            marks = {f"dominant mode {prediction.dominant_mode}": prediction.dominant_mode}
        y = Axis("growth rate", clock=prediction.clock)
        x = Axis("mode", ticks="integer")
        panels.append(Lines(x, y, series, marks=marks, levels={"": 0.0}, legend=False))
    shares = prediction.cluster_distribution or {}
    likely = {k: p for k, p in sorted(shares.items()) if p >= 0.005}
    if likely:
        heights, places = {"": list(likely.values())}, [str(k) for k in likely]
        panels.append(Bars(places, heights, Axis("first clusters"), Axis("probability")))
    if not panels:
        return None
    caption = "Growth rates around the uniform measure (vertical line: the dominant mode), and how "
    caption += "many clusters form first."
    return Panels(panels, len(panels), size=(3.5 * len(panels), 2.6), caption=caption)


def plot_ensemble(result: Result) -> Figure | None:
    """Shares and means over time, with their 95 % intervals; None where there is no time axis."""
    data = result.data["samples"]
    panels: list[Figure] = []
    for name in [str(n) for n in data if f"{n}_interval" in data]:
        table = data[f"{name}_interval"]
        if "time" not in table.dims or table.ndim > 3:
            continue
        times = data["time"].values
        x = time_axis(times, result.facts.get("clock", ""))
        kinds = f"{name}_value"
        if kinds not in table.dims:
            if table.ndim == 2:
                series = [_band("", times, table.values)]
                panels.append(Lines(x, Axis(name.replace("_", " ")), series))
            continue
        ends = table.values[0].max(axis=0)
        kept = np.sort(np.argsort(-ends, kind="stable")[:MOST_KINDS])
        series = [_band(str(table[kinds].values[k]), times, table.values[..., k]) for k in kept]
        y = Axis(f"share of starts, by {name}", limits=(0.0, 1.02))
        panels.append(Lines(x, y, series, names=name))
    if not panels:
        return None
    columns = min(len(panels), 2)
    size = (4.4 * columns, 2.9 * -(-len(panels) // columns))
    caption = "Over independent starts: shares or means, with 95 % intervals."
    return Panels(panels, columns, size=size, caption=caption)


def _band(label: str, times: Any, table: np.ndarray) -> Series:
    return Series(label, times, table[0], band=table[1:])
