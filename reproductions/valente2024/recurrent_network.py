"""Recurrent and feed-forward networks."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from .._torch_beside import recurrent_states

ENTRY = Entry(
    title="Recurrent and feed-forward networks",
    places=["Figure 8", "Figure 9", "equation 22"],
    claim=(
        "A recurrent network answers from the input of now and the state of before; a "
        "feed-forward network takes inputs one by one and keeps nothing."
    ),
    method=(
        "The formula written out in NumPy against our cell, which is torch.nn's; then the "
        "first input reversed, to see what changes later in both kinds of network."
    ),
    subject="networks",
    basis="text",
    limits="One cell of width 16 with random weights on 24 random inputs; no training.",
    planted="recurrent_states * 1.01",
    settings={"length": 24, "width": 16, "seed": 0},
)


def recurrent_network(*, length: int, width: int, seed: int) -> Finding:
    """A recurrent network against its formula, and what a feed-forward network cannot see."""
    x = np.random.default_rng(seed).normal(size=(length, width))
    weights, states = recurrent_states("rnn", x, seed)
    h, written = np.zeros(width), []
    for x_t in x:
        h = np.tanh(weights["W"] @ x_t + weights["b"] + weights["U"] @ h + weights["c"])
        written.append(h)
    other = x.copy()
    other[0] = -x[0]
    moved = np.abs(recurrent_states("rnn", other, seed)[1] - states).max(axis=1)
    forward = lambda inputs: np.tanh(inputs @ weights["W"].T + weights["b"])
    still = np.abs(forward(other) - forward(x)).max(axis=1)
    unrolled = recurrent_states("rnn", x[: length // 2], seed)[1]
    rows = [
        judge("h_t = tanh(W x_t + U h_(t−1) + b), place by place, against torch.nn: largest error",
              "Figure 8, equation 22", 0.0, float(np.abs(np.array(written) - states).max()),
              absolute=1e-12),
        judge("the first half of a sequence does not know the second: largest error",
              "Figure 8, unrolled", 0.0, float(np.abs(unrolled - states[: length // 2]).max()),
              absolute=1e-14),
        holds("an input of the past moves the recurrent network's next state", "Figure 9, left",
              moved[1] > 1e-3, "moves", float(moved[1])),
        judge("and nothing in a feed-forward network, which takes inputs one by one",
              "Figure 9, right", 0.0, float(still[1:].max()), absolute=0.0),
    ]  # fmt: skip
    place = np.arange(length)
    figure = plot_lines(
        {
            "recurrent": (place, np.maximum(moved, 1e-17)),
            "feed-forward": (place, np.maximum(still, 1e-17)),
        },
        "place", "change of the state", log="y", lines=True,
        caption="What reversing the first input changes later; 1e−17 stands for nothing.",
    )  # fmt: skip
    return Finding(rows, {"memory": figure})
