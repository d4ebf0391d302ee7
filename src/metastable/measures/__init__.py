"""What we start from: weighted tokens, a density on the sphere, or a Gaussian."""

from typing import Any

from metastable.core.lazy import public, registered
from metastable.measures.density import Density as Density
from metastable.measures.gaussian import Gaussian as Gaussian
from metastable.measures.measure import Measure as Measure
from metastable.measures.points import Points as Points
from metastable.measures.starts import caps as caps
from metastable.measures.starts import from_array as from_array
from metastable.measures.starts import gaussian_points as gaussian_points
from metastable.measures.starts import orthogonal as orthogonal
from metastable.measures.starts import planted as planted
from metastable.measures.starts import polygon as polygon
from metastable.measures.starts import positional as positional
from metastable.measures.starts import simplex as simplex
from metastable.measures.starts import uniform as uniform
from metastable.measures.starts import von_mises_fisher as von_mises_fisher
from metastable.spec.measures import STARTS

__all__ = public(vars())  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    return registered(name, "metastable.measures", STARTS.homes)
