"""What we start from: weighted tokens on the sphere or in R^d."""

from metastable.measures.measure import Measure
from metastable.measures.points import Points
from metastable.measures.starts import (
    caps,
    from_array,
    gaussian_points,
    orthogonal,
    planted,
    polygon,
    positional,
    simplex,
    uniform,
    von_mises_fisher,
)

__all__ = [
    "Measure",
    "Points",
    "caps",
    "from_array",
    "gaussian_points",
    "orthogonal",
    "planted",
    "polygon",
    "positional",
    "simplex",
    "uniform",
    "von_mises_fisher",
]
