"""A run of pure attention in the frame that grows with it."""

from __future__ import annotations

import numpy as np

from metastable.fields import Rescaled, SelfAttention
from metastable.flows import Trajectory, flow
from metastable.measures import Points, gaussian_points

__all__ = ["rescaled_run"]


def rescaled_run(
    value: np.ndarray, tokens: int, horizon: float, seed: int = 0
) -> Trajectory[Points]:
    """z = e^{−tV}x of pure attention with β = 1 and Q = K = I, from Gaussian tokens."""
    start = gaussian_points(tokens, len(value), seed=seed)
    return flow(start, Rescaled(SelfAttention(1.0, value=value)), horizon, frames=33)
