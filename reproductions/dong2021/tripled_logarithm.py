"""Every layer of pure attention triples the logarithm of the distance from equal rows."""

from __future__ import annotations

import mpmath as mp
import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions.dong2021._layers import attention_layers, distance, draw_heads, norms

ENTRY = Entry(
    title="Every layer of pure attention triples the logarithm of the distance from equal rows",
    places=["arXiv:2103.03404, main theorem, as a summary states it"],
    claim=(
        "After L layers of H heads, ‖res‖ is at most (4βH/√d)^{(3^L−1)/2} times the 3^L-th power "
        "of the first, in the norm √(‖·‖₁‖·‖_∞) and with β the size of the weights."
    ),
    method=(
        "Random networks in 400 digits, from tokens that are not close: the bound in every layer, "
        "and the ratio of logarithms of one layer and the next."
    ),
    subject="clusters",
    basis="report",
    limits=(
        "Distances are from the mean row, not from the best one; random weights only. The theorem "
        "needs logits that are not large, and no search for a counterexample was made."
    ),
    implies=("doubly_exponential",),
    planted="attention_layers.skip = 0.1",
    settings={"tokens": 6, "dim": 6, "heads": 2, "layers": 5, "scale": 0.7, "seeds": 10},
    fast={"tokens": 4, "dim": 4, "layers": 4, "seeds": 4},
)


def tripled_logarithm(
    *, tokens: int, dim: int, heads: int, layers: int, scale: float, seeds: int
) -> Finding:
    """log res_{l+1}/log res_l in the last layer, and how far below the bound it stays."""
    over, ratios, curves = [], [], []
    for seed in range(seeds):
        weights = draw_heads(layers, heads, dim, scale, seed)
        x = 0.3 * np.random.default_rng(seed + 1000).standard_normal((tokens, dim))
        states = attention_layers(x, weights)
        logs = np.array([float(mp.log(distance(state))) for state in states])
        beta = max(norms(a)[0] * norms(v)[1] for layer in weights for a, v in layer)
        power = 3.0 ** np.arange(layers + 1)
        bound = np.log(4 * beta * heads / np.sqrt(dim)) * (power - 1) / 2 + power * logs[0]
        over.append(float((logs - bound)[1:].max()))
        ratios.append(logs[-1] / logs[-2])
        curves.append(-logs)
    rows = [
        holds("log res below the bound in all layers of all networks", "main theorem",
              max(over) <= 0, "never above", max(over)),
        judge("log res of the last layer over that of the one before", "main theorem", 3.0,
              float(np.mean(ratios)), relative=0.05),
        judge("largest difference of a network from it", "main theorem", 3.0,
              max(ratios, key=lambda r: abs(r - 3)), relative=0.1),
    ]  # fmt: skip
    depth = np.arange(layers + 1)
    series = [
        Series(f"network {k + 1}", depth, np.maximum(curve, 1e-2), style="both", group=k)
        for k, curve in enumerate(curves[:4])
    ]
    last = float(np.mean([curve[-1] for curve in curves]))
    series.append(Series("three times a layer", depth, last * 3.0 ** (depth - layers),
                         role="theory"))  # fmt: skip
    axes = Axis("layer"), Axis("−log of the distance from equal rows", scale="log")
    return Finding(rows, {"logarithms": Lines(*axes, series)})
