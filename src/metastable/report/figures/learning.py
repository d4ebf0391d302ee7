"""Figures of learning experiments: losses, states on their way, steered tokens, memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from metastable.core.figure import Axis, Cloud, Film, Lines, Map, Panels, Series, Strip
from metastable.flows import flow
from metastable.learn.control.steering import Steered
from metastable.learn.curves import Chart, Curves, Frames
from metastable.measures import Points

DASHES = ("solid", "dashed", "dashdot", "dotted")
DECADES = 12  # shown on the logarithmic scale; a perfect fit would flatten everything else
MARKERS = ("circle", "square", "diamond", "triangle")
FRAMES = 24  # of each piece of a steered path


def plot_curves(curves: Curves) -> Panels:
    """The lines on a linear and on a logarithmic scale, side by side.

    The linear scale shows the fall, the logarithmic one what goes on after it. Zeros, which a
    logarithm cannot show, are left out of the second, and what lies twelve decades down is cut off.
    """
    series: list[list[Series]] = [[], []]
    for k, (name, (x, y)) in enumerate(curves.lines.items()):
        x, y = np.asarray(x, float), np.asarray(y, float)
        half = curves.bars.get(name)
        for side, shown in enumerate((np.isfinite(y), np.isfinite(y) & (y > 0))):
            error = None if half is None else np.asarray(half, float)[shown]
            style, dash = "both" if len(x) <= 20 else "line", DASHES[k % 4]
            series[side].append(Series(name, x[shown], y[shown], error, style=style, dash=dash))
    levels = {f"{name} {level:.2e}": level for name, level in curves.levels.items()}
    many = len(curves.lines) + len(levels) > 4  # too many to lie among the lines
    highest = max([s.y.max() for s in series[1] if s.y.size] + list(levels.values()), default=1.0)
    lowest = min([s.y.min() for s in series[1] if s.y.size], default=1.0)
    floor = highest * 10.0**-DECADES
    limits = (floor, None) if lowest < floor else (None, None)
    left = Lines(Axis(curves.x), Axis(curves.y), series[0], levels=levels, legend=not many)
    x = Axis(curves.x, scale="log2" if curves.powers or "tokens" in curves.x else "linear")
    y = Axis("", scale="log", limits=limits)
    right = Lines(x, y, series[1], levels=levels, legend=many)
    return Panels([left, right], 2, caption=curves.caption, size=(8.2, 3.1))


def plot_chart(chart: Chart) -> Map:
    """The values as tiles, and the lines over them."""
    lines = [Series(name, *line, role="theory") for name, line in chart.lines.items()]
    axes = Axis(chart.x), Axis(chart.y), Axis(chart.value)
    places = chart.columns, chart.rows, chart.values
    return Map(*axes, *places, lines, caption=chart.caption, size=(4.8, 3.4))


def plot_frames(frames: Frames, count: int = 5) -> Strip:
    """A strip of at most `count` frames, evenly chosen, each point in the color of its class."""
    chosen = np.unique(np.linspace(0, len(frames.times) - 1, count).round().astype(int))
    shown, size = [_cloud(frames, int(k)) for k in chosen], (2.1 * len(chosen), 2.5)
    return Strip(shown, columns=len(chosen), caption=frames.caption, size=size)


def film_frames(frames: Frames, seconds: float = 4.0) -> Film:
    """All frames as a film."""
    shown = [_cloud(frames, k) for k in range(len(frames.times))]
    return Film(shown, seconds, caption=frames.caption, size=(4.0, 4.2))


def plot_paths(steered: Steered, prompts: Any, targets: Any) -> Lines:
    """Paths of the first prompt's tokens, a color for each piece, from circles to crosses."""
    x, y = (np.reshape(np.asarray(z), (-1, *np.shape(z)[-2:]))[0] for z in (prompts, targets))
    plant = steered.plant
    start, frames = Points(x, on_sphere=plant.on_sphere), FRAMES * plant.pieces + 1
    run = flow(start, steered.field, plant.horizon, frames=frames, progress=False)
    path = np.stack([np.asarray(frame.points) for frame in run.frames])  # (frames, n, d)
    series = []
    for piece in range(plant.pieces):
        part = path[FRAMES * piece : FRAMES * (piece + 1) + 1]
        shade = (piece + 0.5) / plant.pieces
        for token in range(path.shape[1]):
            label = f"piece {piece + 1}" if token == 0 else ""
            series.append(Series(label, *part[:, token, :2].T, shade=shade))
    if plant.on_sphere:
        turn = np.linspace(0, 2 * np.pi, 200)
        series.append(Series("", np.cos(turn), np.sin(turn), role="control", width=0.6))
    series.append(Series("start", *x[:, :2].T, role="control", style="points"))
    series.append(Series("target", *y[:, :2].T, role="theory", style="points", marker="cross"))
    caption = f"{path.shape[1]} tokens steered with {plant.switches} switches; worst error "
    caption += f"{steered.errors.max():.1e}."
    axes = Axis("first axis"), Axis("second axis")
    return Lines(*axes, series, caption=caption, equal=True, size=(4.8, 4.0))


def plot_recall(lags: Sequence[int], curves: Mapping[str, np.ndarray], chance: float) -> Lines:
    """Accuracy of each family against the lag it was trained and tested at, and chance."""
    caption = "Share of first symbols said again after a lag, each model trained at that lag; "
    caption += f"dotted: chance, {chance:.3g}."
    y = Axis("accuracy", limits=(0.0, 1.05))
    return _over_lags(lags, curves, y, caption, levels={"chance": chance})


def plot_gradients(lags: Sequence[int], curves: Mapping[str, np.ndarray]) -> Lines:
    """Norm of the gradient of the last output by the first input, against their distance."""
    y = Axis(r"$\|\partial\,\mathrm{output}_T/\partial\,\mathrm{input}_1\|$", scale="log")
    caption = "Norm of the gradient of the last output with respect to the first input, against "
    caption += "the number of places between them (both axes logarithmic)."
    return _over_lags(lags, curves, y, caption)


def _over_lags(
    lags: Sequence[int], curves: Mapping[str, Any], y: Axis, caption: str, **rest: Any
) -> Lines:
    series = []
    for k, (name, values) in enumerate(curves.items()):
        # Curves often coincide at 1 or at chance: later ones are thinner, so that all are seen.
        marker, width = MARKERS[k % 4], max(1.0, 2.6 - 0.5 * k)
        series.append(Series(name, lags, values, style="both", marker=marker, width=width))
    x = Axis("lag (places)", scale="log2", places=tuple(lags))
    return Lines(x, y, series, caption=caption, **rest)


def _cloud(frames: Frames, index: int) -> Cloud:
    x, y = Axis("first axis"), Axis("second axis" if index == 0 else "")
    title = f"t = {frames.times[index]:.3g}"
    return Cloud(frames.places[index], groups=frames.classes, x=x, y=y, title=title)
