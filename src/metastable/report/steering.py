"""Figures of steered tokens: their paths, piece by piece of the control."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from metastable.flows import flow
from metastable.learn.control.steering import Steered
from metastable.measures import Points
from metastable.report.style import INK, TIME, legend, new_figure

__all__ = ["draw_paths"]


def draw_paths(found: Steered, prompts: Any, targets: Any) -> Figure:
    """Paths of the first prompt's tokens in their first two axes, one colour for each piece.

    A new colour is a switch of the control; circles are starts, crosses targets.
    """
    x, y = (np.reshape(np.asarray(z), (-1, *np.shape(z)[-2:]))[0] for z in (prompts, targets))
    plant = found.plant
    start = Points(x, on_sphere=plant.on_sphere)
    frames = 24 * plant.pieces + 1
    run = flow(start, found.field, plant.horizon, frames=frames, progress=False)
    path = np.stack([np.asarray(frame.points) for frame in run.frames])  # (frames, n, d)
    figure, ax = new_figure(size=(4.4, 4.0))
    for piece in range(plant.pieces):
        part = path[24 * piece : 24 * (piece + 1) + 1]
        colour = TIME((piece + 0.5) / plant.pieces)
        for token in range(path.shape[1]):
            label = f"piece {piece + 1}" if token == 0 else None
            ax.plot(*part[:, token, :2].T, color=colour, lw=1.4, label=label)
    ax.plot(*x[:, :2].T, "o", color=INK, ms=4.5, label="start", ls="none")
    ax.plot(*y[:, :2].T, "x", color=INK, ms=6, label="target", ls="none")
    if plant.on_sphere:
        turn = np.linspace(0, 2 * np.pi, 200)
        ax.plot(np.cos(turn), np.sin(turn), color=INK, lw=0.6, alpha=0.4)
    ax.set_aspect("equal")
    ax.set(xlabel="first axis", ylabel="second axis")
    legend(ax, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.set_label(
        f"{path.shape[1]} tokens steered with {plant.switches} switches; worst error "
        f"{found.errors.max():.1e}."
    )
    return figure
