"""Gradients of queries and of values depend on correlation and length in different ways."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from reproductions.noci2022._gradients import layer_gradients

ENTRY = Entry(
    title="Gradients of queries and of values depend on correlation and length in different ways",
    places=["arXiv:2206.03126, abstract"],
    claim=(
        "Architectural quantities such as width, length and the tokens' correlation scale the "
        "gradients of queries and of values differently at initialisation."
    ),
    method=(
        "Autograd through a layer of nearly uniform attention: ratio of squared gradients against "
        "β(1−ρ)²(1−1/n)(1+n/d)/(1+(n−1)ρ), in n and in ρ."
    ),
    subject="random depth",
    basis="abstract",
    limits=(
        "Nearly uniform attention (small β), a linear loss, one layer; the law is derived here and "
        "the exponents of the paper are not compared."
    ),
    planted="layer_gradients.beta * 1.5",
    settings={"lengths": [8, 32, 128], "gaps": [0.9, 0.5, 0.2], "width": 256, "beta": 0.1,
              "seeds": 40},
    fast={"lengths": [8, 64], "gaps": [0.9, 0.4], "width": 96, "seeds": 200},
)  # fmt: skip


def gradient_imbalance(
    *, lengths: list[int], gaps: list[float], width: int, beta: float, seeds: int
) -> Finding:
    """Mean squared gradient of W_Q over that of W_V."""
    rows, series = [], []
    for group, gap in enumerate(gaps):
        ratios, errors, laws = [], [], []
        for n in lengths:
            found = layer_gradients(n, width, beta, gap, seeds)
            means = found.mean(axis=0)
            spread = found.std(axis=0, ddof=1) / np.sqrt(seeds) / means
            ratio = float(means[0] / means[2])
            law = beta * gap**2 * (1 - 1 / n) * (1 + n / width) / (1 + (n - 1) * (1 - gap))
            # Flat attention up to relative order β, tokens of length √d up to 2/√d in the mean.
            relative = 4 * float(np.hypot(spread[0], spread[2])) + beta**2 + 2 / width
            rows.append(
                judge(f"ρ = {1 - gap:g}, n = {n}: queries over values", "derived", law, ratio,
                      relative=relative)
            )  # fmt: skip
            ratios.append(ratio)
            errors.append(ratio * float(np.hypot(spread[0], spread[2])))
            laws.append(law)
        series += [
            Series(f"ρ = {1 - gap:g}", lengths, ratios, errors, style="points", group=group),
            Series("law", lengths, laws, role="theory", group=group),
        ]
    axes = (
        Axis("number of tokens n", scale="log"),
        Axis("squared gradient, queries over values", scale="log"),
    )
    caption = f"One layer, d = {width}, β = {beta:g}, {seeds} seeds."
    return Finding(rows, {"ratios": Lines(*axes, series, caption=caption)})
