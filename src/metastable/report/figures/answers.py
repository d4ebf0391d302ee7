"""The figure of a prediction."""

from __future__ import annotations

import numpy as np

from metastable.comparison.prediction import Prediction
from metastable.core.figure import Axis, Bars, Figure, Lines, Panels, Series

MOST_RATES = 16


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
