"""Learning all four matrices."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.learn.gaussian.experiments import learn_matrices
from metastable.learn.spec import GaussianMatrices
from metastable.report.figures.learning import plot_curves
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Learning all four matrices",
    places=["section 3.3.3", "Listing 6", "equation 3.3.1"],
    claim=(
        "Stochastic descent in batches of 32 on W, V, Q and K (d = 64, d_k = 36) lowers the "
        "mean squared error steadily; the rate has to be 0.1, since 0.001 is too slow."
    ),
    method=("The experiment at both rates with the right gradient; training and validation loss."),
    subject="Gaussian",
    basis="text",
    limits="One draw at d = 64 (16 under --fast), two rates; other batch sizes are another entry.",
    planted="GaussianMatrices.rate * 0.001",
    settings={"dim": 64, "key_dim": 36, "samples": 300, "epochs": 500, "rates": [0.001, 0.1]},
    fast={"dim": 16, "key_dim": 9, "samples": 120, "epochs": 200},
)


def matrix_training(
    *, dim: int, key_dim: int, samples: int, epochs: int, rates: list[float]
) -> Finding:
    """W, V, Q, K by stochastic descent in batches of 32, at both printed rates."""
    made = [
        learn_matrices(
            GaussianMatrices(dim=dim, key_dim=key_dim, samples=samples, rate=rate, epochs=epochs)
        )
        for rate in rates
    ]
    slow, fast = [np.asarray(one.figures["loss"].lines["training"][1]) for one in made]
    blocks = fast[: 10 * (epochs // 10)].reshape(10, -1).mean(axis=1)
    held, last = made[1].facts["validation loss"], float(fast[-1])
    rows = [
        holds("the loss falls steadily: means of ten blocks of epochs", "section 3.3.3",
              bool(np.all(np.diff(blocks) < 0)) and fast[-1] < 0.5 * fast[0],
              "each below the one before, at least halved in all", f"fell by {fast[0] / last:.3g}"),
        holds(f"at rate {rates[0]:g} it falls too slowly", "section 3.3.3",
              np.log(slow[0] / slow[-1]) < 0.25 * np.log(fast[0] / last),
              "less than a quarter of the decay", f"fell by {slow[0] / slow[-1]:.4g}"),
        judge("loss on pairs never seen, against training", "section 3.3, validation", last,
              float(held), relative=0.5),
        holds("what was found is not yet the teacher: error of WV and of KᵀQ", "derived",
              min(made[1].facts["error of WV, of KᵀQ, of both"].values()) > 0.05, "above 0.05",
              f"{min(made[1].facts['error of WV, of KᵀQ, of both'].values()):.3g}"),
    ]  # fmt: skip
    at = np.arange(1, epochs + 1)
    both = plot_lines(
        {f"rate {rate:g}": (at, y) for rate, y in zip(rates, (slow, fast), strict=True)},
        "epoch", "mean squared error (train)",
        f"All four matrices, d = {dim}, d_k = {key_dim}, batches of 32.", log="y", lines=True,
    )  # fmt: skip
    return Finding(rows, {"rates": both, "loss": plot_curves(made[1].figures["loss"])})
