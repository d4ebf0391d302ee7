"""Figures of the run of a density: where the mass is, and how the harmonics grow."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MultipleLocator

from metastable.flows import Trajectory
from metastable.flows.meanfield import mean_field
from metastable.geometry.harmonics import values_on_circle
from metastable.measures import Density, Points
from metastable.measures.spectral.zonal import polynomials
from metastable.observe.modes import amplitudes
from metastable.report.style import CATEGORIES, INK, TIME, ink_axis, legend, new_figure, time_axis

__all__ = ["draw_amplitudes", "draw_density", "draw_maps"]

LOWEST, HIGHEST = 0.03, 1e4  # densities outside have the colour of the end
MODES = 8


def draw_density(run: Trajectory, log: bool | None = None) -> Figure:
    """The density against time: over the angle on the circle, over the height around an axis.

    Tokens that took over on the way are dots.
    """
    densities = [frame for frame in run.frames if isinstance(frame, Density)]
    times = np.asarray(run.times[: len(densities)])
    first = densities[0]
    figure, ax = new_figure()
    if first.zonal:
        places = np.linspace(0, np.pi, 257)
        values = [_zonal(frame, np.cos(places)) for frame in densities]
        label = "angle from the axis (rad)"
    else:
        size = max(512, *(2 * frame.degree + 2 for frame in densities))
        places = 2 * np.pi * np.arange(size + 1) / size - np.pi
        values = []
        for frame in densities:
            row = np.fft.fftshift(values_on_circle(frame.coefficients, size))
            values.append(np.append(row, row[0]))
        label = "angle θ (rad)"
    _image(figure, ax, times, places, np.array(values))
    _dots(ax, run, first)
    ax.set(ylabel=label, ylim=(places[0], places[-1]))
    ax.yaxis.set_major_locator(MultipleLocator(np.pi / 2))
    ax.yaxis.set_major_formatter(FuncFormatter(_in_pi))
    time_axis(ax, np.asarray(run.times), run.clock, log)
    where = f"around its axis on S^{first.dim - 1}" if first.zonal else "on the circle"
    told = f"Density relative to uniform {where}, harmonics to degree {densities[-1].degree}"
    if len(densities) < len(run.frames):
        told += f"; from t = {times[-1]:.4g} on {run.frames[-1].count} tokens (dots)"
    figure.set_label(f"{told}. Time in the {run.clock} clock.")
    return figure


def draw_maps(run: Trajectory, count: int = 6) -> Figure:
    """Equal-area maps of a density on S² (longitude against height) at `count` times."""
    chosen = np.unique(np.linspace(0, len(run.frames) - 1, count).astype(int))
    rows = -(-len(chosen) // 3)
    figure, axes = new_figure(rows, -(-len(chosen) // rows), size=(7.0, 2.1 * rows))
    axes = np.atleast_1d(axes).ravel()
    for ax in axes[len(chosen) :]:
        ax.set_visible(False)
    densities = [run.frames[index] for index in chosen if isinstance(run.frames[index], Density)]
    values = [frame.basis.values(frame.coefficients) for frame in densities]
    mesh, norm = None, _norm(np.concatenate(values))
    for ax, index in zip(axes, chosen, strict=False):
        frame = run.frames[index]
        ax.set_title(f"t = {run.times[index]:.3g}")
        ax.set(xlim=(-180, 180), ylim=(-1, 1), xticks=[-180, 0, 180], yticks=[-1, 0, 1])
        ax.grid(visible=False)
        if isinstance(frame, Points):
            x = np.asarray(frame.points)
            ax.scatter(np.degrees(np.arctan2(x[:, 1], x[:, 0])), x[:, 2], 3, CATEGORIES[5], lw=0)
            continue
        longitude, z = np.linspace(-np.pi, np.pi, 145), np.linspace(-1, 1, 73)
        grid = np.stack(np.broadcast_arrays(longitude, z[:, None]), -1)
        radius = np.sqrt(1 - grid[..., 1] ** 2)
        points = np.stack(
            [radius * np.cos(grid[..., 0]), radius * np.sin(grid[..., 0]), grid[..., 1]], -1
        )
        f = np.asarray(frame.at(points.reshape(-1, 3))).reshape(radius.shape)
        mesh = ax.pcolormesh(
            np.degrees(longitude), z, np.maximum(f, LOWEST), norm=norm, cmap=TIME,
            shading="gouraud", rasterized=True,
        )  # fmt: skip
    if mesh is not None:
        _bar(figure, mesh, list(axes[: len(chosen)]))
    axes[0].set(ylabel="height z")
    axes[len(chosen) - 1].set(xlabel="longitude (°)")
    dots = " Dots are tokens." if any(isinstance(f, Points) for f in run.frames) else ""
    figure.set_label(
        f"Density relative to uniform on S² at {len(chosen)} times of the {run.clock} clock; equal "
        f"areas of the map are equal areas of the sphere.{dots}"
    )
    return figure


def draw_amplitudes(run: Trajectory, log: bool | None = None) -> Figure:
    """Amplitude of the largest harmonics against time, and what linear theory makes of them."""
    times = np.asarray(run.times)
    table = np.array([amplitudes(frame, 2 * MODES) for frame in run.frames])
    first = run.frames[0]
    # Once tokens collapse all degrees are near 1: the ones that lead are seen before.
    early = table[: 1 + int(np.argmax(table.max(axis=1) > 0.3))] if table.max() > 0.3 else table
    strongest = np.sort(np.argsort(-early.max(axis=0))[:MODES])
    figure, ax = new_figure()
    rates = None
    if run.field is not None:
        equation = mean_field(run.field, first.resized(2 * MODES).basis)
        rates = np.asarray(equation.rates)
        rates = [rates[equation.basis.degrees == k + 1][0] for k in range(2 * MODES)]
    floor = 1e-14
    for colour, k in zip(CATEGORIES, strongest, strict=False):
        if table[:, k].max() < floor:
            continue
        ax.semilogy(times, np.maximum(table[:, k], floor), color=colour, lw=1.6, label=f"{k + 1}")
        if rates is not None and table[0, k] > floor:
            line = table[0, k] * np.exp(np.minimum(rates[k] * times, 50))
            ax.semilogy(times, np.where(line <= 1.2, line, np.nan), ":", color=colour, lw=1.1)
    ax.set(ylabel="amplitude of the degree", ylim=(max(floor, 0.03 * _least(table)), 1.5))
    legend(ax, title="degree", ncols=2, loc="best")
    time_axis(ax, times, run.clock, log)
    counted = "|μ̂_k|" if first.dim == 2 and not first.zonal else "√(Σ_m|μ̂_{ℓm}|²/N_ℓ)"
    figure.set_label(
        f"Amplitudes {counted} of the largest harmonics (1 for a single point), and their growth "
        f"in linear theory (dotted). Time in the {run.clock} clock."
    )
    return figure


def _least(table: np.ndarray) -> float:
    seen = table[0][table[0] > 1e-14]
    return float(seen.min()) if seen.size else 1e-9


def _zonal(frame: Density, heights: np.ndarray) -> np.ndarray:
    c = np.asarray(frame.coefficients)
    return c @ polynomials(heights, frame.dim, frame.degree)


def _image(figure: Figure, ax: Axes, times: np.ndarray, places: np.ndarray, f: np.ndarray) -> None:
    ax.grid(visible=False)
    mesh = ax.pcolormesh(
        times, places, np.maximum(f.T, LOWEST), norm=_norm(f), cmap=TIME, shading="gouraud",
        rasterized=True,
    )  # fmt: skip
    _bar(figure, mesh, [ax])


def _norm(values: np.ndarray) -> LogNorm:
    return LogNorm(LOWEST, float(np.clip(values.max(), 3.0, HIGHEST)), clip=True)


def _bar(figure: Figure, mesh: object, axes: list[Axes]) -> None:
    bar = figure.colorbar(mesh, ax=axes, label="density / uniform", extend="both")  # pyright: ignore
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    bar.ax.set_facecolor("none")
    ink_axis(bar.ax)


def _dots(ax: Axes, run: Trajectory, first: Density) -> None:
    for time, frame in zip(run.times, run.frames, strict=True):
        if isinstance(frame, Points):
            x = np.asarray(frame.points)
            seen = np.arccos(np.clip(x @ np.asarray(first.axis), -1, 1)) if first.zonal else None
            seen = np.arctan2(x[:, 1], x[:, 0]) if seen is None else seen
            ax.scatter(np.full(len(seen), time), seen, 1.5, INK, lw=0, rasterized=True)


def _in_pi(value: float, _: object = None) -> str:
    halves = round(value / (np.pi / 2))
    words = {0: "0", 1: "π/2", 2: "π", -1: "−π/2", -2: "−π"}
    return words.get(halves, f"{halves}π/2")
