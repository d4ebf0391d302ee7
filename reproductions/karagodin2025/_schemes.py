"""The six schemes as placements, and the time in which each of them relaxes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from metastable.fields import NGPT, DepthSqrt, Mix, PeriNorm, PostNorm, PreNorm
from metastable.fields.block import Placement
from metastable.measures import Points

UNTIL = 2.0  # when Mix changes from Post to Pre

PLACEMENTS: dict[str, Callable[[float], Placement]] = {
    "Post": lambda alpha: PostNorm(),
    "Pre": lambda alpha: PreNorm(),
    "Peri": lambda alpha: PeriNorm(),
    "nGPT": NGPT,
    "Mix": lambda alpha: Mix(UNTIL),
    "depth": lambda alpha: DepthSqrt(),
}


def relaxation(scheme: str, t: np.ndarray, alpha: float, radius: float) -> np.ndarray:
    """∫ dt/s(t) up to a constant for tokens that have nearly met, where ‖A‖ = 1 and ṙ = 1."""
    return {
        "Post": t,
        "Pre": np.log(radius + t),
        "Peri": np.log(radius + t),
        "nGPT": alpha * t,
        "Mix": np.log(np.maximum(radius + t - UNTIL, 1e-9)),
        "depth": 2 * np.sqrt(t + 1),
    }[scheme]


def directions(points: np.ndarray) -> np.ndarray:
    return points / np.linalg.norm(points, axis=-1, keepdims=True)


def variance(points: np.ndarray) -> np.ndarray:
    """Mean squared distance of directions from their mean, frame by frame."""
    theta = directions(points)
    return ((theta - theta.mean(axis=1, keepdims=True)) ** 2).sum(axis=2).mean(axis=1)


def stream(points: np.ndarray, radius: Any) -> Points:
    """A residual stream of given directions and one radius, or one for each row."""
    return Points(radius * directions(np.asarray(points)), on_sphere=False)
