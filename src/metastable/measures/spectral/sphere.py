"""Spherical harmonics on S²: a Fourier series along each parallel, Legendre functions across."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array

from metastable.core.numerics import jax, jnp
from metastable.geometry.harmonics import harmonic_coefficients, spherical_harmonics
from metastable.measures.spectral.basis import BLOCK, Basis
from metastable.measures.spectral.zonal import gauss


class SphereBasis(Basis):
    """Real f̂_{ℓm} at ℓ² + ℓ + m, in the convention of `metastable.geometry.harmonics`.

    Inside, the coefficients of e^{imφ} for m ≥ 0 stand in a matrix C[m, ℓ] = f̂_{ℓm} − i f̂_{ℓ,−m}.
    Gauss–Legendre nodes in z = cos θ, equally spaced ones in longitude. The tables hold
    2(degree + 1)² × 3/2 degree numbers: 52 MB at degree 128.
    """

    dim: int = eqx.field(static=True)
    degree: int = eqx.field(static=True)
    shares: Array  # (rows,) Gauss weights, of sum 1
    sines: Array  # (rows,)
    table: Array  # (m, ℓ, rows), Y_{ℓm}(θ, 0), √2 included for m > 0
    rises: Array  # (m, ℓ, rows), its derivative in θ

    @classmethod
    def build(cls, degree: int) -> SphereBasis:
        z, w = gauss(3, (3 * degree) // 2 + 2)
        sine = np.sqrt((1 - z) * (1 + z))
        y = spherical_harmonics(np.stack([sine, np.zeros_like(z), z], axis=1), degree)
        table = np.zeros((degree + 2, degree + 1, len(z)))
        for m in range(degree + 1):
            ell = np.arange(m, degree + 1)
            table[m, m:] = y[:, ell * ell + ell + m].T
        m, ell = np.arange(degree + 1)[:, None], np.arange(degree + 1)
        # ∂_θ Y_{ℓm} = m cot θ Y_{ℓm} − √((ℓ−m)(ℓ+m+1)) Y_{ℓ,m+1}, where m = 0 has no √2.
        lower = np.sqrt(np.maximum((ell - m) * (ell + m + 1.0), 0.0)) / np.where(m, 1, np.sqrt(2))
        rises = m[..., None] * (z / sine) * table[:-1] - lower[..., None] * table[1:]
        return cls(3, degree, *(jnp.asarray(a) for a in (w, sine, table[:-1], rises)))

    @property
    def longitudes(self) -> int:
        return 2 * (-(-(3 * self.degree + 2) // 2))

    @property
    def degrees(self) -> Any:
        return np.repeat(np.arange(self.degree + 1), 2 * np.arange(self.degree + 1) + 1)

    @property
    def orders(self) -> Any:
        """The order m of each coefficient."""
        place = np.arange((self.degree + 1) ** 2)
        return place - self.degrees * (self.degrees + 1)

    @property
    def weights(self) -> Any:
        return np.ones((self.degree + 1) ** 2)

    def nodes(self, axis: Any) -> np.ndarray:
        z, _ = gauss(3, (3 * self.degree) // 2 + 2)
        phi = 2 * np.pi * np.arange(self.longitudes) / self.longitudes
        sine = np.sqrt((1 - z) * (1 + z))[:, None]
        height = np.broadcast_to(z[:, None], (len(z), len(phi)))
        return np.stack([sine * np.cos(phi), sine * np.sin(phi), height], -1).reshape(-1, 3)

    def values(self, coefficients: Array) -> Array:
        return self._along(self._across(self.table, self._matrix(coefficients))).ravel()

    def gradient(self, coefficients: Array) -> Array:
        matrix = self._matrix(coefficients)
        m = jnp.arange(self.degree + 1)[:, None]
        east = 1j * m * self._across(self.table, matrix) / self.sines
        return jnp.stack(
            [self._along(self._across(self.rises, matrix)).ravel(), self._along(east).ravel()]
        )

    def coefficients(self, values: Array) -> Array:
        return self._flat(self._gather(self.table, self._modes(values)))

    def divergence(self, flux: Array) -> Array:
        m = jnp.arange(self.degree + 1)[:, None]
        south = self._gather(self.rises, self._modes(flux[0]))
        east = self._gather(self.table, 1j * m * self._modes(flux[1]) / self.sines)
        return self._flat(east - south)

    def mean(self, values: Array) -> Array:
        return self.shares @ jnp.mean(values.reshape(-1, self.longitudes), axis=1)

    def measure(self, points: Any, weights: Any, axis: Any) -> Array:
        return jnp.asarray(harmonic_coefficients(points, weights, degree=self.degree))

    def evaluate(self, coefficients: Array, points: Array, axis: Any) -> tuple[Array, Array]:
        """With F = Σ_m Re[g_m(z)(x+iy)^m] on R³, the gradient on S² is the tangent part of DF."""
        rows = (self._matrix(coefficients).T, *_recursion(self.degree))
        m = jnp.arange(self.degree + 1)

        def one(x: Array) -> tuple[Array, Array]:
            z, zero = x[2], jnp.zeros(self.degree + 1)

            def step(carry: Any, row: Any) -> tuple[Any, None]:
                p, p_z, before, before_z, g, g_z = carry
                wave, a, b, sectoral = row
                new = a * (z * p - b * before) + sectoral
                new_z = a * (z * p_z + p - b * before_z)
                return (new, new_z, p, p_z, g + new * wave, g_z + new_z * wave), None

            start = (zero, zero, zero, zero, zero + 0j, zero + 0j)
            *_, g, g_z = jax.lax.scan(step, start, rows)[0]
            powers = jnp.concatenate(
                [jnp.ones(1), jnp.cumprod(jnp.full(self.degree, x[0] + 1j * x[1]))]
            )
            lower = jnp.sum(m[1:] * g[1:] * powers[:-1])
            slope = jnp.stack([lower.real, -lower.imag, jnp.sum((g_z * powers).real)])
            return jnp.sum((g * powers).real), slope - (slope @ x) * x

        return jax.lax.map(one, points, batch_size=BLOCK)

    def parallels(self, coefficients: Any, z: np.ndarray) -> np.ndarray:
        """Fourier coefficients in longitude at heights z, shape (len(z), degree + 1)."""
        sine = np.sqrt((1 - z) * (1 + z))
        y = spherical_harmonics(np.stack([sine, np.zeros_like(z), z], axis=1), self.degree)
        matrix = np.asarray(self._matrix(jnp.asarray(coefficients)))
        modes = np.zeros((len(z), self.degree + 1), complex)
        for m in range(self.degree + 1):
            ell = np.arange(m, self.degree + 1)
            modes[:, m] = y[:, ell * ell + ell + m] @ matrix[m, m:]
        modes[:, 1:] /= 2
        return modes

    def _matrix(self, coefficients: Array) -> Array:
        m, ell = np.arange(self.degree + 1)[:, None], np.arange(self.degree + 1)
        inside = ell >= m
        centre = ell * ell + ell
        cosine = coefficients[np.where(inside, centre + m, 0)]
        sine = coefficients[np.where(inside, centre - m, 0)]
        return jnp.where(inside, cosine - 1j * jnp.where(m > 0, sine, 0.0), 0.0)

    def _flat(self, matrix: Array) -> Array:
        entry = matrix[np.abs(self.orders), self.degrees]
        return jnp.where(self.orders >= 0, entry.real, -entry.imag)

    def _across(self, table: Array, matrix: Array) -> Array:
        """Fourier modes in longitude on every parallel, (m, rows)."""
        parts = jnp.stack([matrix.real, matrix.imag], axis=1)
        real = jnp.einsum("mcl,mlj->cmj", parts, table)
        return jnp.where(jnp.arange(self.degree + 1)[:, None] > 0, 0.5, 1.0) * jax.lax.complex(
            real[0], real[1]
        )

    def _gather(self, table: Array, modes: Array) -> Array:
        """C[m, ℓ] from the modes on the parallels: the adjoint of `_across`."""
        parts = self.shares * jnp.stack([modes.real, modes.imag], axis=1)
        real = jnp.einsum("mcj,mlj->cml", parts, table)
        return jax.lax.complex(real[0], real[1])

    def _along(self, modes: Array) -> Array:
        return jnp.fft.irfft(modes.T, self.longitudes, norm="forward")

    def _modes(self, values: Array) -> Array:
        rows = values.reshape(-1, self.longitudes)
        return jnp.fft.rfft(rows, norm="forward")[:, : self.degree + 1].T


def _recursion(degree: int) -> tuple[Array, Array, Array]:
    """Rows a, b, start of P̄_ℓ^m = a(z P̄_{ℓ−1}^m − b P̄_{ℓ−2}^m) + start, over sin^m θ."""
    ell, m = np.arange(degree + 1.0)[:, None], np.arange(degree + 1.0)
    inside = m < ell
    a = np.sqrt(np.where(inside, (4 * ell**2 - 1) / np.where(inside, ell**2 - m**2, 1), 0))
    earlier = m < ell - 1
    b = np.where(earlier, ((ell - 1) ** 2 - m**2) / np.where(earlier, 4 * (ell - 1) ** 2 - 1, 1), 0)
    growth = np.sqrt((2 * m[1:] + 1) / (2 * m[1:]))
    growth[:1] *= np.sqrt(2)
    sectoral = np.cumprod(np.concatenate([[1.0], growth]))
    start = np.where(m == ell, sectoral, 0.0)
    return jnp.asarray(a), jnp.asarray(np.sqrt(b)), jnp.asarray(start)
