"""A context moves a word."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._words import absent, load_model

ENTRY = Entry(
    title="A context moves a word",
    places=["Example 1.1"],
    claim=("Attention moves a word of several meanings towards the meaning its context suggests."),
    method=(
        "The word “bank” in two sentences on rivers and two on money, through the layers of a "
        "trained model."
    ),
    subject="real models",
    basis="text",
    limits="One word in four sentences and one small encoder; needs its weights.",
    planted="_pull.agreement * -1.0",
    settings={"model": "minilm"},
)

SENTENCES = (
    "they sat down on the grassy bank of the river and fished",
    "the boat drifted to the muddy bank of the stream",
    "she deposited her money at the bank before noon",
    "the bank raised the interest on the loan",
)


def context_moves_word(*, model: str) -> Finding:
    """One word of two meanings in four sentences, through the layers."""
    network = load_model(model)
    if network is None:
        return absent("a context moves a word towards its meaning", "Example 1.1", model)
    pull = _pull(network)
    within = pull.agreement[:, [0, 2], [1, 3]].mean(axis=1)
    across = pull.agreement[:, :2, 2:].mean(axis=(1, 2))
    rows = [
        holds("one word in two meanings parts more than in one, from layer 2 on", "Example 1.1",
              bool(np.all(within[2:] > across[2:])), "agreement within a meaning is higher",
              f"by {np.min(within[2:] - across[2:]):.3f} at least"),
        holds("before attention it is one vector, up to its place", "embedding",
              min(within[0], across[0]) > within[2:].max() * 0.9
              and abs(within[0] - across[0]) < 0.1, "no difference of meanings",
              float(within[0] - across[0])),
        holds("the first layer draws the word towards its sentence", "Example 1.1",
              bool(np.all(pull.pull[1] > pull.pull[0])), "in all four sentences",
              int(np.sum(pull.pull[1] > pull.pull[0]))),
    ]  # fmt: skip
    figure = plot_lines(
        {"same meaning": (pull.times, within), "other meaning": (pull.times, across)},
        "layer", "cosine of “bank” between sentences",
        f"One word in four sentences, two of rivers and two of money, in {model}.", lines=True,
    )  # fmt: skip
    note = "The document's word is the Italian “campo”; the model speaks English."
    return Finding(rows, {"agreement": figure}, [note])


def _pull(network: Any) -> Any:
    """How the word moves through the layers in each sentence."""
    from metastable.models.embedding import context_pull

    return context_pull(network, "bank", SENTENCES)
