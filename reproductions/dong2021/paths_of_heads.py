"""The output of attention is a sum over paths, and long paths have lost their rank."""

from __future__ import annotations

import itertools
import math

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions.dong2021._paths import attention_stack, spread

ENTRY = Entry(
    title="The output of attention is a sum over paths, and long paths have lost their rank",
    places=["arXiv:2103.03404, path decomposition", "public code, paths_counting.ipynb"],
    claim=(
        "With skip connections the output is a sum of terms, one for every choice of a head or the "
        "skip in each layer; C(L,k)H^k of them have length k, and the longer the lower their rank."
    ),
    method=(
        "Networks whose every path is multiplied out: the sum against the output, the counts, the "
        "spread of rows of a path against Dobrushin's coefficients of its attention matrices."
    ),
    subject="clusters",
    basis="code",
    limits="Random weights; L and H small enough to list all paths. Trained paths are not run.",
    planted="attention_stack.skip = 0.9",
    settings={"tokens": 12, "dim": 16, "heads": 2, "layers": 5, "scale": 1.0, "seeds": 10},
    fast={"layers": 4, "seeds": 4},
)


def paths_of_heads(
    *, tokens: int, dim: int, heads: int, layers: int, scale: float, seeds: int
) -> Finding:
    """Sum of paths, counts by length, and rows that agree the more the longer the path."""
    worst, over, lengths, left = 0.0, -np.inf, [], []
    for seed in range(seeds):
        start, output, attention, values = attention_stack(tokens, dim, heads, layers, scale, seed)
        total = np.zeros_like(output)
        for path in itertools.product(range(heads + 1), repeat=layers):
            mixing, weight, bound = np.eye(tokens), np.eye(dim), spread(np.eye(tokens))
            for layer, head in enumerate(path):
                if head < heads:
                    mixing = attention[layer, head] @ mixing
                    weight = weight @ values[layer, head]
                    bound *= spread(attention[layer, head])
            total += mixing @ start @ weight
            over = max(over, spread(mixing) - bound)
            lengths.append(sum(head < heads for head in path))
            left.append(spread(mixing))
        worst = max(worst, float(np.abs(total - output).max() / np.abs(output).max()))
    lengths, left = np.array(lengths), np.array(left)
    counts = [int(np.sum(lengths == k)) // seeds for k in range(layers + 1)]
    mean = np.array([left[lengths == k].mean() for k in range(layers + 1)])
    rows = [
        judge("sum over paths less the output, relative", "path decomposition", 0.0, worst,
              absolute=1e-12),
        holds("paths of every length are C(L,k)H^k", "path decomposition",
              counts == [math.comb(layers, k) * heads**k for k in range(layers + 1)],
              "binomial", str(counts)),
        holds("spread of a path's rows below the product of Dobrushin's coefficients", "Dobrushin",
              over < 1e-12, "never above", float(over)),
        holds("mean spread falls with every step of a path", "text of the repository",
              bool(np.all(np.diff(mean) < 0)), "decreasing", str(mean.round(4).tolist())),
    ]  # fmt: skip
    depth = np.arange(layers + 1)
    series = [
        Series("all paths", lengths, left, style="points", group=-1),
        Series("mean", depth, mean, style="both"),
    ]
    axes = Axis("length of the path"), Axis("largest distance of two rows", scale="log")
    caption = f"{layers} layers, {heads} heads, {tokens} tokens, {seeds} networks."
    return Finding(rows, {"paths": Lines(*axes, series, caption=caption)})
