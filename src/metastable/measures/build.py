"""Measures from their specs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from metastable.core.spec import Real, Rows
from metastable.measures import spec, starts
from metastable.measures.density import Density
from metastable.measures.gaussian import Gaussian
from metastable.measures.points import Points
from metastable.measures.spec import STARTS


def build_measure(described: spec.Measure) -> Any:
    """The initial measure a spec describes."""
    if isinstance(described, spec.GivenTokens):
        return _tokens(described)
    arguments = described.model_dump(exclude={"kind"})
    if isinstance(described, spec.DensityMode):
        return Density.mode(**arguments)
    if isinstance(described, spec.DensityVonMisesFisher):
        return Density.von_mises_fisher(**arguments)
    if isinstance(described, spec.DensityOfTokens):
        points = starts.uniform(described.tokens, described.dim, described.seed)
        return Density.from_points(points, described.degree)
    maker = getattr(starts, described.kind, None) or STARTS.maker(described)
    return maker(**arguments)


def _tokens(described: spec.GivenTokens) -> Points:
    if (described.points is None) == (described.file is None):
        raise ValueError("measure.points or measure.file: exactly one of the two must be given.")
    if described.file is not None:
        try:
            points = np.load(Path(described.file), allow_pickle=False)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"measure.file must be a NumPy array file (.npy, no pickle); got {described.file} "
                f"({error})."
            ) from None
    else:
        points = np.asarray(described.points)
    if described.positional and (described.euclidean or described.times is not None):
        raise ValueError(
            "measure.positional gives tokens on the sphere their own times; got it together with "
            "euclidean or times: leave one out."
        )
    if described.euclidean:
        return Points(points, described.weights, described.times, on_sphere=False)
    if described.positional:
        placed = starts.positional(points)
        return Points(placed.points, described.weights, placed.times)
    return starts.from_array(points, described.weights, described.times)


def gaussian_start(mean: list[Real], cov: Real | Rows = 1.0) -> Gaussian:
    """N(mean, cov), as a start in a spec; a number σ² stands for σ²I."""
    return Gaussian(np.asarray(mean, float), cov if isinstance(cov, float) else np.asarray(cov))
