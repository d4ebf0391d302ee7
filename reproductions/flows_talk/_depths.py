"""Errors against the number of layers: their power, and the ticks of their figure."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis

__all__ = ["layer_axis", "power_of_depth"]


def power_of_depth(depths: list[int], errors: list[float]) -> float:
    """Power p in errors ~ L^p, by least squares."""
    return float(np.polyfit(np.log(depths), np.log(errors), 1)[0])


def layer_axis(depths: list[int]) -> Axis:
    """Layers on a logarithmic scale, ticks at the depths alone: those between would overlap."""
    return Axis("layers L", scale="log", places=depths)
