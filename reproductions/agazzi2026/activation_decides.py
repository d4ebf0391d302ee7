"""The activation decides whether random perceptrons synchronise tokens."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.observe.random_depth import pair_exponent
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions.agazzi2026._perceptron import RandomPerceptron, kernel_at_one

ENTRY = Entry(
    title="The activation decides whether random perceptrons synchronise tokens",
    places=["arXiv:2604.26898, abstract"],
    claim=(
        "Tokens moved by random perceptrons alone synchronise or do not, by the activation: those "
        "for which the noise is coercive can be told from their kernel."
    ),
    method=(
        "Rate of log(1−ρ) of two close tokens under fresh perceptrons against "
        "(d−3)κ'(1) − (d−1)κ(1), κ(ρ) = E φ(h)φ(h'): ReLU in any dimension, tanh in low ones only."
    ),
    subject="random depth",
    basis="derived",
    limits=(
        "Close tokens only, no biases and no attention; the condition is derived here, and how the "
        "paper characterises activations was not seen."
    ),
    planted="RandomPerceptron.activation = 'linear'",
    settings={"cases": [["relu", 4], ["relu", 32], ["tanh", 4], ["tanh", 32], ["softplus", 8]],
              "samples": 2000},
    fast={"cases": [["relu", 4], ["tanh", 24]], "samples": 200},
)  # fmt: skip


def activation_decides(*, cases: list[list], samples: int) -> Finding:
    """Rates, and their signs."""
    rows, series = [], []
    for activation, dim in cases:
        first, slope = kernel_at_one(activation)
        exact = (dim - 3) * slope - (dim - 1) * first
        step = 0.02 / (dim * max(first, slope))
        found = pair_exponent(RandomPerceptron(activation), dim, step=step, samples=samples,
                              horizon=200 * step)  # fmt: skip
        rows.append(
            judge(f"{activation}, d = {dim}: rate of log(1−ρ)", "derived", exact, found.rate,
                  absolute=4 * found.error)
        )  # fmt: skip
        rows.append(
            holds(f"{activation}, d = {dim}: close tokens {'meet' if exact < 0 else 'part'}",
                  "derived", (found.rate < 0) == (exact < 0), exact, found.rate)
        )  # fmt: skip
    dims = np.arange(3, 41)
    for group, activation in enumerate(("relu", "tanh", "softplus")):
        first, slope = kernel_at_one(activation)
        law = (dims - 3) * slope - (dims - 1) * first
        series.append(Series(activation, dims, law / first, role="theory", group=group))
    axes = Axis("dimension d"), Axis("rate of log(1−ρ) / κ(1)")
    return Finding(rows, {"rates": Lines(*axes, series, levels={"": 0.0})})
