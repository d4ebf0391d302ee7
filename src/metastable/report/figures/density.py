"""Figures of the run of a density: where the mass is, and how the harmonics grow."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.core.figure import Axis, Lines, Map, Series, Strip, time_axis
from metastable.flows import Trajectory
from metastable.flows.solvers.mean_field import mean_field
from metastable.geometry.harmonics import values_on_circle
from metastable.measures import Density, Points
from metastable.measures.spectral.zonal import polynomials
from metastable.observe.modes import amplitudes

LOWEST, HIGHEST = 0.03, 1e4  # densities outside have the color of the end
MODES = 8
FLOOR = 1e-14  # of amplitudes: below it is rounding


def plot_density(run: Trajectory, log: bool | None = None) -> Map:
    """The density against time: over the angle on the circle or from the axis; tokens are dots."""
    densities = [frame for frame in run.frames if isinstance(frame, Density)]
    times = np.asarray(run.times[: len(densities)])
    first = densities[0]
    if first.zonal:
        places = np.linspace(0, np.pi, 257)
        waves = lambda frame: polynomials(np.cos(places), frame.dim, frame.degree)
        values = [np.asarray(frame.coefficients) @ waves(frame) for frame in densities]
        label = "angle from the axis"
    else:
        size = max(512, *(2 * frame.degree + 2 for frame in densities))
        places = 2 * np.pi * np.arange(size + 1) / size - np.pi
        values = []
        for frame in densities:
            row = np.fft.fftshift(values_on_circle(frame.coefficients, size))
            values.append(np.append(row, row[0]))
        label = "angle θ"
    where = f"around its axis on S^{first.dim - 1}" if first.zonal else "on the circle"
    caption = f"Density relative to uniform {where}, harmonics to degree {densities[-1].degree}"
    if len(densities) < len(run.frames):
        caption += f"; from t = {times[-1]:.4g} on {run.frames[-1].count} tokens (dots)"
    table = np.array(values)
    angle = Axis(label, unit="rad", ticks="pi", limits=(float(places[0]), float(places[-1])))
    axes = time_axis(run.times, run.clock, log), angle, _value(table)
    cells = times, places, np.maximum(table.T, LOWEST)
    caption += f". Time in the {run.clock} clock."
    return Map(*axes, *cells, _dots(run, first), shading="smooth", caption=caption)


def plot_maps(run: Trajectory, count: int = 6) -> Strip:
    """Equal-area maps of a density on S² (longitude against height) at `count` times."""
    chosen = np.unique(np.linspace(0, len(run.frames) - 1, count).astype(int))
    densities = [run.frames[k] for k in chosen if isinstance(run.frames[k], Density)]
    grid = [frame.basis.values(frame.coefficients) for frame in densities]
    value = _value(np.concatenate(grid))
    maps = [map_of(run.frames[k], f"t = {run.times[k]:.3g}", value) for k in chosen]
    tokens = " Dots are tokens." if any(isinstance(f, Points) for f in run.frames) else ""
    caption = f"Density relative to uniform on S² at {len(chosen)} times of the {run.clock} clock; "
    caption += f"equal areas of the map are equal areas of the sphere.{tokens}"
    return Strip(maps, caption=caption, size=(7.0, 2.3 * -(-len(chosen) // 3)))


def map_of(frame: Density | Points, title: str, value: Axis | None = None, **rest: Any) -> Map:
    """An equal-area map of a density on S², or of tokens as dots."""
    longitude, height = np.linspace(-np.pi, np.pi, 145), np.linspace(-1, 1, 73)
    turn, z = np.meshgrid(longitude, height)
    values, dots = np.full(z.shape, np.nan), []
    if isinstance(frame, Points):
        x = np.asarray(frame.points)
        angle = np.degrees(np.arctan2(x[:, 1], x[:, 0]))
        dots = [Series("", angle, x[:, 2], style="points")]
    else:
        radius = np.sqrt(1 - z**2)
        points = np.stack([radius * np.cos(turn), radius * np.sin(turn), z], -1).reshape(-1, 3)
        values = np.maximum(np.asarray(frame.at(points)).reshape(z.shape), LOWEST)
    x_axis = Axis("longitude", unit="°", limits=(-180.0, 180.0), places=(-180, 0, 180))
    axes = x_axis, Axis("height z", limits=(-1.0, 1.0), places=(-1, 0, 1)), value or _value(values)
    cells = np.degrees(longitude), height, values, dots
    return Map(*axes, *cells, shading="smooth", title=title, **rest)


def plot_amplitudes(run: Trajectory, log: bool | None = None) -> Lines:
    """Amplitude of the largest harmonics against time, and what linear theory makes of them."""
    times = np.asarray(run.times)
    table = np.array([amplitudes(frame, 2 * MODES) for frame in run.frames])
    first = run.frames[0]
    # Once tokens collapse all degrees are near 1: the ones that lead show before.
    early = table[: 1 + int(np.argmax(table.max(axis=1) > 0.3))] if table.max() > 0.3 else table
    strongest = np.sort(np.argsort(-early.max(axis=0))[:MODES])
    rates = None
    if run.field is not None:
        equation = mean_field(run.field, first.resized(2 * MODES).basis)
        rates = np.asarray(equation.rates)
        rates = [rates[equation.basis.degrees == k + 1][0] for k in range(2 * MODES)]
    series = []
    for color, k in enumerate(strongest):
        if table[:, k].max() < FLOOR:
            continue
        series.append(Series(f"{k + 1}", times, np.maximum(table[:, k], FLOOR), group=color))
        if rates is not None and table[0, k] > FLOOR:
            line = table[0, k] * np.exp(np.minimum(rates[k] * times, 50))
            line = np.where(line <= 1.2, line, np.nan)
            series.append(Series("", times, line, role="theory", group=color))
    least = table[0][table[0] > FLOOR]
    low = max(FLOOR, 0.03 * (float(least.min()) if least.size else 1e-9))
    counted = "|μ̂_k|" if first.dim == 2 and not first.zonal else "√(Σ_m|μ̂_{ℓm}|²/N_ℓ)"
    y = Axis("amplitude of the degree", scale="log", limits=(low, 1.5))
    caption = f"Amplitudes {counted} of the largest harmonics (1 for a single point), and their "
    caption += f"growth in linear theory (dashed). Time in the {run.clock} clock."
    return Lines(time_axis(times, run.clock, log), y, series, names="degree", caption=caption)


def _value(values: np.ndarray) -> Axis:
    high = float(np.clip(np.nanmax(values), 3.0, HIGHEST))
    return Axis("density / uniform", scale="log", limits=(LOWEST, high))


def _dots(run: Trajectory, first: Density) -> list[Series]:
    x, y = [], []
    for time, frame in zip(run.times, run.frames, strict=True):
        if isinstance(frame, Points):
            points = np.asarray(frame.points)
            if first.zonal:
                place = np.arccos(np.clip(points @ np.asarray(first.axis), -1, 1))
            else:
                place = np.arctan2(points[:, 1], points[:, 0])
            x.append(np.full(len(place), time))
            y.append(place)
    if not x:
        return []
    x, y = np.concatenate(x), np.concatenate(y)
    return [Series("", x, y, style="points", sizes=np.full(len(y), 1.5))]
