"""Singular values of attention as a map of tokens."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.core.numerics import jax, jnp
from metastable.measures import Points

__all__ = ["adversarial", "lipschitz", "two_places"]


def lipschitz(field: Any, x: np.ndarray, weights: Any = None) -> float:
    """Largest singular value of X ↦ A(X), in the norm weighted by the masses."""
    count, dim = x.shape
    flat = lambda y: field.velocity(Points(y, weights, on_sphere=False))
    found = np.asarray(jax.jacfwd(flat)(jnp.asarray(x))).reshape(count * dim, count * dim)
    if weights is not None:
        root = np.repeat(np.sqrt(np.asarray(weights, float)), dim)
        found = root[:, None] * found / root
    return float(np.linalg.norm(found, 2))


def adversarial(tokens: int, radius: float, other: float, dim: int = 2) -> np.ndarray:
    """One token at Ru, the others at `other`·Ru; u the first axis."""
    x = np.zeros((tokens, dim))
    x[:, 0] = other * radius
    x[0, 0] = radius
    return x


def two_places(beta: float, first: float, second: float, share: float) -> float:
    """The same singular value for masses `share` at one place of a line, the rest at another.

    Tokens of one place move together there; written out by hand, in the weighted norm.
    """
    masses, places = np.array([share, 1 - share]), np.array([first, second])
    logits = beta * np.outer(places, places) + np.log(masses)
    P = np.exp(logits - logits.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    mean = P @ places
    spread = P @ places**2 - mean**2
    J = P * (1 + beta * places[:, None] * (places - mean[:, None])) + np.diag(beta * spread)
    root = np.sqrt(masses)
    return float(np.linalg.norm(root[:, None] * J / root, 2))
