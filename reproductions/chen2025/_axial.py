"""Densities that are symmetric about an axis, as weighted tokens on one great circle."""

from __future__ import annotations

import numpy as np

from metastable.measures import Points

__all__ = ["axial_nodes", "distance_to_pole", "mirrored", "zonal_start"]


def axial_nodes(step: float = 0.2, reach: float = 26.0) -> np.ndarray:
    """Values of s = log tan(θ/2): equal steps integrate with exponential accuracy.

    They reach e^{−26} close to both poles; sin θ = 1/cosh s, cos θ = −tanh s, dθ = sin θ ds.
    """
    return np.arange(-reach, reach + step / 2, step)


def zonal_start(dim: int, tilt: float) -> Points:
    """The density ∝ 1 + tilt·cos θ on S^{d−1}, θ the angle from the axis, as pairs ±θ.

    For a force that knows only the mean (β = 0) pairs are as good as spheres.
    """
    s = axial_nodes()
    return mirrored(s, (1 - tilt * np.tanh(s)) / np.cosh(s) ** (dim - 1))


def mirrored(s: np.ndarray, weights: np.ndarray) -> Points:
    """Tokens at s = log tan(θ/2) and at their mirror images, of weights that sum to one."""
    x = np.column_stack([-np.tanh(s), 1 / np.cosh(s)])
    weights = np.tile(weights / weights.sum() / 2, 2)
    return Points(np.concatenate([x, x * [1, -1]]), weights)


def distance_to_pole(measure: Points) -> float:
    """W_2 to the point mass on the axis: the root mean square angle."""
    x = np.asarray(measure.points)
    angle = np.arctan2(np.abs(x[:, 1]), x[:, 0])
    return float(np.sqrt(np.asarray(measure.weights) @ angle**2))
