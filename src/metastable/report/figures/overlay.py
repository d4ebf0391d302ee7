"""Several models on the same text: their curves over one another, and through training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metastable.core.figure import Axis, Lines, Panels, Series

if TYPE_CHECKING:
    from metastable.models.inspections import Inspections


def plot_overlay(result: Inspections) -> Panels:
    """Mean cosine, share of tokens in clusters, effective rank and energy over relative depth."""
    rows: dict[str, list[Series]] = {
        "mean cosine": [],
        "share of tokens in clusters": [],
        "effective rank": [],
        "energy, β = 1": [],
    }
    for number, (name, one) in enumerate(result.each.items()):
        table = one.table
        depth = table.times / table.times[-1]
        values = (
            table.mean_cosine,
            one.loose.shares,
            table.effective_rank,
            table.energy[:, 0],
        )
        for series, own in zip(rows.values(), values, strict=True):
            style = "steps" if own is values[1] else "line"
            series.append(Series(name, depth, own, style=style, group=number))
    x = Axis("depth, of the model's own")
    panels = [
        Lines(x, Axis(name), series, legend=k == 0) for k, (name, series) in enumerate(rows.items())
    ]
    caption = "The same text through each model, against its own depth. Clusters: "
    caption += f"{_rules(result)}, of two tokens or more."
    return Panels(panels, 2, size=(8.8, 5.6), caption=caption)


def _rules(result: Inspections) -> str:
    return " or ".join(dict.fromkeys(one.loose.rule for one in result.each.values()))


def plot_training(result: Inspections, steps: list[float]) -> Panels:
    """The last state and the energy against the number in each checkpoint's name."""
    order = np.argsort(steps)
    each = [list(result.each.values())[k] for k in order]
    x = np.array(steps)[order]
    falls = [
        np.nan if one.energy is None else float(np.mean(one.energy.change < 0)) for one in each
    ]
    rows = {
        "mean cosine at the end": [one.table.mean_cosine[-1] for one in each],
        "clusters at the end": [one.table.clusters[-1] for one in each],
        "layers with falling energy": falls,
        "sink heads": [len(one.sinks) for one in each],
    }
    wide = x[0] >= 0 and x[-1] > 50 * max(x[1] if len(x) > 1 else 1.0, 1e-9) / 2
    axis = Axis("step of training", scale="symlog" if wide else "linear")
    panels = []
    for name, y in rows.items():
        top = max(float(np.nanmax(y)), 0.1) if np.isfinite(y).any() else 1.0
        series = [Series("", x, np.array(y, float), style="both")]
        panels.append(Lines(axis, Axis(name, limits=(0.0, 1.08 * top)), series))
    caption = "Through training, one point a checkpoint (the number in its name); energy at β = 1, "
    caption += "as a share of all layers."
    return Panels(panels, 2, size=(8.8, 5.2), caption=caption)
