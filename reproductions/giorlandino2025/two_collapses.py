"""Rank collapse at small query-key variance, entropy collapse at large."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.models.own.random_stack import random_stack
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.propagation import RandomBlock, attention_map
from metastable.theory.softmax import frozen_share, softmax_overlaps

ENTRY = Entry(
    title="Rank collapse at small query-key variance, entropy collapse at large",
    places=["arXiv:2505.24333v1, abstract"],
    claim=(
        "Two regimes by the variance of queries and keys: at low variance rank collapses; at high "
        "variance the signal is preserved, and attention looks at few tokens."
    ),
    method=(
        "One layer of random attention without a skip, logits of variance κ² 2 log n: E Σw² from "
        "networks, its exact mean at n tokens, and the limit of the random energy model."
    ),
    subject="random depth",
    basis="abstract",
    limits="One layer without a skip; n up to 256, where the limit n = ∞ is still far.",
    planted="RandomBlock.beta * 1.3",
    settings={"tokens": 256, "width": 512, "ratios": [0.25, 0.5, 1.0, 2.0, 3.0], "seeds": 8},
    fast={"tokens": 128, "width": 256, "seeds": 4},
)


def two_collapses(*, tokens: int, width: int, ratios: list[float], seeds: int) -> Finding:
    """E Σw² and the correlation after one layer, from independent tokens."""
    deviations = [ratio * math.sqrt(2 * math.log(tokens)) for ratio in ratios]
    shares, after = [], []
    for beta in deviations:
        # tokens of no common part: the output's mean square is E Σ w²
        block = RandomBlock(tokens=tokens, placement="none", beta=beta, mlp=0.0, skip=0.0)
        shares.append(random_stack(block, width, 1, seeds=seeds)["q"][:, 1])
        mixed = random_stack(block, width, 1, seeds=seeds, correlation=0.5)
        after.append(float(mixed["correlation"][:, 1].mean()))
    means = np.array([x.mean() for x in shares])
    errors = np.array([x.std(ddof=1) / math.sqrt(seeds) for x in shares])
    # Keys that overlap by chance add a²/d; derived for a² below log n, where it matters.
    extra = [b * b / width if b * b < math.log(tokens) else 0.0 for b in deviations]
    exact = [
        softmax_overlaps(b * b, 0.0, tokens)[0] + e for b, e in zip(deviations, extra, strict=True)
    ]
    low, high = _after(deviations[0], tokens), _after(deviations[-1], tokens)
    rows = [
        holds("correlation 0.5 after one layer, below and above freezing", "abstract",
              after[0] > 0.95 and after[-1] < 0.8, "collapse, and signal kept",
              f"{after[0]:.3f}, {after[-1]:.3f}"),
        judge("the same at the smallest variance", "derived here", low, after[0], absolute=0.01),
        judge("the same at the largest variance", "derived here", high, after[-1], absolute=0.05),
        *(
            judge(f"E Σw² at κ = {ratio:g}", "derived here, exact at n tokens", e, m,
                  absolute=0.1 * e + 3 * s)
            for ratio, e, m, s in zip(ratios, exact, means, errors, strict=True)
        ),
    ]  # fmt: skip
    fine = np.linspace(0.2, max(ratios), 40)
    beta = fine * math.sqrt(2 * math.log(tokens))
    figure = plot_lines(
        {"networks": (ratios, means, errors)}, "κ, deviation of logits over √(2 log n)", "E Σw²",
        caption=f"One random attention layer, n = {tokens}, d = {width}, {seeds} seeds.",
        theory={
            f"exact, n = {tokens}": (fine, [softmax_overlaps(b * b, 0.0, tokens)[0] for b in beta]),
            "n = ∞": (fine, [frozen_share(b * b, tokens) for b in beta]),
        },
    )  # fmt: skip
    return Finding(rows, {"shares": figure})


def _after(beta: float, tokens: int) -> float:
    block = RandomBlock(tokens=tokens, placement="none", beta=beta, mlp=0.0, skip=0.0)
    out, lost = attention_map(block, 1.0, 0.5)
    return 1 - lost / out
