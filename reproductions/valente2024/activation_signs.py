"""Softplus."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Softplus",
    places=["equations 23 and 24"],
    claim="Softplus is log(1 + e^(−x)).",
    method="Compare its slope with that of the rectifier it smooths.",
    known="disagree",
    correction="The sign is wrong: softplus is log(1 + e^x).",
    subject="networks",
    basis="text",
    limits=(
        "Values and slopes on [−6, 6] only; what the wrong sign would do to a training was not "
        "tried."
    ),
    planted="np.log1p * 1.01",
)


def activation_signs() -> Finding:
    """Softplus as printed falls; with the right sign it is a smooth ReLU."""
    x = np.linspace(-6, 6, 241)
    printed, right, relu = np.log1p(np.exp(-x)), np.log1p(np.exp(x)), np.maximum(x, 0)
    far = lambda f: float(np.abs(f - relu).max())
    rows = [
        holds("softplus log(1 + e^(−x)) is a smooth ReLU: it grows", "equation 24",
              np.diff(printed).min() > 0, "grows", "falls" if np.diff(printed).max() < 0 else "?"),
        judge("log(1 + e^x): largest distance from ReLU", "log 2 at 0", np.log(2), far(right),
              absolute=1e-12),
    ]  # fmt: skip
    figure = plot_lines(
        {"as printed": (x, printed), "log(1 + e^x)": (x, right), "ReLU": (x, relu)}, "x", "f(x)",
        "Activations.", lines=True,
    )  # fmt: skip
    return Finding(rows, {"activations": figure})
