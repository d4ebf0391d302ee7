"""Two numbers follow a deep random transformer."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from metastable.comparison.propagation import compare_propagation
from metastable.core.verdict import judge
from metastable.models.own.random_stack import random_stack
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.propagation import RandomBlock, gradient_norms, propagate
from metastable.theory.trainability import residual_scale_for_depth

ENTRY = Entry(
    title="Two numbers follow a deep random transformer",
    places=["arXiv:2505.24333, abstract"],
    claim=(
        "Signals and gradients of a deep transformer with attention, normalisation, skips and "
        "perceptrons follow exactly from the scales of weights and residuals."
    ),
    method=(
        "Random stacks for three placements of the norm at the residual scale of a wanted depth, "
        "against the overlap map in all layers together; gradients by automatic differentiation."
    ),
    subject="random depth",
    basis="abstract",
    limits="ReLU, no mask, no bias; a few dozen blocks; constants of the paper not compared.",
    planted="random_stack.correlation * 1.5",
    settings={"tokens": 128, "width": 256, "depth": 48, "seeds": 10, "start": 0.2},
    fast={"tokens": 48, "width": 96, "depth": 12},
)


def overlap_maps(*, tokens: int, width: int, depth: int, seeds: int, start: float) -> Finding:
    """All layers' correlation, the depth at which 1 − ρ falls to 1/e, and the first gradient."""
    rows: list[Any] = []
    curves, theory = {}, {}
    for placement in ("pre", "post", "peri"):
        block = RandomBlock(tokens=tokens, placement=placement)
        block = block.scaled(residual_scale_for_depth(depth, block, correlation=start))
        layers = depth + depth // 3
        rho = random_stack(block, width, layers, correlation=start, seeds=seeds)["correlation"]
        rows += compare_propagation(block, width, rho, correlation=start)
        short = random_stack(
            block, width, depth // 4, correlation=start, seeds=seeds, gradients=True
        )["gradient"][:, 0]
        expected = gradient_norms(block, depth // 4, correlation=start)[0]
        rows.append(
            judge(f"{placement} norm: mean square of the first gradient", "derived here", expected,
                  short.mean(), absolute=0.05 * expected + 3 * short.std() / np.sqrt(seeds))
        )  # fmt: skip
        x = np.arange(layers + 1)
        curves[placement] = (x, rho.mean(0), rho.std(0) / np.sqrt(seeds))
        theory[f"{placement}, d = ∞"] = (x, propagate(block, layers, correlation=start).correlation)
    # The claim is one of the limit of large width: its own row comes first.
    rows[0] = dataclasses.replace(rows[0], source="arXiv:2505.24333, abstract")
    figure = plot_lines(
        curves, "layer", "correlation of two tokens", theory=theory,
        caption=f"n = {tokens}, d = {width}, {seeds} seeds, residual scales of depth {depth}.",
    )  # fmt: skip
    return Finding(rows, {"correlation": figure})
