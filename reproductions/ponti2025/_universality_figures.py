"""Universality shown: a function and its sigmoid network, and an error that ignores n."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from metastable.core.figure import Axis, Lines, Map, Panels, Series

from ._measure_transformer import Generalization
from ._sigmoid_network import Approximation

__all__ = ["plot_approximation", "plot_generalization"]


def plot_approximation(
    approximation: Approximation,
    target: Callable[[np.ndarray], np.ndarray],
    low: Any = (-1.0, -1.0),
    high: Any = (1.0, 1.0),
    count: int = 161,
) -> Panels:
    """Target, network and their difference on a rectangle, and the error after each step."""
    axes = [np.linspace(low[k], high[k], count) for k in (0, 1)]
    points = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    values = [target(points), approximation.network(points)]
    values.append(values[1] - values[0])
    limits = (float(values[0].min()), float(values[0].max()))
    error = float(np.abs(values[2]).max())
    shown = (("target T", limits), ("network f", limits), ("f − T", (-error, error)))
    maps = [
        Map(
            Axis("$x_1$"), Axis("$x_2$" if k == 0 else ""), Axis("", limits=ends), axes[0], axes[1],
            field.reshape(count, count), title=title,
            palette="diverging" if k == 2 else "sequential",
        )
        for k, (field, (title, ends)) in enumerate(zip(values, shown, strict=True))
    ]  # fmt: skip
    steps, errors = np.arange(len(approximation.errors)), approximation.errors
    limits = (0.8 * float(min(errors)), 1.2 * float(errors[0]))
    places = [p for p in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if limits[0] < p < limits[1]]
    lines = Lines(
        Axis("step k", places=steps[::2].tolist()),
        Axis("largest error on the grid", scale="log", limits=limits, places=places),
        [
            Series("reached", steps, errors, style="both"),
            Series("promised, $(3/4)^k$", steps, errors[0] * 0.75**steps, role="theory"),
        ],
    )
    widths = ", ".join(map(str, approximation.network.widths))
    return Panels(
        [*maps, lines],
        4,
        size=(11.0, 2.7),
        caption="A continuous function, the sigmoid network built for it (hidden layers of "
        f"{widths} neurons), their difference, and the error after each step of the construction.",
    )


def plot_generalization(
    result: Generalization,
    trained: int,
    names: Sequence[str] = ("mean", "spread about x", "$W_1(\\mu, \\delta_x)$"),
) -> Lines:
    """Root-mean-square error of each output against the number of tokens."""
    highest = 1.4 * float(result.errors.max())  # room for the names
    return Lines(
        Axis("number of tokens n", scale="log"),
        Axis("root-mean-square error", limits=(0.0, highest)),
        [
            Series(name, result.counts, errors, style="both")
            for name, errors in zip(names, result.errors.T, strict=False)
        ],
        marks={f"trained at n = {trained}": trained},
        caption=f"Error of a transformer on measures trained at n = {trained} tokens, evaluated at "
        "other numbers of tokens.",
    )
