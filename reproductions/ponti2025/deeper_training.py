"""Learning β through ten layers."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.learn.gaussian.experiments import learn_depth
from metastable.learn.gaussian.teacher import (
    TruncatedLayer,
    loss_and_slope,
    random_covariances,
    random_matrices,
    split,
    teach,
)
from metastable.learn.spec import GaussianDepth
from metastable.report.figures.learning import plot_curves
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Learning β through ten layers",
    places=["section 3.3.2, ten layers", "Listing 5"],
    claim=(
        "A student follows the teacher through 10 layers of ε = 0.001 at rate 0.5 over 3000 "
        "iterations."
    ),
    method=(
        "The experiment at d = 44, d_k = 16; the listing's recursion for the derivative "
        "against differences of the loss."
    ),
    subject="Gaussian",
    basis="text",
    limits="One draw at d = 44, ten layers of step 0.001, the printed rate alone.",
    planted="GaussianDepth.rate * 0.01",
    settings={"dim": 44, "key_dim": 16, "samples": 100, "steps": 3000, "rate": 0.5},
    fast={"samples": 12},
)


def deeper_training(*, dim: int, key_dim: int, samples: int, steps: int, rate: float) -> Finding:
    """β through 10 layers of step 0.001 at the printed rate; and the listing's derivative."""
    layer = TruncatedLayer(1e-3)
    found = learn_depth(
        GaussianDepth(
            step=layer.step,
            depth=10,
            dim=dim,
            key_dim=key_dim,
            samples=samples,
            rate=rate,
            steps=steps,
        )
    )
    teacher, inputs = random_matrices(dim, key_dim, 1), random_covariances(samples, dim, 2)
    data, _ = split(teach(layer, teacher, inputs, depth=10), seed=1)
    at = [loss_and_slope(layer, teacher, data, 10, np.float64(b)) for b in (0.499, 0.5, 0.501)]
    off = abs((float(at[2][0]) - float(at[0][0])) / 0.002 / float(at[1][1]) - 1)
    fell = found.facts["last loss"] / found.facts["first loss"]
    rows = [
        holds(f"loss after {steps} steps, 10 layers of step 0.001, rate {rate:g}",
              "section 3.3.2: the student follows the teacher", fell < 0.05,
              "below 5 % of the first", f"{100 * fell:.2g} %"),
        holds("β by then", "the printed number of steps", 0.9 < found.facts["β"] <= 1.0,
              "between 0.9 and 1", found.facts["β"]),
        judge("slope by the listing's recursion for dΣ/dβ, against differences: relative error",
              "Listing 5, lines 40 to 45", 0.0, off, absolute=1e-4),
    ]  # fmt: skip
    return Finding(rows, {"loss": plot_curves(found.figures["loss"])})
