"""A start on the circle, its flow at zero temperature, and where that ends."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from metastable.measures import Points
from metastable.theory.limits import collapse_projection

__all__ = ["BILINEAR", "VALUE", "frozen_flow", "projected", "smooth_start"]

BILINEAR = np.array([[1.0, 0.3], [0.3, 0.8]])  # KᵀQ, with K = I
VALUE = np.array([[1.0, 0.2], [0.0, 0.3]])


def smooth_start(tokens: int) -> np.ndarray:
    """Quantiles of a smooth density on the circle, without symmetry."""
    angle = 2 * np.pi * (np.arange(tokens) + 0.5) / tokens
    angle = angle + 0.3 * np.sin(angle - 0.5)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def projected(x: np.ndarray, value: Any, query: Any) -> Points:
    """P_#μ: each token at Px/‖Px‖."""
    z = x @ collapse_projection(value, query=query).T
    return Points(z / np.linalg.norm(z, axis=1, keepdims=True))


def frozen_flow(x: np.ndarray, times: np.ndarray, value: Any, query: Any) -> np.ndarray:
    """ẋ = P_x V KᵀQx/‖KᵀQx‖ by SciPy, (times, n, d): tokens everywhere and β = ∞."""
    count, dim = x.shape

    def velocity(_: float, state: np.ndarray) -> np.ndarray:
        y = state.reshape(count, dim)
        turned = y @ np.asarray(query).T
        v = turned @ np.asarray(value).T / np.linalg.norm(turned, axis=1, keepdims=True)
        return (v - np.sum(v * y, axis=1, keepdims=True) * y).ravel()

    solved = solve_ivp(velocity, (0, times[-1]), x.ravel(), t_eval=times, rtol=1e-8, atol=1e-10)
    found = solved.y.T.reshape(len(times), count, dim)
    return found / np.linalg.norm(found, axis=2, keepdims=True)
