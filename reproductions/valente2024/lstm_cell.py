"""Long short-term memory."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from .._torch_beside import recurrent_states
from ._gates import sigmoid

ENTRY = Entry(
    title="Long short-term memory",
    places=["Figure 10", "equations 25 to 30"],
    claim="Forget, input and output gate and a memory obey equations 25 to 30.",
    method=(
        "The six equations in NumPy against torch.nn.LSTM in double precision, with and "
        "without a bias in the candidate memory, which equation 27 leaves out."
    ),
    subject="networks",
    basis="text",
    limits="One cell of width 16 with random weights on 24 random inputs; no training.",
    planted="sigmoid * 1.01",
    settings={"length": 24, "width": 16, "seed": 0},
)


def lstm_cell(*, length: int, width: int, seed: int) -> Finding:
    """The six equations of a long short-term memory, as printed, against torch.nn.LSTM."""
    x = np.random.default_rng(seed).normal(size=(length, width))
    errors, gates = {}, {}
    for bias in (False, True):
        weights, states = recurrent_states("lstm", x, seed, candidate_bias=bias)
        for printed in (False, True):
            h, memory, written, seen = np.zeros(width), np.zeros(width), [], []
            offset = np.split(weights["b"] + weights["c"], 4)
            for x_t in x:
                i, f, g, o = np.split(weights["W"] @ x_t + weights["U"] @ h, 4)
                forget = sigmoid(f + offset[1])  # 25
                enter = sigmoid(i + offset[0])  # 26
                candidate = np.tanh(g if printed else g + offset[2])  # 27, printed without bias
                memory = forget * memory + enter * candidate  # 28
                output = sigmoid(o + offset[3])  # 29
                h = output * np.tanh(memory)  # 30
                written.append(h)
                seen.append([forget.mean(), enter.mean(), output.mean()])
            errors[bias, printed] = float(np.abs(np.array(written) - states).max())
            gates = np.array(seen)
    rows = [
        judge("equations 25 to 30 against torch.nn without a bias in the candidate: largest error",
              "Figure 10, equations 25–30", 0.0, errors[False, True], absolute=1e-12),
        holds("equation 27 has no bias; torch.nn's has one, and then they part",
              "equation 27; Hochreiter and Schmidhuber 1997", errors[True, True] > 1e-3, "differs",
              errors[True, True]),
        judge("with b_c in equation 27 they agree again: largest error", "equation 27",
              0.0, errors[True, False], absolute=1e-12),
    ]  # fmt: skip
    place = np.arange(length)
    figure = plot_lines(
        {name: (place, gates[:, k]) for k, name in enumerate(("forget", "input", "output"))},
        "place", "mean opening of the gate", "Gates along random inputs; 1 is open.", lines=True,
    )  # fmt: skip
    return Finding(rows, {"gates": figure})
