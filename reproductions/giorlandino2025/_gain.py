"""Random stacks of attention with or without its uniform part, in plain NumPy."""

from __future__ import annotations

import numpy as np


def centred_stack(
    tokens: int, width: int, depth: int, beta: float, start: float, centred: bool, seed: int,
    value: float = 1.0,
) -> np.ndarray:  # fmt: skip
    """Mean correlation of two tokens before the first layer and after each: X ← N(X + A X V)."""
    rng = np.random.default_rng(seed)
    x = np.sqrt(start) * rng.standard_normal((1, width))
    x = _norm(x + np.sqrt(1 - start) * rng.standard_normal((tokens, width)))
    found = [_correlation(x)]
    for _ in range(depth):
        query, key = rng.standard_normal((2, width, width)) * np.sqrt(beta / width)
        values = value * rng.standard_normal((width, width)) / np.sqrt(width)
        logits = (x @ query) @ (x @ key).T / np.sqrt(width)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        x = _norm(x + (weights - centred / tokens) @ (x @ values))
        found.append(_correlation(x))
    return np.array(found)


def _norm(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt(np.mean(x * x, axis=1, keepdims=True))


def _correlation(x: np.ndarray) -> float:
    n, d = x.shape
    return float(((x.sum(axis=0) ** 2).sum() / d - n) / (n * (n - 1)))
