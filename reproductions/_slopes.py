"""The slope of a fitted line."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["fitted_slope"]


def fitted_slope(x: Any, y: Any) -> float:
    """Slope of the least-squares line through the points (x, y)."""
    return float(np.polyfit(np.asarray(x), np.asarray(y), 1)[0])
