"""A Gaussian as weighted tokens, exactly enough for attention to see no difference."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from metastable.measures import Points

__all__ = ["draw", "moments", "quadrature_tokens"]


def quadrature_tokens(mean: Any, cov: Any, order: int) -> Points:
    """Nodes and masses of the product Gauss–Hermite rule of N(mean, cov).

    An affine map takes the rule of one Gaussian to that of another: tokens that move by an affine
    velocity stay such a rule.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    dim = len(mean)
    grid = np.array(list(itertools.product(nodes, repeat=dim)))
    mass = np.prod(np.array(list(itertools.product(weights, repeat=dim))), axis=1)
    factor = np.linalg.cholesky(np.asarray(cov, float))
    # Nodes of less than 1e-18 of the mass see nothing but rounding.
    kept = mass > 1e-18 * mass.sum()
    return Points(np.asarray(mean) + grid[kept] @ factor.T, mass[kept], on_sphere=False)


def moments(points: Any, weights: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of weighted tokens."""
    x, w = np.asarray(points), np.asarray(weights)
    mean = w @ x
    return mean, (x - mean).T @ ((x - mean) * w[:, None])


def draw(dim: int, seed: int, size: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q, K and V with independent N(0, size²/dim) entries."""
    return tuple(np.random.default_rng(seed).standard_normal((3, dim, dim)) * size / np.sqrt(dim))
