"""The random quadratic form as a field, with and without forcing, and its two-point motion."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from metastable.fields.random import CommonNoise
from metastable.measures import Points


class RandomForm(CommonNoise):
    """dx = P_x ∘ (dQ x + γ dW), Q = (B + Bᵀ)/√2 and W Brownian, common to all tokens.

    Ito and Stratonovich agree up to the term that keeps tokens on the sphere.
    """

    forcing: Float[Array, ""]
    scale: Float[Array, ""]

    def __init__(self, forcing: float = 0.0, scale: float = 1.0):
        self.forcing = jnp.asarray(forcing, float)
        self.scale = jnp.asarray(scale, float)

    @property
    def strength(self) -> Array:
        return self.scale**2

    def kick(self, measure: Points, key: Array, t: Any, sum: Any) -> Array:
        rows = jax.random.normal(key, (measure.dim + 1, measure.dim))
        b, w = rows[1:], rows[0]
        return self.scale * (measure.points @ (b + b.T) / jnp.sqrt(2.0) + self.forcing * w)


def drift_of_gap(gamma: float, dim: int) -> Callable[[float], float]:
    """Drift of v = log((1−Z)/2), from the generator of Z = ⟨x, y⟩ that the paper states."""

    def drift(v: float) -> float:
        z = 1 - 2 * math.exp(v)
        inward = gamma**2 * (dim - 2 - z) - 2 * z * (1 + z)
        return -inward - (1 + z) * (2 * (1 + z) + gamma**2)

    return drift


def variance_of_gap(gamma: float) -> Callable[[float], float]:
    """Variance of v in a unit of time, from the same generator."""

    def variance(v: float) -> float:
        z = 1 - 2 * math.exp(v)
        return 2 * (1 + z) * (2 * (1 + z) + gamma**2)

    return variance
