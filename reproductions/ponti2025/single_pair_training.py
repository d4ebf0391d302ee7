"""One pair at a time."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.learn.gaussian.experiments import learn_matrices
from metastable.learn.spec import GaussianMatrices
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="One pair at a time",
    places=["section 3.3.3, batches of one"],
    claim=(
        "With batches of one pair the loss is less regular but converges to the same final "
        "value as with batches of 32."
    ),
    method=("Both runs from one start at one rate, compared by epochs and by the number of steps."),
    known="disagree",
    correction=(
        "At the same rate an epoch of single pairs takes 225 steps instead of 8 and ends "
        "lower; after equally many steps the two agree."
    ),
    subject="Gaussian",
    basis="text",
    limits="One draw at d = 64 (16 under --fast), one rate.",
    planted="GaussianMatrices.batch = 8",
    settings={"dim": 64, "key_dim": 36, "samples": 300, "epochs": 500},
    fast={"dim": 16, "key_dim": 9, "samples": 120, "epochs": 200},
)


def single_pair_training(*, dim: int, key_dim: int, samples: int, epochs: int) -> Finding:
    """One pair at a time against batches of 32: by epochs, and by steps."""
    losses = {
        size: np.asarray(
            learn_matrices(
                GaussianMatrices(
                    dim=dim, key_dim=key_dim, samples=samples, batch=size, epochs=epochs
                )
            )
            .figures["loss"]
            .lines["training"][1]
        )
        for size in (32, 1)
    }
    many, one = losses[32], losses[1]
    pairs = round(0.75 * samples)
    steps = {32: -(-pairs // 32), 1: pairs}
    at = {size: steps[size] * np.arange(1, epochs + 1) for size in losses}
    # The mean loss of an epoch belongs to its middle.
    middle = {size: at[size] - steps[size] / 2 for size in losses}
    same = float(np.exp(np.interp(middle[32][-1], middle[1], np.log(one))))
    rows = [
        judge(f"loss after {epochs} epochs, B = 1 against B = 32", "section 3.3.3: the same value",
              float(many[-1]), float(one[-1]), relative=0.2),
        holds("it is lower: an epoch of single pairs is more steps", "derived",
              one[-1] < 0.8 * many[-1], f"below {many[-1]:.3g}", float(one[-1])),
        judge(f"after as many steps ({at[32][-1]}) the two are alike", "same rate, same flow",
              float(many[-1]), same, relative=0.2),
    ]  # fmt: skip
    figures = {
        name: plot_lines(
            {f"B = {size}": (x[size], losses[size]) for size in losses}, label,
            "mean squared error (train)", caption, log=log, lines=True,
        )
        for name, x, label, caption, log in (
            ("epochs", dict.fromkeys(losses, np.arange(1, epochs + 1)), "epoch",
             f"Batches of 32 and single pairs at the same rate, d = {dim}, d_k = {key_dim}.", "y"),
            ("steps", middle, "gradient steps", "The same against the steps taken.", "xy"),
        )
    }  # fmt: skip
    return Finding(rows, figures)
