"""Functions on S^{d−1} of the height s = ⟨x,e⟩ alone, in any dimension."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array
from scipy.linalg import eigh_tridiagonal

from metastable.core.numerics import jax, jnp
from metastable.measures.spectral.basis import BLOCK, Basis


class ZonalBasis(Basis):
    """q_ℓ(s) = √N_ℓ P_ℓ(s), N_ℓ the multiplicity of the degree, at Gauss–Gegenbauer nodes.

    √(1−s²) q_ℓ′ / √(ℓ(ℓ+d−2)) are orthonormal too: up to a constant they are the same polynomials
    in dimension d + 2, so no derivative is ever taken of a table.
    """

    dim: int = eqx.field(static=True)
    degree: int = eqx.field(static=True)
    heights: Array  # (n,)
    shares: Array  # (n,) Gauss weights, of sum 1
    table: Array  # (degree + 1, n), q_ℓ
    rises: Array  # (degree + 1, n), √(1−s²) q_ℓ′

    @classmethod
    def build(cls, dim: int, degree: int) -> ZonalBasis:
        s, w = gauss(dim, (3 * degree) // 2 + 2)
        rises = np.sqrt((1 - s) * (1 + s)) * slopes(s, dim, degree)
        tables = (s, w, polynomials(s, dim, degree), rises)
        return cls(dim, degree, *(jnp.asarray(table) for table in tables))

    @property
    def degrees(self) -> Any:
        return np.arange(self.degree + 1)

    @property
    def weights(self) -> Any:
        return np.ones(self.degree + 1)

    def nodes(self, axis: Any) -> np.ndarray:
        """The meridian through the coordinate axis least aligned with e."""
        e, s = np.asarray(axis), np.asarray(self.heights)
        across = np.eye(len(e))[np.argmin(np.abs(e))]
        across = across - (across @ e) * e
        across /= np.linalg.norm(across)
        return s[:, None] * e + np.sqrt((1 - s) * (1 + s))[:, None] * across

    def values(self, coefficients: Array) -> Array:
        return coefficients @ self.table

    def gradient(self, coefficients: Array) -> Array:
        return (coefficients @ self.rises)[None]

    def coefficients(self, values: Array) -> Array:
        return self.table @ (self.shares * values)

    def divergence(self, flux: Array) -> Array:
        return -self.rises @ (self.shares * flux[0])

    def mean(self, values: Array) -> Array:
        return values @ self.shares

    def evaluate(self, coefficients: Array, points: Array, axis: Any) -> tuple[Array, Array]:
        q, lifted = _jacobi(self.dim, self.degree), _jacobi(self.dim + 2, self.degree)
        raised = coefficients * jnp.asarray(_raise(self.dim, self.degree))

        def one(x: Array) -> tuple[Array, Array]:
            s = x @ axis
            slope = _series(raised[1:], lifted, s) if self.degree else jnp.zeros(())
            return _series(coefficients, q, s), slope * (axis - s * x)

        return jax.lax.map(one, points, batch_size=BLOCK)

    def measure(self, points: Any, weights: Any, axis: Any) -> Array:
        total = np.zeros(self.degree + 1)
        heights = np.clip(np.asarray(points) @ np.asarray(axis), -1, 1)
        for start in range(0, len(heights), BLOCK):
            part = slice(start, start + BLOCK)
            total += polynomials(heights[part], self.dim, self.degree) @ weights[part]
        return jnp.asarray(total)


@lru_cache(maxsize=64)
def _jacobi(dim: int, degree: int) -> np.ndarray:
    """a_1..a_{degree+1} of s q_ℓ = a_{ℓ+1} q_{ℓ+1} + a_ℓ q_{ℓ−1}."""
    ell, nu = np.arange(1, degree + 2.0), dim / 2 - 1
    # At ν = 0 the first entry is 0/0, and its limit 1/2.
    bottom = np.where(ell + nu == 1, 1.0, 4 * (ell + nu) * (ell + nu - 1))
    return np.sqrt(np.where(ell + nu == 1, 0.5, ell * (ell + 2 * nu - 1) / bottom))


def _raise(dim: int, degree: int) -> np.ndarray:
    """r_ℓ with q_ℓ′ = r_ℓ × the polynomial of degree ℓ − 1 in dimension d + 2."""
    ell = np.arange(degree + 1.0)
    return np.sqrt(ell * (ell + dim - 2) * dim / (dim - 1))


def polynomials(s: np.ndarray, dim: int, degree: int) -> np.ndarray:
    """q_0..q_degree at s, orthonormal for the heights of uniform points; (degree + 1, *s.shape)."""
    a = _jacobi(dim, degree)
    q = np.ones((degree + 1, *np.shape(s)))
    if degree:
        q[1] = s / a[0]
    for ell in range(1, degree):
        q[ell + 1] = (s * q[ell] - a[ell - 1] * q[ell - 1]) / a[ell]
    return q


def slopes(s: np.ndarray, dim: int, degree: int) -> np.ndarray:
    """q_0′..q_degree′ at s."""
    result = np.zeros((degree + 1, *np.shape(s)))
    if degree:
        lifted = polynomials(s, dim + 2, degree - 1)
        result[1:] = (_raise(dim, degree)[1:] * np.moveaxis(lifted, 0, -1)).T
    return result


@lru_cache(maxsize=64)
def gauss(dim: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss nodes and weights for the heights of uniform points on S^{d−1}, weights of sum 1."""
    nodes: Any = eigh_tridiagonal(
        np.zeros(count), _jacobi(dim, count)[: count - 1], eigvals_only=True
    )
    nodes = (nodes - nodes[::-1]) / 2  # symmetric to the last bit
    # 1/Σ_ℓ q_ℓ² is accurate where the squared components of eigenvectors underflow.
    q = polynomials(nodes, dim, count - 1)
    weights = 1 / np.sum(q * q, axis=0)
    return nodes, weights / math.fsum(weights)


def _series(coefficients: Array, jacobi: np.ndarray, s: Array) -> Array:
    """Σ_ℓ c_ℓ q_ℓ(s) by the recursion, from the lowest degree up."""
    below = np.concatenate([[0.0], jacobi])[: len(coefficients)]
    rows = (coefficients, jnp.asarray(below), jnp.asarray(jacobi[: len(coefficients)]))

    def step(carry: Any, row: Any) -> tuple[Any, None]:
        before, now, total = carry
        c, lower, upper = row
        return (now, (s * now - lower * before) / upper, total + c * now), None

    zero = jnp.zeros_like(s)
    return jax.lax.scan(step, (zero, zero + 1.0, zero), rows)[0][2]
