"""Empirical moments as the thesis computes them."""

from __future__ import annotations

import numpy as np

__all__ = ["sample_moments"]


def sample_moments(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Empirical mean and covariance (divided by N, as the listing does)."""
    mean = points.mean(axis=0)
    return mean, (points - mean).T @ (points - mean) / len(points)
