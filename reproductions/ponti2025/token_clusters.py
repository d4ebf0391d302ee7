"""Tokens of one kind lie together."""

from __future__ import annotations

import numpy as np

from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._words import KINDS, absent, directions, load_model

ENTRY = Entry(
    title="Tokens of one kind lie together",
    places=["Figure 1.2"],
    claim="Projected to the plane, embeddings of tokens group by what they express.",
    method=(
        "Words of three emotions and numbers in the embedding table of a trained model: how "
        "often the nearest neighbour is of the same kind, against shuffled labels."
    ),
    subject="real models",
    basis="text",
    limits="Words of four kinds in one embedding table; needs the weights of a small encoder.",
    planted="_nearest * 0.1",
    settings={"model": "minilm", "shuffles": 200},
)


def token_clusters(*, model: str, shuffles: int) -> Finding:
    """Words of several kinds in the embedding table, projected to the plane."""
    network = load_model(model)
    if network is None:
        return absent("tokens of one kind lie together", "Figure 1.2", model)
    words = [(kind, word) for kind, listed in KINDS.items() for word in listed.split()]
    vectors = directions(network, [word for _, word in words])
    labels = np.array([kind for kind, _ in words])
    share = _nearest(vectors, labels)
    random = np.random.default_rng(0)
    chance = [_nearest(vectors, random.permutation(labels)) for _ in range(shuffles)]
    centred = vectors - vectors.mean(axis=0)
    plane = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    flat = _nearest(plane, labels)
    rows = [
        holds("words whose nearest neighbour is of their kind", "Figure 1.2",
              share > max(chance) and share > 0.5, f"above every shuffling ({max(chance):.2f})",
              share),
        holds("the same after the projection to the plane", "Figure 1.2",
              flat > np.mean(chance) + 3 * np.std(chance), "3 deviations above chance", flat),
    ]  # fmt: skip
    figure = plot_lines(
        {kind: tuple(plane[labels == kind].T) for kind in KINDS},
        "first principal direction", "second principal direction",
        f"{len(words)} words in the embedding table of {model}, projected to the plane of largest "
        "variance.", size=(5.0, 3.6),
    )  # fmt: skip
    note = (
        "The document shows tokens of speech and of faces of another work, by emotion; that model "
        "is not to be had. Words of emotions in a language model stand for them."
    )
    return Finding(rows, {"plane": figure}, [note])


def _nearest(vectors: np.ndarray, labels: np.ndarray) -> float:
    """Share of vectors whose nearest other one has the same label."""
    apart = np.linalg.norm(vectors[:, None] - vectors[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    return float(np.mean(labels[apart.argmin(axis=1)] == labels))
