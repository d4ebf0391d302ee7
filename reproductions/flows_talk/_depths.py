"""Errors against the number of layers: their power, and the ticks of their figure."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["name_ticks", "power_of_depth"]


def power_of_depth(depths: list[int], errors: list[float]) -> float:
    """Power p in errors ~ L^p, by least squares."""
    return float(np.polyfit(np.log(depths), np.log(errors), 1)[0])


def name_ticks(figure: Any, depths: list[int]) -> None:
    """Ticks at the depths alone: those between would overlap."""
    figure.axes[0].set_xticks(depths, [str(depth) for depth in depths])
    figure.axes[0].set_xticks([], minor=True)
