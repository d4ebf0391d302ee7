"""Many heads."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import MultiHead, SelfAttention
from metastable.geometry.sphere import project
from metastable.measures import uniform
from metastable.observe import attention
from metastable.report.figures.plain import plot_bars
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

ENTRY = Entry(
    title="Many heads",
    places=["Figure 6", "equation 12"],
    claim=(
        "Multi-head attention projects queries, keys and values several times and adds what "
        "the heads find."
    ),
    method=(
        "Concatenation with an output matrix, written out, against the sum of heads of our field."
    ),
    subject="networks",
    basis="text",
    limits=(
        "Four heads with random matrices on 20 tokens of one start in d = 8: one evaluation, no"
        " flow."
    ),
    planted="SelfAttention.beta * 1.01",
    settings={"tokens": 20, "dim": 8, "beta": 2.0, "heads": 4},
)


def many_heads(*, tokens: int, dim: int, beta: float, heads: int) -> Finding:
    """Concatenated heads with an output matrix are a sum of heads."""
    random = np.random.default_rng(2)
    width = dim // heads
    query, key, value = random.normal(size=(3, heads, width, dim)) / np.sqrt(dim)
    output = random.normal(size=(dim, heads * width)) / np.sqrt(dim)
    start = uniform(tokens, dim, seed=3)
    x = np.asarray(start.points)
    each, total = [], []
    for h in range(heads):
        a = np.asarray(attention(start, beta, query[h], key[h]))
        each.append(a @ x @ value[h].T)
        full = output[:, h * width : (h + 1) * width] @ value[h]
        total.append(SelfAttention(beta, query[h], key[h], full))
    concatenated = np.concatenate(each, axis=1) @ output.T
    summed = np.asarray(MultiHead(total).velocity(start))
    off = float(np.abs(summed - np.asarray(project(start.points, concatenated))).max())
    sizes = [float(np.linalg.norm(np.asarray(head.velocity(start)))) for head in total]
    rows = [
        judge("Concat(head_1, …, head_h)W^O against the sum over heads: largest error",
              "Figure 6, equation 12", 0.0, off, absolute=1e-12),
    ]  # fmt: skip
    figure = plot_bars(
        [f"{h + 1}" for h in range(heads)], {"speed": sizes}, "head", "‖velocity of its part‖",
        f"What each of {heads} heads adds, {tokens} tokens, d = {dim}.",
    )  # fmt: skip
    return Finding(rows, {"heads": figure})
