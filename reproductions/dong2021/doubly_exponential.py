"""Pure attention loses rank doubly exponentially."""

from __future__ import annotations

import numpy as np
import torch

from metastable.core.verdict import judge
from metastable.models.own.random_stack import random_stack
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.propagation import RandomBlock, attention_map
from metastable.theory.trainability import collapse

ENTRY = Entry(
    title="Pure attention loses rank doubly exponentially",
    places=["arXiv:2103.03404, abstract"],
    claim=(
        "Without skip connections and perceptrons the output converges doubly exponentially in "
        "depth to a matrix of rank one; skip connections stop it."
    ),
    method=(
        "One layer of random attention from tokens that nearly agree: 1 − ρ is cubed, so depth "
        "triples its logarithm. With a skip connection it is only divided."
    ),
    subject="clusters",
    basis="abstract",
    limits="One layer at a time, random weights, tokens that already nearly agree.",
    planted="attention_map.gap * 1.3",
    settings={
        "tokens": 16,
        "width": 256,
        "beta": 2.0,
        "starts": [0.99, 0.999, 0.9999],
        "seeds": 24,
    },
    fast={"seeds": 8},
)


def doubly_exponential(
    *, tokens: int, width: int, beta: float, starts: list[float], seeds: int
) -> Finding:
    """1 − ρ ↦ c (1 − ρ)³ without a skip, and ↦ (1 − ρ)/(1 + σ_v²) with one."""
    pure = RandomBlock(tokens=tokens, placement="post", beta=beta, mlp=0.0, skip=0.0)
    with_skip = RandomBlock(tokens=tokens, placement="post", beta=beta, mlp=0.0)
    curves: dict[str, np.ndarray] = {}
    for name, block in (("no skip", pure), ("skip", with_skip)):
        means = []
        for rho in starts:
            found = random_stack(
                block, width, 1, correlation=rho, seeds=seeds, dtype=torch.float64
            )["correlation"]
            means.append((1 - found).mean(0))
        curves[name] = np.array(means).T  # before and after, by start
    slope = {name: _power(curve) for name, curve in curves.items()}
    before, after = curves["no skip"][:, -1]
    out, lost = attention_map(pure, 1.0, before, width)
    shrink = curves["skip"][1, -1] / curves["skip"][0, -1]
    rows = [
        judge("power of 1 − ρ through one layer, no skip", "abstract; cubic derived here",
              3.0, slope["no skip"], relative=0.03),
        judge("1 − ρ after it over what the overlap map says", "derived here, to order 1/d",
              1.0, after / (lost / out), absolute=0.15),
        judge("power of 1 − ρ with a skip connection", "abstract: skips stop it",
              1.0, slope["skip"], relative=0.03),
        judge("factor of 1 − ρ with a skip connection", "derived here",
              float(np.exp(-collapse(with_skip).rate)), shrink, relative=0.1),
    ]  # fmt: skip
    figure = plot_lines(
        {name: (curve[0], curve[1]) for name, curve in curves.items()},
        "1 − ρ before", "1 − ρ after one layer", log="xy",
        caption=f"Random attention, n = {tokens}, d = {width}, β = {beta:g}, {seeds} seeds.",
        theory={
            "cubic": (curves["no skip"][0], collapse(pure).rate * curves["no skip"][0] ** 3),
            "linear": (curves["skip"][0], curves["skip"][0] / 2),
        },
    )  # fmt: skip
    return Finding(rows, {"layer": figure})


def _power(curve: np.ndarray) -> float:
    return float(np.polyfit(np.log(curve[0]), np.log(curve[1]), 1)[0])
