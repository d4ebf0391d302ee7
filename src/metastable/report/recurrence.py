"""How far back sequence models reach: recall and gradients against distance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter

from metastable.report.style import CATEGORIES, INK, legend, new_figure

__all__ = ["draw_gradients", "draw_recall"]


def draw_recall(lags: Sequence[int], curves: Mapping[str, np.ndarray], chance: float) -> Figure:
    """Accuracy of each family against the lag it was trained and tested at, and chance."""
    figure, ax = new_figure()
    _lines(ax, lags, curves)
    ax.axhline(chance, color=INK, lw=1.0, ls=":")
    ax.annotate(
        "chance", (lags[0], chance), (0, 3), textcoords="offset points", color=INK, fontsize=8.5
    )
    ax.set(ylabel="accuracy", ylim=(0, 1.05))
    legend(ax, loc="best")
    figure.set_label(
        "Share of first symbols said again after a lag, each model trained at that lag; "
        f"dotted: chance, {chance:.3g}."
    )
    return figure


def draw_gradients(lags: Sequence[int], curves: Mapping[str, np.ndarray]) -> Figure:
    """Norm of the gradient of the last output by the first input, against their distance."""
    figure, ax = new_figure()
    _lines(ax, lags, curves)
    ax.set(yscale="log", ylabel=r"$\|\partial\,\mathrm{output}_T/\partial\,\mathrm{input}_1\|$")
    legend(ax, loc="best")
    figure.set_label(
        "Norm of the gradient of the last output with respect to the first input, against the "
        "number of places between them (both axes logarithmic)."
    )
    return figure


def _lines(ax: Axes, lags: Sequence[int], curves: Mapping[str, np.ndarray]) -> None:
    # Curves often coincide at 1 or at chance: later ones are thinner, so that all are seen.
    for k, (name, values) in enumerate(curves.items()):
        size = max(1.0, 2.6 - 0.5 * k)
        ax.plot(
            lags,
            values,
            marker="osD^v<>p"[k % 8],
            color=CATEGORIES[k % len(CATEGORIES)],
            lw=size,
            ms=3.5 + size,
            mew=0,
            label=name,
        )
    ax.set_xscale("log", base=2)
    ax.set_xticks(lags)
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("lag (places)")
