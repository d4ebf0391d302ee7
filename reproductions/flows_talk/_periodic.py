"""Starts on the circle that repeat themselves."""

from __future__ import annotations

import numpy as np

from metastable.measures import Points

__all__ = ["periodic"]


def periodic(copies: int, each: int, noise: float, seed: int) -> Points:
    """Uniform tokens in one of k sectors of the circle, its copies, and noise on each."""
    random = np.random.default_rng(seed)
    psi = random.uniform(0, 2 * np.pi, each)
    angles = np.concatenate([(psi + 2 * np.pi * q) / copies for q in range(copies)])
    angles = angles + noise * random.standard_normal(angles.size)
    return Points(np.stack([np.cos(angles), np.sin(angles)], axis=1))
