"""Where negative eigenvalues come from."""

from __future__ import annotations

import numpy as np

from metastable.comparison.random_matrices import iterate
from metastable.comparison.random_matrices.draws import draw_layer
from metastable.report.figures.gaussian import plot_iteration
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.gaussian import longest_truncated_step

ENTRY = Entry(
    title="Where negative eigenvalues come from",
    places=["section 3.2.2, steps of 0.01"],
    claim=(
        "With ε = 0.01 five layers are contained; after 25 some eigenvalues are negative "
        "because discrete steps can leave the positive definite matrices."
    ),
    method=(
        "The exact layer and the map of the listing, for several seeds; the layer at which "
        "the latter fails is foretold from its longest safe step."
    ),
    known="disagree",
    correction=(
        "The discrete layer (I + εB)Σ(I + εB)ᵀ is positive semidefinite for every step. "
        "Negative eigenvalues come from the listing's map, which drops the term ε²BΣBᵀ."
    ),
    subject="Gaussian",
    basis="text",
    limits="Eight seeds at d = 300, steps of 0.01, up to the layer that fails.",
    planted="draw_layer.keys + 100",
    settings={"seeds": 8},
    fast={"seeds": 3},
)


def negative_eigenvalues(*, seeds: int) -> Finding:
    """Steps of 0.01: the exact layer keeps a covariance, the truncated map does not."""
    short = [iterate("small-step", seed, progress=False) for seed in range(seeds)]
    found = [iterate("negative", seed, progress=False) for seed in range(seeds)]
    later = iterate("negative-later", 0, progress=False)
    grown = max(t.eigenvalues[-1][-1] / t.eigenvalues[0][-1] for one in short for t in one.tracks)
    bad = [sum(int(np.sum(v < 0)) for v in one.exact.eigenvalues) for one in found]
    lost = [one.published.negative_at for one in found]
    foretold = [_first_loss(seed) for seed in range(seeds)]
    deepest = min(float(v[0]) for v in later.published.eigenvalues)
    when = next(
        layer
        for layer, v in zip(later.published.layers, later.published.eigenvalues, strict=True)
        if v[0] < -1e5
    )
    rows = [
        holds("25 discrete layers of step 0.01 have negative eigenvalues: the step is long",
              "section 3.2.2", sum(bad) > 0, "some", f"{sum(bad)} in {seeds} runs of the layer"),
        holds("the truncated map has them: runs that lost positive definiteness",
              "Listing 3, first-order terms only", np.mean([k is not None for k in lost]) >= 0.75,
              "most", f"{sum(k is not None for k in lost)} of {seeds}"),
        holds("each at the layer where the step exceeds −1/λ_min of (BΣ + ΣBᵀ, Σ)", "derived",
              lost == foretold, f"layers {foretold}", f"layers {lost}"),
        holds("5 layers are contained", "section 3.2.2", grown < 1.2,
              "largest eigenvalue grows by less than 20 %", f"× {grown:.3f}"),
        holds("negative eigenvalues then grow as the positive ones, past −1e5", "section 3.2.2",
              deepest < -1e5, "below −1e5", f"{deepest:.1e}, past −1e5 at layer {when}"),
    ]  # fmt: skip
    curves = {"truncated": found[0].published, "exact": found[0].exact}
    smallest = plot_lines(
        {name: (t.layers, [v[0] for v in t.eigenvalues]) for name, t in curves.items()},
        "layer",
        "smallest eigenvalue",
        "The smallest eigenvalue of the covariance, d = 30, d_k = 1280, step 0.01.",
        lines=True,
    )
    figures = {
        "smallest": smallest, "small-step": plot_iteration(short[0]),
        "negative": plot_iteration(found[0]), "later": plot_iteration(later),
    }  # fmt: skip
    return Finding(rows, figures)


def _first_loss(seed: int, layers: int = 25, step: float = 0.01) -> int | None:
    """The layer after which the truncated map has lost positive definiteness, foretold."""
    layer = draw_layer(30, 1280, seed=seed)
    cov = np.asarray(layer.measure.cov)
    for k in range(1, layers + 1):
        linear = layer.output @ cov @ layer.bilinear
        if step > longest_truncated_step(cov, linear):
            return k
        cov = cov + step * (linear @ cov + cov @ linear.T)
    return None
