"""Learning β through five layers."""

from __future__ import annotations

from metastable.core.verdict import judge
from metastable.learn.gaussian.experiments import learn_depth
from metastable.learn.spec import GaussianDepth
from metastable.report.figures.learning import plot_curves
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Learning β through five layers",
    places=["section 3.3.2"],
    claim="A student finds β also when the layer is applied 5 times, with ε = 0.1.",
    method=(
        "The experiment at d = 44, d_k = 16 by batch gradient descent; training and "
        "validation loss."
    ),
    subject="Gaussian",
    basis="text",
    limits=(
        "One draw at d = 44, 100 covariances (12 under --fast), five layers of step 0.1; other "
        "depths are another entry."
    ),
    planted="GaussianDepth.steps = 2",
    settings={"dim": 44, "key_dim": 16, "samples": 100, "steps": 3000},
    fast={"samples": 12},
)


def deep_training(*, dim: int, key_dim: int, samples: int, steps: int) -> Finding:
    """β through 5 layers of step 0.1; the rate is not printed and is taken from the curvature."""
    found = learn_depth(
        GaussianDepth(depth=5, dim=dim, key_dim=key_dim, samples=samples, steps=steps)
    )
    rows = [
        judge(f"β after {steps} steps, 5 layers of step 0.1", "section 3.3.2", 1.0,
              found.facts["β"], absolute=1e-6),
        holds("loss on covariances never seen", "section 3.3",
              found.facts["validation loss"] < 1e-9 * found.facts["first loss"],
              "far below the first loss", found.facts["validation loss"]),
    ]  # fmt: skip
    return Finding(rows, {"loss": plot_curves(found.figures["loss"])})
