"""Differences of words."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._words import KINDS, absent, directions, load_model

ENTRY = Entry(
    title="Differences of words",
    places=["Figure 1.3"],
    claim="king − man + woman ≈ queen, and differences of female and male words are alike.",
    method=(
        "Analogies in the embedding table of a trained model, and cosines of differences "
        "against those of unrelated words."
    ),
    subject="real models",
    basis="text",
    limits="One embedding table and a short list of pairs; needs the weights of a small encoder.",
    planted="_cosines * -1.0",
    settings={"model": "minilm", "draws": 400},
)

PAIRS = (
    ("man", "woman"), ("king", "queen"), ("brother", "sister"), ("uncle", "aunt"),
    ("father", "mother"), ("son", "daughter"), ("boy", "girl"), ("husband", "wife"),
)  # fmt: skip


def word_analogies(*, model: str, draws: int) -> Finding:
    """king − man + woman, and differences of pairs that are nearly parallel."""
    network = load_model(model)
    if network is None:
        return absent("king − man + woman ≈ queen", "Figure 1.3", model)
    from metastable.models.embedding import analogy

    asked = [pair for pair in PAIRS if pair != ("man", "woman")]
    answers = {
        b: [word for word, _ in analogy(network, [a, "woman"], ["man"], 5)] for a, b in asked
    }
    first = sum(found[0] == b for b, found in answers.items())
    among = sum(b in found for b, found in answers.items())
    vectors = directions(network, [word for pair in PAIRS for word in pair]).reshape(
        len(PAIRS), 2, -1
    )
    steps = vectors[:, 1] - vectors[:, 0]
    seen = _cosines(steps[1:], steps[:1]).mean()
    # Female and male words paired anew would share the direction sought; other words do not.
    others = directions(network, [word for listed in KINDS.values() for word in listed.split()])
    random, chance = np.random.default_rng(0), []
    for _ in range(draws):
        pairs = others[random.permutation(len(others))[: 2 * len(asked)]].reshape(len(asked), 2, -1)
        chance.append(_cosines(pairs[:, 1] - pairs[:, 0], steps[:1]).mean())
    rows = [
        holds("king − man + woman is nearest to", "Figure 1.3", answers["queen"][0] == "queen",
              "queen", answers["queen"][0]),
        holds(f"right answers among the first five, of {len(asked)} pairs", "Figure 1.3",
              among >= 0.7 * len(asked), "most", f"{among}, first {first}"),
        holds("mean cosine of woman − man with the other differences", "Figure 1.3",
              seen > max(chance), f"above {draws} draws of other words ({max(chance):.3f})",
              float(seen)),
    ]  # fmt: skip
    flat = vectors.reshape(-1, vectors.shape[-1])
    centred = flat - flat.mean(axis=0)
    axis = steps.mean(axis=0) / np.linalg.norm(steps.mean(axis=0))
    rest = centred - np.outer(centred @ axis, axis)
    other = np.linalg.svd(rest, full_matrices=False)[2][0]
    plane = np.stack([centred @ other, centred @ axis], axis=1).reshape(len(PAIRS), 2, 2)
    flat, named = plane.reshape(-1, 2), [word for pair in PAIRS for word in pair]
    figure = Lines(
        Axis("largest other direction"),
        Axis("mean difference of the pairs"),
        [Series("", *pair.T, style="both", group=0, width=1.0) for pair in plane],
        notes=[(float(x), float(y), word) for (x, y), word in zip(flat, named, strict=True)],
        size=(5.6, 3.8),
        caption=f"Eight pairs of words in the embedding table of {model}, in two directions.",
    )
    return Finding(rows, {"pairs": figure})


def _cosines(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    unit = lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)
    return unit(one) @ unit(two).T
