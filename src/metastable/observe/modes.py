"""Harmonic content of a measure: coefficients, power and amplitude of each degree."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float

from metastable.core import checks
from metastable.fields.sums.harmonic import legendre_table
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


class SphereWaves:
    """Spherical harmonics at many places of S², by matrix products of waves in both angles.

    Y_{ℓm} = Σ_k a_{mkℓ} cos kθ cos mφ for even m > 0, with sin kθ for odd m and sin mφ for −m. So
    O(n·degree) waves and a product (degree, n) × (n, degree) take the place of n·degree² values:
    twenty times as fast as `spherical_harmonics` at degree 33, and equal to it up to rounding.
    """

    def __init__(self, points: Float[np.ndarray, "n 3"], degree: int):
        self.degree = degree
        x, y, z = points.T
        distance = np.hypot(x, y)
        with np.errstate(invalid="ignore"):
            azimuth = np.where(distance > 0, (x + 1j * y) / distance, 1.0)
        polar = _powers(z + 1j * distance, degree)
        self.polar = np.real(polar).copy(), np.imag(polar).copy()  # (degree + 1, n)
        orders = _powers(azimuth, degree)
        self.azimuth = [  # (orders of one parity, n), cosine and sine
            (np.real(part).copy(), np.imag(part).copy()) for part in (orders[::2], orders[1::2])
        ]

    def moments(self, weights: Float[np.ndarray, " n"]) -> Float[np.ndarray, " h"]:
        """Σ_j w_j Y_{ℓm}(x_j) at ℓ² + ℓ + m."""
        result = np.zeros((self.degree + 1) ** 2)
        for parity, table, places in self._tables():
            weighted = self.polar[parity] * weights
            for wave, place in zip(self.azimuth[parity], places, strict=True):
                sums = weighted @ wave.T  # (k, m)
                result[place[0]] = np.einsum("mkl,km->ml", table, sums)[place[1]]
        return result

    def _tables(self) -> Iterator[tuple[int, np.ndarray, list[tuple[np.ndarray, Any]]]]:
        """By parity of m: the table with its factor √2, and where cosines and sines are kept."""
        table = legendre_table(self.degree)
        for parity in (0, 1):
            orders = np.arange(parity, self.degree + 1, 2)
            m, ell = np.meshgrid(orders, np.arange(self.degree + 1), indexing="ij")
            scale = np.where(orders > 0, math.sqrt(2), 1.0)[:, None, None]
            cosines, sines = ell >= m, (ell >= m) & (m > 0)
            centre = ell * ell + ell
            places = [((centre + m)[cosines], cosines), ((centre - m)[sines], sines)]
            yield parity, scale * table[parity::2], places


def _powers(turn: np.ndarray, degree: int) -> np.ndarray:
    """1, z, …, z^degree along the first axis, by doubling."""
    powers = np.ones((degree + 1, *turn.shape), complex)
    known = 1
    while known <= degree:
        more = min(known, degree + 1 - known)
        powers[known : known + more] = powers[:more] * turn
        known, turn = known + more, turn * turn
    return powers


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
