"""Layers of pure attention in as many digits as wanted, and the distance from equal rows."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np


def draw_heads(layers: int, heads: int, dim: int, scale: float, seed: int) -> np.ndarray:
    """Query-key products and values of every layer and head: (layers, heads, 2, d, d)."""
    rng = np.random.default_rng(seed)
    return scale * rng.standard_normal((layers, heads, 2, dim, dim)) / np.sqrt(dim)


def attention_layers(
    x: np.ndarray, heads: np.ndarray, *, skip: float = 0.0, gain: float = 1.0, digits: int = 400
) -> list[Any]:
    """Tokens before the first layer and after each: X ← gain (skip X + Σ_h P_h X W_h)."""
    with mp.workdps(digits):
        states = [mp.matrix(x.tolist())]
        width = mp.sqrt(x.shape[1])
        for layer in heads:
            now = states[-1]
            out = skip * now
            for query_key, value in layer:
                logits = now * mp.matrix(query_key.tolist()) * now.T / width
                weights = logits.apply(mp.exp)
                for i in range(weights.rows):
                    total = mp.fsum(weights[i, :])
                    for j in range(weights.cols):
                        weights[i, j] /= total
                out += weights * now * mp.matrix(value.tolist())
            states.append(gain * out)
        return states


def distance(x: Any, digits: int = 400) -> Any:
    """√(‖R‖₁‖R‖_∞) of what remains of the tokens when their mean is taken off."""
    with mp.workdps(digits):
        mean = [mp.fsum(x[:, j]) / x.rows for j in range(x.cols)]
        rest = [[abs(x[i, j] - mean[j]) for j in range(x.cols)] for i in range(x.rows)]
        columns = max(mp.fsum(row[j] for row in rest) for j in range(x.cols))
        return mp.sqrt(columns * max(mp.fsum(row) for row in rest))


def norms(matrix: np.ndarray) -> tuple[float, float]:
    """‖W‖₁ and √(‖W‖₁‖W‖_∞)."""
    one, most = np.abs(matrix).sum(axis=0).max(), np.abs(matrix).sum(axis=1).max()
    return float(one), float(np.sqrt(one * most))
