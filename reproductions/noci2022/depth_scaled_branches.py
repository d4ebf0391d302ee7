"""Residual branches of size 1/√L keep tokens apart at any depth."""

from __future__ import annotations

import math

import numpy as np
import torch

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.models.own.random_stack import random_stack
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.propagation import RandomBlock

ENTRY = Entry(
    title="Residual branches of size 1/√L keep tokens apart at any depth",
    places=["arXiv:2206.03126, abstract"],
    claim=(
        "At initialisation tokens align with depth, unless residual branches are scaled by 1/√L: "
        "then their correlation has a limit below one."
    ),
    method=(
        "Stacks of uniform attention (β = 0) with skips and no norm, where what tokens share grows "
        "by 1 + α² a layer and the rest stays: e in all at α = 1/√L, 2^L at α = 1."
    ),
    subject="random depth",
    basis="text",
    limits="Attention only, uniform and without norms; constants with perceptrons are not tested.",
    planted="random_stack.depth * 2",
    settings={"tokens": 32, "width": 256, "depths": [8, 32, 64], "start": 0.2, "seeds": 40},
    fast={"tokens": 16, "width": 128, "depths": [8, 24], "seeds": 20},
)


def depth_scaled_branches(
    *, tokens: int, width: int, depths: list[int], start: float, seeds: int
) -> Finding:
    """Correlation after L layers at α = 1/√L and at α = 1."""
    rows, curves, ends = [], [], {"1/√L": [], "1": []}
    for depth in depths:
        for name, scale in (("1/√L", 1 / math.sqrt(depth)), ("1", 1.0)):
            block = RandomBlock(tokens=tokens, placement="none", beta=0.0, mlp=0.0, attention=scale)
            found = random_stack(block, width, depth, correlation=start, seeds=seeds,
                                 dtype=torch.float64)  # fmt: skip
            first = found["p"][:, 0] + (found["q"] - found["p"])[:, 0] / tokens
            shared = found["p"][:, -1] + (found["q"] - found["p"])[:, -1] / tokens
            growth = np.log(shared / first)
            # Each layer multiplies the shared square by 1 + α²u + 2α√u v, with mean 1 + α²: of the
            # logarithm the mean is lower by half its variance, about (4α² + 2α⁴)/d/(1+α²)².
            square = scale**2
            lower = depth * (2 * square + square**2 * 2) / width / (1 + square) ** 2
            exact, error = depth * math.log1p(square) - lower, growth.std(ddof=1) / np.sqrt(seeds)
            rows.append(
                judge(f"α = {name}, L = {depth}: logarithm of the growth of what tokens share",
                      "derived, L log(1+α²)", exact, float(growth.mean()),
                      absolute=float(4 * error + lower))
            )  # fmt: skip
            ends[name].append(float(found["correlation"][:, -1].mean()))
            curves.append((name, depth, found["correlation"].mean(axis=0)))
    limit = 1 - (1 - start) / (1 - start + math.e * (start + (1 - start) / tokens)
                               - (1 - start) / tokens)  # fmt: skip
    rows.insert(
        0,
        holds("aligned at α = 1, kept apart at 1/√L", "abstract",
              ends["1"][-1] > 0.999 and ends["1/√L"][-1] < 0.6, "ρ near 1, and below 0.6",
              f"{ends['1'][-1]:.5f}, {ends['1/√L'][-1]:.3f}"),
    )  # fmt: skip
    series = [
        Series(f"α = {name}, L = {depth}", np.linspace(0, 1, depth + 1), rho,
               group=0 if name == "1" else 1)
        for name, depth, rho in curves
    ]  # fmt: skip
    axes = Axis("layer / L"), Axis("correlation of two tokens")
    figure = Lines(*axes, series, levels={"limit L = ∞, α = 1/√L": limit})
    return Finding(rows, {"correlation": figure})
