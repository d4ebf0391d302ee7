"""Many uniform starts at once."""

from __future__ import annotations

import numpy as np

from metastable.core.numerics import jnp
from metastable.geometry.sphere import retract

__all__ = ["uniform_starts"]


def uniform_starts(draws: int, tokens: int, dim: int) -> np.ndarray:
    """Independent uniform starts (draws, n, d)."""
    raw = np.random.default_rng([tokens, dim]).normal(size=(draws, tokens, dim))
    return np.asarray(retract(jnp.asarray(raw)))
