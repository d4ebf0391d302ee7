"""Two heads see different relations."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.core.figure import Axis, Map, Strip
from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._words import absent, load_model

ENTRY = Entry(
    title="Two heads see different relations",
    places=["Figure 1.4"],
    claim=(
        "Of two heads of a trained encoder one looks at the tokens just before, the other does not."
    ),
    method=(
        "Attention maps of a trained model on one sentence: weight on the token before, and "
        "entropies."
    ),
    subject="real models",
    basis="text",
    limits="One sentence and one small encoder; needs its weights.",
    planted="_maps * 0.5",
    settings={
        "model": "minilm",
        "text": "the law will never be perfect, but its application should be just",
    },
)


def heads_differ(*, model: str, text: str) -> Finding:
    """Which places two heads look at: the token before, or anything else."""
    network = load_model(model)
    if network is None:
        return absent("two heads see different relations", "Figure 1.4", model)
    maps, words = _maps(network, text)
    n = len(words)
    inner = np.arange(2, n - 1)  # neither the special tokens nor the first word
    before = maps[:, :, inner, inner - 1].mean(axis=2)
    entropy = -np.sum(maps * np.log(np.maximum(maps, 1e-30)), axis=-1)[:, :, inner].mean(axis=2)
    layer, head = np.unravel_index(before.argmax(), before.shape)
    other = int(before[layer].argmin())
    rows = [
        holds("a head that looks at the token before: mean weight on it", "Figure 1.4, first head",
              before.max() > 0.4, f"far above 1/n = {1 / n:.3f}", float(before.max())),
        holds("another head of the same layer that does not", "Figure 1.4, second head",
              before[layer, other] < 0.25 * before.max(), "below a quarter of that",
              float(before[layer, other])),
        holds("entropies of the heads differ: smallest and largest mean", "different tasks",
              np.ptp(entropy) > 0.25 * np.log(n), f"a range above {0.25 * np.log(n):.2f}",
              f"{entropy.min():.2f} to {entropy.max():.2f}, at most {np.log(n):.2f}"),
        judge("rows of attention sum to one: largest error", "softmax", 0.0,
              float(np.abs(maps.sum(-1) - 1).max()), absolute=1e-5),
    ]  # fmt: skip
    places, edges = list(range(n)), np.arange(n + 1) - 0.5
    x = Axis("token looked at", places=places, names=words)
    y = Axis("token that looks", places=places, names=words, limits=(n - 0.5, -0.5))
    shown = [
        Map(x, y, Axis("attention", limits=(0.0, 1.0)), edges, edges, maps[layer, each],
            equal=True, title=f"layer {layer + 1}, head {each + 1}")
        for each in (head, other)
    ]  # fmt: skip
    caption = f"Two heads of one layer of {model} on one sentence."
    figure = Strip(shown, columns=2, size=(8.4, 4.2), caption=caption)
    return Finding(rows, {"heads": figure})


def _maps(network: Any, text: str) -> tuple[np.ndarray, list[str]]:
    """Attention of every layer and head, shape (layers, heads, n, n), and the n tokens."""
    from metastable.models.capture import attention_maps

    maps, words = attention_maps(network, text)
    return maps, words
