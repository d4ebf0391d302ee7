"""The sigmoid of the gates."""

from __future__ import annotations

import numpy as np

__all__ = ["sigmoid"]


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1/(1 + e^(−x))."""
    return 1 / (1 + np.exp(-x))
