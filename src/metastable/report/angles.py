"""Tokens on a line or a circle against time."""

from __future__ import annotations

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MultipleLocator

from metastable.fields import Rescaled
from metastable.flows import Trajectory
from metastable.report.style import CATEGORIES, INK, category_colors, new_figure, time_axis
from metastable.report.tracks import follow, partition

__all__ = ["draw_angles", "draw_line", "unwrap"]

MOST_LINES = 500  # past this the lines cover each other


def draw_angles(run: Trajectory, log: bool | None = None) -> Figure:
    """Angles of tokens on the circle against time, unwrapped, in the colour of their cluster."""
    tokens = follow(run)
    figure, ax = new_figure()
    if tokens is None:
        _scatter_angles(ax, run)
        caption = "Angles of the tokens on the circle; dots grow with the mass of merged tokens."
    else:
        theta = unwrap(np.arctan2(tokens[..., 1], tokens[..., 0]))
        groups, time = partition(run)
        _draw_lines(ax, run.times, theta, groups.labels)
        caption = f"Angles of {_number(tokens.shape[1])} tokens on the circle, unwrapped, in the "
        caption += f"colour of the maximum of the potential they belong to at t = {time:.4g}"
        if time == run.times[-1]:
            _print_masses(ax, theta[-1], groups.labels, groups.masses)
            caption += " (percent of the mass at the right)"
        caption += "."
    ax.yaxis.set_major_locator(MultipleLocator(np.pi / 2))
    ax.yaxis.set_major_formatter(FuncFormatter(_multiple_of_pi))
    ax.set_ylabel("angle θ (rad)")
    time_axis(ax, run.times, run.clock, log)
    figure.set_label(f"{caption} Time in the {run.clock} clock.")
    return figure


def draw_line(run: Trajectory, log: bool | None = None) -> Figure:
    """Tokens in R against time."""
    figure, ax = new_figure()
    tokens = follow(run)
    if tokens is None:
        raise ValueError("run must keep its tokens to draw them in R; it has merged some.")
    _draw_lines(ax, run.times, tokens[..., 0], partition(run)[0].labels)
    ax.set_ylabel("z" if isinstance(run.field, Rescaled) else "x")
    time_axis(ax, run.times, run.clock, log)
    figure.set_label(f"{tokens.shape[1]} tokens in R. Time in the {run.clock} clock.")
    return figure


def unwrap(theta: np.ndarray) -> np.ndarray:
    """Continuous angles (T, n), in the branch where the widest gap of the last frame is the cut.

    So no final cluster is torn apart by the cut, though early angles may leave one turn.
    """
    theta = np.unwrap(theta, axis=0)
    last = np.sort(theta[-1] % (2 * np.pi))
    gaps = np.diff(np.append(last, last[0] + 2 * np.pi))
    widest = int(gaps.argmax())
    cut = last[widest] + gaps[widest] / 2
    # The turn that starts at the cut, moved to be as close to (−π, π] as it can.
    cut -= 2 * np.pi * np.round((cut + np.pi) / (2 * np.pi))
    return theta - 2 * np.pi * np.floor((theta[-1] - cut) / (2 * np.pi))


def _draw_lines(ax, times: np.ndarray, values: np.ndarray, labels: np.ndarray) -> None:
    shown = np.unique(np.linspace(0, values.shape[1] - 1, MOST_LINES).astype(int))
    paths = [np.column_stack([times, values[:, k]]) for k in shown]
    lines = LineCollection(
        paths, colors=category_colors(labels[shown]), linewidths=0.7, alpha=0.6, rasterized=True
    )
    ax.add_collection(lines)
    ax.autoscale_view()
    ax.margins(y=0.03)


def _print_masses(ax, last: np.ndarray, labels: np.ndarray, masses: np.ndarray) -> None:
    """Percent of the mass beside the clusters that have a colour, unless they would overlap."""
    taken: list[float] = []
    for k, mass in enumerate(masses[: len(CATEGORIES)]):
        place = float(np.median(last[labels == k]))
        if all(abs(place - other) > 0.45 for other in taken):
            taken.append(place)
            ax.annotate(
                f"{100 * mass:.3g} %",
                (1.02, place),
                xycoords=ax.get_yaxis_transform(),
                va="center",
                fontsize=8.5,
                color=INK,
            )


def _scatter_angles(ax, run: Trajectory) -> None:
    for time, frame in zip(run.times, run.frames, strict=True):
        sizes = np.clip(60 * np.asarray(frame.weights), 0.5, 30)
        ax.scatter(
            np.full(frame.count, time), frame.angles, sizes, CATEGORIES[0], lw=0, rasterized=True
        )


def _multiple_of_pi(value: float, _: object = None) -> str:
    halves = round(value / (np.pi / 2))
    whole = {0: "0", 2: "π", -2: "−π"}.get(halves)
    if whole is not None:
        return whole
    sign, size = "−" if halves < 0 else "", abs(halves)
    if size % 2 == 0:
        return f"{sign}{size // 2}π"
    return f"{sign}{'' if size == 1 else size}π/2"


def _number(count: int) -> str:
    return str(count) if count <= MOST_LINES else f"{MOST_LINES} of {count}"
