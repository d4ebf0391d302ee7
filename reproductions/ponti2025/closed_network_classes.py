"""Networks inside and beside each other."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.report.figures.plain import plot_bars
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

from ._separation import sigmoid
from ._sigmoid_network import SigmoidNetwork

ENTRY = Entry(
    title="Networks inside and beside each other",
    places=["Lemma 2.1", "Lemma 2.2", "Definition 2.4"],
    claim="N_k^σ is contained in N_(k+1), and N_k is closed under affine combinations.",
    method=(
        "Random sigmoid networks of one to three hidden layers; the longer network and the "
        "joint network written out, against the functions."
    ),
    subject="networks",
    basis="text",
    limits=(
        "Random sigmoid networks of three inputs and one to three hidden layers of width 6, at "
        "500 points."
    ),
    planted="sigmoid * 1.01",
    settings={"inputs": 3, "hidden": 6, "points": 500},
)


def closed_network_classes(*, inputs: int, hidden: int, points: int) -> Finding:
    """A layer can be passed on, and two networks of one depth add up to one of that depth."""
    random = np.random.default_rng(0)
    at = random.normal(size=(points, inputs))

    def draw(*widths: int) -> SigmoidNetwork:
        sizes = [inputs, *widths, 1]
        pairs = list(zip(sizes[1:], sizes[:-1], strict=True))
        return SigmoidNetwork(
            tuple(random.normal(size=pair) for pair in pairs),
            tuple(random.normal(size=rows) for rows, _ in pairs),
        )

    passed, summed = [], []
    for depth in (1, 2, 3):
        one, two = draw(*[hidden] * depth), draw(*[hidden + 1] * depth)
        # F = σ∘f is 0 + 1·F: one more layer with a single weight 1.
        longer = SigmoidNetwork((*one.weights, np.ones((1, 1))), (*one.biases, np.zeros(1)))
        passed.append(float(np.abs(longer(at) - sigmoid(one(at))).max()))
        a0, a1, a2 = random.normal(size=3)
        both = _added(one, two, a0, a1, a2)
        summed.append(float(np.abs(both(at) - (a0 + a1 * one(at) + a2 * two(at))).max()))
        assert len(both.widths) == depth
    rows = [
        judge("σ∘f of N_k^σ as a network of N_(k+1): largest difference", "Lemma 2.1", 0.0,
              max(passed), absolute=1e-12),
        judge("a_0 + a_1 g_1 + a_2 g_2 as one network of the same depth: largest difference",
              "Lemma 2.2", 0.0, max(summed), absolute=1e-11),
    ]  # fmt: skip
    figure = plot_bars(
        ["k = 1", "k = 2", "k = 3"],
        {"Lemma 2.1": np.maximum(passed, 1e-17).tolist(),
         "Lemma 2.2": np.maximum(summed, 1e-17).tolist()},
        "hidden layers", "largest difference",
        f"Networks put together, against the functions they stand for, at {points} points.",
        log=True,
    )  # fmt: skip
    return Finding(rows, {"differences": figure})


def _added(
    one: SigmoidNetwork, two: SigmoidNetwork, a0: float, a1: float, a2: float
) -> SigmoidNetwork:
    """One network for a_0 + a_1·one + a_2·two: layers side by side, joined in the last."""
    weights, biases = [np.vstack([one.weights[0], two.weights[0]])], []
    for left, right in zip(one.weights[1:-1], two.weights[1:-1], strict=True):
        rows, columns = left.shape
        block = np.zeros((rows + len(right), columns + right.shape[1]))
        block[:rows, :columns], block[rows:, columns:] = left, right
        weights.append(block)
    weights.append(np.hstack([a1 * one.weights[-1], a2 * two.weights[-1]]))
    biases = [np.concatenate(pair) for pair in zip(one.biases[:-1], two.biases[:-1], strict=True)]
    biases.append(a0 + a1 * one.biases[-1] + a2 * two.biases[-1])
    return SigmoidNetwork(tuple(weights), tuple(biases))
