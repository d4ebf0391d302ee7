"""Gauss–Hermite quadrature for one Gaussian."""

from __future__ import annotations

import numpy as np

__all__ = ["hermite_rule"]


def hermite_rule(mean: float, deviation: float, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Hermite nodes and masses of N(mean, deviation²)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    return mean + deviation * nodes, weights / weights.sum()
