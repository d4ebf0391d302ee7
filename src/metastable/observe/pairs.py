"""Sums over pairs of tokens in blocks of rows, so that no n × n array ever exists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from metastable.core.numerics import is_traced, jax
from metastable.measures import Points

BLOCK = 2**21  # numbers alive at once: 16 MiB, still in the cache of a server CPU


def over_rows(row: Callable[..., Any], rows: Any, width: int) -> Any:
    """`row` applied to each entry along the first axis of `rows`, when one result costs `width`.

    Differentiable with the same memory: each block is computed again on the way back.
    """
    count = jax.tree.leaves(rows)[0].shape[0]
    return jax.lax.map(jax.checkpoint(row), rows, batch_size=min(count, max(1, BLOCK // width)))


def padded(points: Any, weights: Any) -> tuple[Any, Any]:
    """Points and weights with zero-mass tokens added up to a round count.

    A merging run has a new token count in every frame. Three leading bits are kept, so a hundred
    counts compile a dozen programs at a cost of at most a quarter more rows.
    """
    if is_traced(points, weights):
        return points, weights
    points, weights = np.asarray(points), np.asarray(weights)
    extra = -len(weights) % (1 << max(len(weights).bit_length() - 3, 3))
    return np.pad(points, ((0, extra), (0, 0))), np.pad(weights, (0, extra))


def carrying(measure: Points) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, weights and indices of the tokens that carry mass."""
    index = np.flatnonzero(np.asarray(measure.weights) > 0)
    return np.asarray(measure.points)[index], np.asarray(measure.weights)[index], index
