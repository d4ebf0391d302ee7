"""Networks whose value matrices hold independent signs, in plain NumPy."""

from __future__ import annotations

import numpy as np


def sign_layers(
    start: np.ndarray, beta: float, depth: int, horizon: float, samples: int, seed: int = 0
) -> np.ndarray:
    """x ← N(x + √(T/L) V m), entries of V ±1 and common to all tokens: (samples, n, d)."""
    rng = np.random.default_rng(seed)
    x = np.broadcast_to(start, (samples, *start.shape)).copy()
    for _ in range(depth):
        weights = np.exp(beta * (x @ x.transpose(0, 2, 1)))
        means = weights @ x / weights.sum(axis=2, keepdims=True)
        signs = 2.0 * rng.integers(0, 2, (samples, x.shape[2], x.shape[2])) - 1.0
        x += np.sqrt(horizon / depth) * means @ signs.transpose(0, 2, 1)
        x /= np.linalg.norm(x, axis=2, keepdims=True)
    return x
