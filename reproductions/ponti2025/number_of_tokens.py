"""One network for every number of tokens."""

from __future__ import annotations

from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._measure_transformer import MeasureTransformer, generalization, train_on_measures
from ._universality_figures import plot_generalization

ENTRY = Entry(
    title="One network for every number of tokens",
    places=["Theorem 2.1"],
    claim=(
        "A transformer with at most d′ heads, d_k = d_v = 1 and token dimension at most d + "
        "3d′ approximates a continuous map of measures uniformly, whatever the number of "
        "tokens."
    ),
    method=(
        "Train one of that shape at 32 tokens on the mean, the spread about x and W_1(μ, "
        "δ_x); use it at numbers of tokens it never saw."
    ),
    subject="networks",
    basis="text",
    limits=(
        "Three maps of measures on the line, one seed, 2000 steps; the theorem is for every "
        "continuous map."
    ),
    planted="train_on_measures.steps = 1",
    settings={
        "trained": 32,
        "counts": [8, 1000, 10000, 100000],
        "steps": 2000,
        "batch": 16,
        "depth": 3,
        "measures": 16,
    },
    fast={"counts": [1000], "steps": 300, "batch": 8, "depth": 2, "measures": 3},
)


def number_of_tokens(
    *, trained: int, counts: list[int], steps: int, batch: int, depth: int, measures: int
) -> Finding:
    """A transformer on measures trained at one number of tokens and used at others."""
    start = MeasureTransformer.create(dim=1, outputs=3, depth=depth)
    made = train_on_measures(start, tokens=trained, steps=steps, batch=batch, progress=False)
    network = made.parameters
    result = generalization(network, sorted([trained, *counts]), measures=measures)
    before = generalization(start, [trained], measures=measures)
    here = result.counts == trained
    at, others = float(result.total[here][0]), result.total[~here]
    heads = max(layer.query.shape[0] for layer in network.layers)
    width = max(layer.query.shape[2] for layer in network.layers)
    scalars = {layer.query.shape[1] for layer in network.layers}
    rows = [
        holds(
            f"error at {counts[-1]} tokens against that at the {trained} of the training",
            "Theorem 2.1; furuya2024transformers",
            others[-1] <= 1.2 * at, "at most 1.2 times", float(others[-1] / at),
        ),
        holds(f"worst of n = {', '.join(map(str, counts))}", "Theorem 2.1",
              others.max() <= 1.5 * at, "at most 1.5 times", float(others.max() / at)),
        holds("training has lowered the error", "the numbers above say nothing without it",
              at < 0.25 * before.total[0], "below a quarter of the start",
              f"{at:.4f} from {before.total[0]:.3f}"),
        holds("heads ≤ d′, d_k = d_v = 1, token dimension ≤ d + 3d′", "Theorem 2.1",
              heads <= 3 and scalars == {1} and width <= 10, "3, 1, 10",
              f"{heads}, {scalars.pop()}, {width}"),
    ]  # fmt: skip
    return Finding(rows, {"errors": plot_generalization(result, trained)})
