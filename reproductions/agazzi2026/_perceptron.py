"""Random perceptrons as a common noise, and the kernel of what two tokens are given."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from metastable.fields.random import CommonNoise
from metastable.measures import Points

ACTIVATIONS = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "linear": lambda h: h,
    "softplus": jax.nn.softplus,
    "1 + h/2": lambda h: 1 + h / 2,
}


class RandomPerceptron(CommonNoise):
    """dx = P_x dB(x), B(x) = m^{−1/2} Σ_k a_k φ(⟨w_k, x⟩), all a_k and w_k normal and fresh.

    Two tokens feel noises of covariance κ(ρ)I, κ(ρ) = E φ(h)φ(h'), whatever the number m of
    neurons: steps average over w.
    """

    activation: str = eqx.field(static=True)
    neurons: int = eqx.field(static=True)
    scale: Float[Array, ""]

    def __init__(self, activation: str = "relu", neurons: int = 8, scale: float = 1.0):
        self.activation, self.neurons = activation, int(neurons)
        self.scale = jnp.asarray(scale, float)

    @property
    def strength(self) -> Array:
        return self.scale**2

    def kick(self, measure: Points, key: Array, t: Any, sum: Any) -> Array:
        inner, outer = jax.random.normal(key, (2, self.neurons, measure.dim))
        hidden = ACTIVATIONS[self.activation](measure.points @ inner.T)
        return self.scale * hidden @ outer / jnp.sqrt(self.neurons)


def kernel_at_one(activation: str) -> tuple[float, float]:
    """κ(1) = E φ(h)² and κ'(1) = E φ'(h)², h standard normal, by quadrature."""
    # Half lines apart, so that a kink at 0 costs no digits.
    x, w = np.polynomial.legendre.leggauss(200)
    h = np.concatenate([6 * x - 6, 6 * x + 6])
    weights = np.concatenate([w, w]) * 6 * np.exp(-h * h / 2) / np.sqrt(2 * np.pi)
    phi = ACTIVATIONS[activation]
    slope = np.asarray(jax.vmap(jax.grad(lambda s: jnp.asarray(phi(s), float)))(jnp.asarray(h)))
    return float(weights @ np.asarray(phi(h)) ** 2), float(weights @ slope**2)
