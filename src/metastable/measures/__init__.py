"""What we start from: weighted tokens, a density on the sphere, or a Gaussian."""

from metastable.measures.density import Density
from metastable.measures.gaussian import Gaussian
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
    "Density",
    "Gaussian",
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
