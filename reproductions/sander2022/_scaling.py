"""Sinkhorn's algorithm, written out for a matrix of logits and equal masses."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

__all__ = ["scaled", "scalings"]


def scalings(logits: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """f and g after so many normalisations, of rows first, rows and columns in turn."""
    count = len(logits)
    f, g = np.zeros(count), np.zeros(count)
    for step in range(steps):
        if step % 2 == 0:
            f = np.log(count) - logsumexp(logits + g, axis=1)
        else:
            g = np.log(count) - logsumexp(logits + f[:, None], axis=0)
    return f, g


def scaled(logits: np.ndarray, steps: int) -> np.ndarray:
    """The attention matrix after so many normalisations: one is softmax."""
    f, g = scalings(logits, steps)
    return np.exp(logits + f[:, None] + g) / len(logits)
