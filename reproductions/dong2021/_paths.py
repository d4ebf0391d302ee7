"""A stack of attention with skip connections, and all of its attention matrices."""

from __future__ import annotations

import numpy as np


def attention_stack(
    tokens: int, dim: int, heads: int, layers: int, scale: float, seed: int, skip: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """X ← skip X + Σ_h P_h X W_h: first and last tokens, P (L, H, n, n) and W (L, H, d, d)."""
    rng = np.random.default_rng(seed)
    start = rng.standard_normal((tokens, dim))
    values = rng.standard_normal((layers, heads, dim, dim)) / np.sqrt(heads * dim)
    queries = scale * rng.standard_normal((layers, heads, dim, dim)) / dim
    found, x = [], start
    for layer in range(layers):
        logits = x @ queries[layer] @ x.T  # (heads, n, n)
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        found.append(weights / weights.sum(axis=-1, keepdims=True))
        x = skip * x + np.sum(found[-1] @ (x @ values[layer]), axis=0)
    return start, x, np.array(found), values


def spread(mixing: np.ndarray) -> float:
    """Largest distance in total variation of two rows: Dobrushin's coefficient."""
    return float(np.abs(mixing[:, None] - mixing[None]).sum(axis=-1).max() / 2)
