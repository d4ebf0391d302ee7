"""Residual steps of softmax attention towards its mean, in R^d."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.measures import Points

__all__ = ["steps"]


def steps(field: Any, x: np.ndarray, sizes: Any) -> np.ndarray:
    """x ← x + γ(A(x) − x) for the given γ; all states, (steps + 1, n, d)."""
    kept = [np.asarray(x, float)]
    for size in sizes:
        x = kept[-1]
        kept.append(x + size * (np.asarray(field.velocity(Points(x, on_sphere=False))) - x))
    return np.array(kept)
