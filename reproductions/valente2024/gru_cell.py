"""Gated recurrent unit."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from .._torch_beside import recurrent_states
from ._gates import sigmoid

ENTRY = Entry(
    title="Gated recurrent unit",
    places=["Figure 11"],
    claim=(
        "A reset gate and an update gate make the new hidden state from the old one and a "
        "candidate."
    ),
    method=(
        "The equations in NumPy against torch.nn.GRU in double precision; the new state must "
        "lie between the old one and the candidate."
    ),
    subject="networks",
    basis="text",
    limits="One cell of width 16 with random weights on 24 random inputs; no training.",
    planted="sigmoid * 1.01",
    settings={"length": 24, "width": 16, "seed": 0},
)


def gru_cell(*, length: int, width: int, seed: int) -> Finding:
    """The hidden state of a gated recurrent unit: reset and update gate, against torch.nn.GRU."""
    x = np.random.default_rng(seed).normal(size=(length, width))
    weights, states = recurrent_states("gru", x, seed)
    h, written, update, between = np.zeros(width), [], [], 0.0
    for x_t in x:
        r, z, n = np.split(weights["W"] @ x_t + weights["b"], 3)
        R, Z, N = np.split(weights["U"] @ h + weights["c"], 3)
        reset, keep = sigmoid(r + R), sigmoid(z + Z)
        candidate = np.tanh(n + reset * N)
        before, h = h, (1 - keep) * candidate + keep * h
        outside = np.maximum(np.minimum(before, candidate) - h, h - np.maximum(before, candidate))
        between = max(between, float(outside.max()))
        written.append(h)
        update.append([reset.mean(), keep.mean()])
    rows = [
        judge("h_t = (1 − z) ∘ candidate + z ∘ h_(t−1) against torch.nn: largest error",
              "Figure 11; arXiv:1406.1078", 0.0,
              float(np.abs(np.array(written) - states).max()), absolute=1e-12),
        holds("the new state lies between the old one and the candidate", "Figure 11, update gate",
              between <= 1e-15, "in every coordinate", f"outside by {max(between, 0.0):.1g}"),
        holds("two gates instead of three: rows of W", "Figure 11, text",
              len(weights["W"]) == 3 * width, f"3 × {width}", f"{len(weights['W'])}"),
    ]  # fmt: skip
    place, seen = np.arange(length), np.array(update)
    figure = plot_lines(
        {name: (place, seen[:, k]) for k, name in enumerate(("reset", "update"))},
        "place", "mean opening of the gate",
        "Gates along random inputs; an update gate of 1 copies the old state.", lines=True,
    )  # fmt: skip
    return Finding(rows, {"gates": figure})
