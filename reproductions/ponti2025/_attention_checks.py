"""Random heads of attention, and the largest difference of two answers."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["largest_difference", "random_heads"]


def random_heads(random: np.random.Generator, heads: int, keys: int, dim: int) -> list[np.ndarray]:
    """Query, key, value and output matrices, stacked."""
    shapes = ((heads, keys, dim), (heads, keys, dim), (heads, keys, dim), (heads, dim, keys))
    return [0.7 * random.normal(size=shape) for shape in shapes]


def largest_difference(one: Any, two: Any) -> float:
    """Largest absolute difference of two arrays."""
    return float(np.abs(np.asarray(one) - np.asarray(two)).max())
