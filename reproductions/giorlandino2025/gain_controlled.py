"""Attention without its mean does not align tokens."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.propagation import RandomBlock, attention_map
from reproductions.giorlandino2025._gain import centred_stack

ENTRY = Entry(
    title="Attention without its mean does not align tokens",
    places=["arXiv:2505.24333, Figure 4", "public code, Gain-controlled-propagation.ipynb"],
    claim=(
        "Rank collapse in the low-variance phase comes from the uniform part of attention: with "
        "1/n taken off every weight the correlation of tokens no longer grows with depth."
    ),
    method=(
        "Random stacks with skips and norms after each layer, with and without the uniform part, "
        "against overlap maps: what tokens share then passes by the skip alone."
    ),
    subject="random depth",
    basis="code",
    limits="No perceptrons here (the code has them); norms after each layer only; no mask.",
    planted="centred_stack.value * 1.3",
    settings={"tokens": 64, "width": 256, "depth": 24, "ratio": 0.3, "start": 0.2, "seeds": 10},
    fast={"tokens": 32, "width": 128, "depth": 12, "seeds": 6},
)


def gain_controlled(
    *, tokens: int, width: int, depth: int, ratio: float, start: float, seeds: int
) -> Finding:
    """1 − ρ by layer for both kinds of attention, from the maps and from networks."""
    beta = ratio * math.sqrt(2 * math.log(tokens))
    block = RandomBlock(tokens=tokens, placement="post", beta=beta, mlp=0.0)
    rows, series, last = [], [], {}
    for group, centred in enumerate((False, True)):
        name = "without the mean" if centred else "attention as it is"
        gaps = [1 - start]
        for _ in range(depth):
            out, lost = attention_map(block, 1.0, gaps[-1])
            shared = out - lost
            if centred:
                # Σ_jl (w_j − 1/n)(w'_l − 1/n) Q_jl = g (B − 1/n): what is shared drops out, and
                # q − g + gB = out − lost leaves g(B − 1/n) = shared − (1 − g) − g/n.
                shared -= 1 - gaps[-1] + gaps[-1] / tokens
            gaps.append((gaps[-1] + lost) / (1 + shared + lost))
        found = 1 - np.array([
            centred_stack(tokens, width, depth, beta, start, centred, seed)
            for seed in range(seeds)
        ])  # fmt: skip
        means, errors = found.mean(axis=0), found.std(axis=0, ddof=1) / math.sqrt(seeds)
        for layer in (depth // 4, depth):
            # Shared parts fluctuate by d^{−1/2} a layer, which bends the mean by about depth/d.
            rows.append(
                judge(f"{name}: log(1−ρ) at layer {layer}", "overlap map, derived",
                      math.log(gaps[layer]), math.log(means[layer]),
                      absolute=4 * float(errors[layer] / means[layer]) + layer / width)
            )  # fmt: skip
        last[centred] = means[-1] / means[0]
        layers = np.arange(depth + 1)
        series += [
            Series(name, layers, means, errors, style="points", group=group),
            Series("overlap map", layers, gaps, role="theory", group=group),
        ]
    rows.insert(
        0,
        holds("attention collapses, without its mean it does not", "Figure 4",
              last[False] < 1 / math.e < last[True], "1 − ρ below and above 1/e of its start",
              f"{last[False]:.3g}, {last[True]:.3g}"),
    )  # fmt: skip
    axes = Axis("layer"), Axis("1 − ρ of two tokens", scale="log")
    caption = (
        f"n = {tokens}, d = {width}, logits at {ratio:g} of the freezing point, {seeds} seeds."
    )
    return Finding(rows, {"correlation": Lines(*axes, series, caption=caption)})
