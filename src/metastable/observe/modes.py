"""Harmonic content of a measure: coefficients, power and amplitude of each degree."""

from __future__ import annotations

import numpy as np

from metastable.core import checks
from metastable.geometry.harmonics import (
    fourier_coefficients,
    gegenbauer,
    harmonic_coefficients,
    multiplicity,
)
from metastable.measures import Density, Points
from metastable.observe.density import density_modes, density_power
from metastable.observe.pairs import BLOCK, carrying


def modes(measure: Points | Density, highest: int) -> np.ndarray:
    """Harmonic coefficients of a measure on the circle or S², degrees 0 to `highest`.

    Circle: complex μ̂_k = Σ_j w_j e^{−ikθ_j}, shape (highest + 1,). S²: real μ̂_{ℓm} =
    Σ_j w_j Y_{ℓm}(x_j) at ℓ² + ℓ + m, shape ((highest + 1)²,). Conventions of
    `metastable.geometry.harmonics`. In the linear phase each grows as e^{λ_ℓ t}; on the circle the
    first clusters of a dominant mode k sit at (2πj − arg μ̂_k)/k. A `Density` gives its own
    coefficients; if zonal, the real μ̂_ℓ along √N_ℓ P_ℓ, shape (highest + 1,), in any dimension.

    >>> from metastable.measures import polygon
    >>> abs(modes(polygon(3), highest=3)).round(12).tolist()
    [1.0, 0.0, 0.0, 1.0]
    """
    checks.defined_for("modes", measure, Points, Density)
    _check(measure, highest)
    if isinstance(measure, Density):
        return density_modes(measure, highest)
    if measure.dim in (2, 3):
        points, weights, _ = carrying(measure)
        return harmonics_of(points, weights, highest)
    raise ValueError(
        f"measure must be in dimension 2 or 3 to have modes one by one; got {measure.dim}. "
        "Use power(...) or amplitudes(...)."
    )


def power(measure: Points | Density, highest: int) -> np.ndarray:
    """Power of each degree 0, …, `highest` on any sphere, shape (highest + 1,).

    Σ_m |μ̂_{ℓm}|² = N(d,ℓ) Σ_i Σ_j w_i w_j P_ℓ(⟨x_i,x_j⟩): harmonics orthonormal for the uniform
    probability, N(d,ℓ) of them, P_ℓ(1) = 1 (addition theorem). Independent uniform tokens have
    N(d,ℓ)/n on average, a spherical t-design 0 for ℓ = 1, …, t. Time O(n·highest) on the circle,
    O(n·highest²) on S², O(n²·highest) beyond.

    >>> from metastable.measures import orthogonal
    >>> power(orthogonal(4, 4), highest=2).round(12).tolist()
    [1.0, 1.0, 0.0]
    """
    checks.defined_for("power", measure, Points, Density)
    _check(measure, highest)
    if isinstance(measure, Density):
        return density_power(measure, highest)
    points, weights, _ = carrying(measure)
    return signed_power(points, weights, highest)


def amplitudes(measure: Points | Density, highest: int) -> np.ndarray:
    """Amplitude in [0, 1] of each degree 1, …, `highest`: √(Σ_i Σ_j w_i w_j P_ℓ(⟨x_i,x_j⟩)).

    |μ̂_k| on the circle; n^{−1/2} for independent uniform tokens, 1 for a single point. Rows of
    these for the frames of a run are what `phases` reads. Shape (highest,).

    >>> from metastable.measures import orthogonal
    >>> amplitudes(orthogonal(4, 4), highest=2).round(6).tolist()
    [0.5, 0.0]
    """
    checks.defined_for("amplitudes", measure, Points, Density)
    _check(measure, highest)
    counts = [multiplicity(degree, measure.dim) for degree in range(1, highest + 1)]
    return np.sqrt(power(measure, highest)[1:] / np.array(counts, float))


def signed_power(points: np.ndarray, weights: np.ndarray, highest: int) -> np.ndarray:
    """`power` of Σ_j w_j δ_{x_j} with weights of any sign, such as a difference of measures."""
    dim = points.shape[1]
    if dim in (2, 3):
        squares = np.abs(harmonics_of(points, weights, highest)) ** 2
        if dim == 2:
            squares[1:] *= 2  # e^{ikθ} and e^{−ikθ}
            return squares
        return np.add.reduceat(squares, np.arange(highest + 1) ** 2)
    sums = np.zeros(highest + 1)
    step = max(1, BLOCK // (len(weights) * (highest + 1)))
    for start in range(0, len(weights), step):
        cosines = np.clip(points[start : start + step] @ points.T, -1, 1)
        sums += gegenbauer(cosines, dim, highest) @ weights @ weights[start : start + step]
    counts = [multiplicity(degree, dim) for degree in range(highest + 1)]
    # Rounding may leave a vanishing power at −1e−17.
    return np.array(counts, float) * np.maximum(sums, 0)


def harmonics_of(points: np.ndarray, weights: np.ndarray, degree: int) -> np.ndarray:
    """Coefficients of weighted points on the circle or S²."""
    if points.shape[1] == 2:
        return fourier_coefficients(angles(points), weights, degree=degree)
    return harmonic_coefficients(points, weights, degree=degree)


def angles(points: np.ndarray) -> np.ndarray:
    return np.arctan2(points[:, 1], points[:, 0])


def _check(measure: Points | Density, highest: int) -> None:
    checks.integer("highest", highest, 0)
    if not measure.on_sphere:
        raise ValueError(
            f"measure must be on the sphere to have harmonics; got {measure!r}. "
            "Use measure.directions()."
        )
