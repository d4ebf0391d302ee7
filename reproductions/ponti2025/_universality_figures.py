"""Universality shown: a function and its sigmoid network, and an error that ignores n."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from metastable.report.style import CATEGORIES, OTHER, ink_axis, legend, new_figure

from ._measure_transformer import Generalization
from ._sigmoid_network import Approximation

__all__ = ["draw_approximation", "draw_generalization"]


def draw_approximation(
    approximation: Approximation,
    target: Callable[[np.ndarray], np.ndarray],
    low: Any = (-1.0, -1.0),
    high: Any = (1.0, 1.0),
    count: int = 161,
) -> Figure:
    """Target, network and their difference on a rectangle, and the error after each step."""
    axes = [np.linspace(low[k], high[k], count) for k in (0, 1)]
    points = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    values = [target(points), approximation.network(points)]
    values.append(values[1] - values[0])
    figure, panels = new_figure(1, 4, size=(11.0, 2.7))
    limits = (values[0].min(), values[0].max())
    error = np.abs(values[2]).max()
    shown = (("target T", limits), ("network f", limits), ("f − T", (-error, error)))
    for ax, field, (title, (least, most)) in zip(panels[0], values, shown, strict=False):
        ax.grid(False)
        image = ax.imshow(
            field.reshape(count, count),
            origin="lower",
            extent=(low[0], high[0], low[1], high[1]),
            cmap="PuOr" if title == "f − T" else "viridis",
            vmin=least,
            vmax=most,
        )
        ax.set(title=title, xlabel="$x_1$")
        ink_axis(figure.colorbar(image, ax=ax, shrink=0.9).ax)
    panels[0, 0].set_ylabel("$x_2$")
    ax, steps = panels[0, 3], np.arange(len(approximation.errors))
    ax.semilogy(
        steps, approximation.errors, "o-", ms=4, lw=1.3, color=CATEGORIES[0], label="reached"
    )
    promised = approximation.errors[0] * 0.75**steps
    ax.semilogy(steps, promised, "--", lw=1.0, color=OTHER, label="promised, $(3/4)^k$")
    ax.set(xlabel="step k", ylabel="largest error on the grid", xticks=steps[::2])
    ax.set_yticks([1.0, 0.5, 0.2, 0.1, 0.05, 0.02], ["1", "0.5", "0.2", "0.1", "0.05", "0.02"])
    ax.set_ylim(0.8 * min(approximation.errors), 1.2 * approximation.errors[0])
    ax.minorticks_off()
    legend(ax)
    widths = ", ".join(map(str, approximation.network.widths))
    figure.set_label(
        f"A continuous function, the sigmoid network built for it (hidden layers of {widths} "
        "neurons), their difference, and the error after each step of the construction."
    )
    return figure


def draw_generalization(
    result: Generalization,
    trained: int,
    names: Sequence[str] = ("mean", "spread about x", "$W_1(\\mu, \\delta_x)$"),
) -> Figure:
    """Root-mean-square error of each output against the number of tokens."""
    figure, ax = new_figure()
    for name, errors, colour in zip(names, result.errors.T, CATEGORIES, strict=False):
        ax.semilogx(result.counts, errors, "o-", ms=4, lw=1.3, color=colour, label=name)
    ax.axvline(trained, color=OTHER, lw=0.9, ls="--")
    ax.annotate(
        f"trained at n = {trained}",
        (trained, 0.03),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
        color=OTHER,
        fontsize=8.5,
    )
    ax.set(xlabel="number of tokens n", ylabel="root-mean-square error")
    ax.set_ylim(0, 1.25 * result.errors.max())  # room for the names
    legend(ax, loc="upper right", ncols=len(names), columnspacing=1.0, handlelength=1.4)
    figure.set_label(
        f"Error of a transformer on measures trained at n = {trained} tokens, evaluated at other "
        "numbers of tokens."
    )
    return figure
