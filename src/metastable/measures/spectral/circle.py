"""Fourier series on the circle."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array

from metastable.core.numerics import jax, jnp
from metastable.geometry.harmonics import fourier_coefficients
from metastable.measures.spectral.basis import BLOCK, Basis


class CircleBasis(Basis):
    """Complex f̂_0..f̂_K, f(θ) = Σ_{|k|≤K} f̂_k e^{ikθ}, f̂_{−k} = conj f̂_k; more than 3K nodes."""

    dim: int = eqx.field(static=True)
    degree: int = eqx.field(static=True)

    @classmethod
    def build(cls, degree: int) -> CircleBasis:
        return cls(2, degree)

    @property
    def count(self) -> int:
        """Nodes: the next power of two times 1, 3 or 5 past 3K, which the FFT likes."""
        least = 3 * self.degree + 2
        powers = [odd << max(0, (-(-least // odd) - 1).bit_length()) for odd in (1, 3, 5)]
        return min(powers)

    @property
    def degrees(self) -> Any:
        return np.arange(self.degree + 1)

    @property
    def weights(self) -> Any:
        return np.where(self.degrees > 0, 2.0, 1.0)

    def nodes(self, axis: Any) -> np.ndarray:
        theta = 2 * np.pi * np.arange(self.count) / self.count
        return np.stack([np.cos(theta), np.sin(theta)], axis=1)

    def values(self, coefficients: Array) -> Array:
        return jnp.fft.irfft(coefficients, self.count, norm="forward")

    def gradient(self, coefficients: Array) -> Array:
        return self.values(1j * self.degrees * coefficients)[None]

    def coefficients(self, values: Array) -> Array:
        return jnp.fft.rfft(values, norm="forward")[..., : self.degree + 1]

    def divergence(self, flux: Array) -> Array:
        return 1j * self.degrees * self.coefficients(flux[0])

    def mean(self, values: Array) -> Array:
        return jnp.mean(values, axis=-1)

    def evaluate(self, coefficients: Array, points: Array, axis: Any) -> tuple[Array, Array]:
        k = jnp.arange(self.degree + 1)
        doubled = self.weights * coefficients

        def one(x: Array) -> tuple[Array, Array]:
            waves = doubled * jnp.exp(1j * k * jnp.arctan2(x[1], x[0]))
            slope = -jnp.sum(k * waves.imag)
            return jnp.sum(waves.real), slope * jnp.stack([-x[1], x[0]])

        return jax.lax.map(one, points, batch_size=BLOCK)

    def measure(self, points: Any, weights: Any, axis: Any) -> Array:
        angles = np.arctan2(points[:, 1], points[:, 0])
        return jnp.asarray(fourier_coefficients(angles, weights, degree=self.degree))

    def to_real(self, coefficients: Array) -> Array:
        return jnp.stack([coefficients.real, coefficients.imag])

    def from_real(self, real: Array) -> Array:
        return real[0] + 1j * real[1]
