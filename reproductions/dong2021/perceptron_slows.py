"""Perceptrons slow the collapse of attention by their Lipschitz constant."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions.dong2021._layers import attention_layers, distance, draw_heads

ENTRY = Entry(
    title="Perceptrons slow the collapse of attention by their Lipschitz constant",
    places=["arXiv:2103.03404, abstract; corollary for perceptrons, as derived"],
    claim=(
        "A perceptron of Lipschitz constant λ after each layer multiplies what is left after L "
        "layers by up to λ^{(3^L−1)/2}: slower, but doubly exponential all the same."
    ),
    method=(
        "The linear perceptron, which attains the constant: the exponent of λ in the distance "
        "from equal rows after every layer, in 400 digits; then where the collapse begins."
    ),
    subject="clusters",
    basis="derived",
    limits="Linear perceptrons only, the extreme case; the paper's own constants are not compared.",
    implies=("tripled_logarithm",),
    planted="attention_layers.skip = 0.1",
    settings={"tokens": 6, "dim": 6, "heads": 2, "layers": 4, "gains": [0.5, 2.0, 4.0],
              "seeds": 5, "start": 0.001},
    fast={"tokens": 4, "dim": 4, "layers": 3, "gains": [2.0], "seeds": 3},
)  # fmt: skip


def perceptron_slows(
    *, tokens: int, dim: int, heads: int, layers: int, gains: list[float], seeds: int, start: float
) -> Finding:
    """d log res/d log λ after each layer, which should be (3^l − 1)/2."""
    rows, series = [], []
    expected = (3.0 ** np.arange(1, layers + 1) - 1) / 2
    for group, gain in enumerate(gains):
        powers = []
        for seed in range(seeds):
            weights = draw_heads(layers, heads, dim, 1.0, seed)
            x = start * np.random.default_rng(seed + 1000).standard_normal((tokens, dim))
            plain, with_gain = (
                [mp.log(distance(state)) for state in attention_layers(x, weights, gain=g)]
                for g in (1.0, gain)
            )
            powers.append([
                float((b - a) / math.log(gain))
                for a, b in zip(plain[1:], with_gain[1:], strict=True)
            ])  # fmt: skip
        means = np.mean(powers, axis=0)
        rows += [
            judge(f"λ = {gain:g}: power of λ after layer {k + 1}", "derived, (3^L−1)/2", exact,
                  float(mean), relative=0.01)
            for k, (exact, mean) in enumerate(zip(expected, means, strict=True))
        ]  # fmt: skip
        series.append(Series(f"λ = {gain:g}", np.arange(1, layers + 1), means, style="points",
                             group=group))  # fmt: skip
    last = with_gain[-1] / with_gain[-2]
    rows.append(
        holds("collapse is doubly exponential all the same", "abstract", abs(last - 3) < 0.3,
              "log res tripled by the last layer", float(last))
    )  # fmt: skip
    series.append(Series("(3^L − 1)/2", np.arange(1, layers + 1), expected, role="theory"))
    axes = Axis("layer L"), Axis("power of λ in the distance", scale="log")
    return Finding(rows, {"powers": Lines(*axes, series)})
