"""The sigmoid of the gates."""

from __future__ import annotations

import numpy as np

__all__ = ["sigmoid"]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))
