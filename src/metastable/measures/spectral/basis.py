"""What a basis of harmonics must answer."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array

from metastable.core.numerics import jnp

BLOCK = 1024  # places evaluated at once


class Basis(eqx.Module):
    """Harmonics up to a degree, orthonormal for the uniform probability, and a grid for products.

    The grid integrates the product of three functions of this degree exactly, so that quadratic
    terms have no aliasing error. Coefficients run along the last axis, degree by degree, so that
    appending zeros raises the degree. A gradient is given by its components in an orthonormal
    tangent frame at each node, along a new first axis.
    """

    # NumPy arrays that multiply JAX ones are typed Any: the stubs take the product for NumPy's.

    dim: eqx.AbstractVar[int]
    degree: eqx.AbstractVar[int]

    @property
    @abstractmethod
    def degrees(self) -> Any:
        """The degree ℓ of each coefficient."""

    @property
    @abstractmethod
    def weights(self) -> Any:
        """How often the square of each coefficient counts in the norm: 2 for e^{±ikθ}, else 1."""

    @abstractmethod
    def nodes(self, axis: Any) -> np.ndarray:
        """Grid points as unit vectors, shape (grid, d); for zonal functions one meridian."""

    @abstractmethod
    def values(self, coefficients: Array) -> Array:
        """Values on the grid."""

    @abstractmethod
    def gradient(self, coefficients: Array) -> Array:
        """The gradient on the grid, shape (components, grid)."""

    @abstractmethod
    def coefficients(self, values: Array) -> Array:
        """Coefficients of a function given on the grid."""

    @abstractmethod
    def divergence(self, flux: Array) -> Array:
        """Coefficients −∫⟨F, ∇Y⟩ of div F, for F as `gradient` gives it; that of degree 0 is 0."""

    @abstractmethod
    def mean(self, values: Array) -> Array:
        """The integral over the uniform probability of a function given on the grid."""

    @abstractmethod
    def evaluate(self, coefficients: Array, points: Array, axis: Any) -> tuple[Array, Array]:
        """Values (m,) and gradients (m, d), tangent vectors, at unit vectors (m, d)."""

    @abstractmethod
    def measure(self, points: Any, weights: Any, axis: Any) -> Array:
        """Coefficients Σ_j w_j conj Y(x_j) of weighted points."""

    def laplacian(self) -> Any:
        """ℓ(ℓ+d−2) of each coefficient."""
        return (self.degrees * (self.degrees + self.dim - 2.0)).astype(float)

    def to_real(self, coefficients: Array) -> Array:
        """Coefficients as real numbers, the last axis kept."""
        return coefficients

    def from_real(self, real: Array) -> Array:
        return real

    def power(self, coefficients: Any) -> np.ndarray:
        """Σ_m |f̂_{ℓm}|² of each degree."""
        squares = self.weights * np.abs(np.asarray(coefficients)) ** 2
        return np.bincount(self.degrees, squares, self.degree + 1)

    def size(self, coefficients: Array) -> Array:
        """The largest root mean square |f̂_ℓ| over the degrees ℓ ≥ 1, a scale of the function."""
        squares = self.weights * jnp.abs(coefficients) ** 2
        return jnp.sqrt(jnp.max(jnp.where(self.degrees > 0, squares, 0.0)))
