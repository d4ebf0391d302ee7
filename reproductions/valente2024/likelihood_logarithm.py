"""The likelihood of a generative model."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

ENTRY = Entry(
    title="The likelihood of a generative model",
    places=["equation 4"],
    claim="A generative model maximises the sum of the probabilities of the next element.",
    method=(
        "Maximise the printed sum and the log-likelihood for a coin, and see which finds its bias."
    ),
    known="disagree",
    correction=(
        "The logarithm is missing: the sum of probabilities is maximised at an extreme, not "
        "at the data's frequency."
    ),
    subject="networks",
    basis="text",
    limits="A coin of one bias and 2000 throws; no sequence model was trained.",
    planted="np.linspace * 0.6",
    settings={"share": 0.7, "samples": 2000},
)


def likelihood_logarithm(*, share: float, samples: int) -> Finding:
    """What maximising the printed sum of probabilities gives, and what likelihood gives."""
    seen = np.random.default_rng(8).random(samples) < share
    theta = np.linspace(0.001, 0.999, 999)
    ones = seen.mean()
    printed = ones * theta + (1 - ones) * (1 - theta)
    proper = ones * np.log(theta) + (1 - ones) * np.log(1 - theta)
    best = [float(theta[curve.argmax()]) for curve in (printed, proper)]
    rows = [
        judge("maximiser of Σ p_θ(x_i | context)", "equation 4", ones, best[0], absolute=0.002),
        judge("maximiser of Σ log p_θ(x_i | context)", "maximum likelihood", ones, best[1],
              absolute=0.002),
    ]  # fmt: skip
    scaled = lambda curve: (curve - curve.min()) / np.ptp(curve)
    figure = plot_lines(
        {"Σ p, as printed": (theta, scaled(printed)),
         "Σ log p": (theta, scaled(np.maximum(proper, np.quantile(proper, 0.1))))},
        "θ = p(heads)", "objective, scaled to [0, 1]", lines=True,
        caption=f"A coin that shows heads in {ones:.3f} of {samples} throws.",
        marks={"share of heads": ones},
    )  # fmt: skip
    return Finding(rows, {"objectives": figure})
