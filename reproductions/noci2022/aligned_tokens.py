"""Where tokens are aligned, queries and keys have no gradient."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions.noci2022._gradients import layer_gradients

ENTRY = Entry(
    title="Where tokens are aligned, queries and keys have no gradient",
    places=["arXiv:2206.03126, abstract and introduction"],
    claim=(
        "Rank collapse at initialisation makes the gradients of queries and keys vanish, so that "
        "training stops, while values still have theirs."
    ),
    method=(
        "Autograd through a layer of random attention from tokens of correlation ρ: powers of "
        "1 − ρ in the squared gradients, 2 for queries and keys and 0 for values; ρ = 1 exactly."
    ),
    subject="random depth",
    basis="text",
    limits="One layer and a linear loss; the powers are derived here. No training is run.",
    planted="layer_gradients.gap + 0.01",
    settings={"tokens": 32, "width": 128, "beta": 1.0, "gaps": [0.1, 0.01, 0.001, 0.0001],
              "seeds": 30},
    fast={"width": 64, "seeds": 10},
)  # fmt: skip


def aligned_tokens(
    *, tokens: int, width: int, beta: float, gaps: list[float], seeds: int
) -> Finding:
    """Slopes of log squared gradients against log(1 − ρ), the same draws at every ρ."""
    means = np.array([
        np.log(layer_gradients(tokens, width, beta, gap, seeds)).mean(axis=0) for gap in gaps
    ])  # fmt: skip
    slopes = np.polyfit(np.log(gaps), means, 1)[0]
    none = layer_gradients(tokens, width, beta, 0.0, seeds)
    rows = [
        holds("queries and keys have no gradient at ρ = 1, values have", "abstract",
              none[:, :2].max() < 1e-24 and none[:, 2].min() > 0.1, "0, 0 and of order one",
              str(none.max(axis=0).tolist()))
    ]  # fmt: skip
    for name, power, slope in zip(("queries", "keys", "values"), (2, 2, 0), slopes, strict=True):
        # At 1 − ρ = 0.1 corrections are of that relative order, over three decades.
        rows.append(
            judge(f"power of 1 − ρ in the squared gradient of {name}", "derived", float(power),
                  float(slope), absolute=0.05)
        )  # fmt: skip
    series = [
        Series(name, gaps, np.exp(means[:, k]), style="both", group=k)
        for k, name in enumerate(("queries", "keys", "values"))
    ]
    axes = Axis("1 − ρ", scale="log"), Axis("mean squared gradient of an entry", scale="log")
    caption = f"One layer, n = {tokens}, d = {width}, β = {beta:g}, {seeds} seeds."
    return Finding(rows, {"gradients": Lines(*axes, series, caption=caption)})
