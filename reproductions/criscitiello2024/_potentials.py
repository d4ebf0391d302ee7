"""Potentials of the inner product, rates of polygons in them, and how random starts end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from metastable.core.numerics import jax, jnp

__all__ = ["geometric", "polygon_rates", "ramp", "starts_on_sphere"]

Slopes = tuple[Callable, Callable, Callable]  # φ for JAX; φ′ and φ″ for NumPy, written by hand


def ramp(sharp: float, floor: float = 0.05) -> Slopes:
    """The smooth ramp log(1 + e^{st})/s + at: increasing, convex, real analytic.

    The floor a keeps tokens on opposite sides from waiting e^{s} for each other.
    """
    fall = lambda t: np.exp(-np.abs(sharp * np.asarray(t)))
    return (
        lambda t: jax.nn.softplus(sharp * t) / sharp + floor * t,
        lambda t: floor + np.where(np.asarray(t) > 0, 1.0, fall(t)) / (1 + fall(t)),
        lambda t: sharp * fall(t) / (1 + fall(t)) ** 2,
    )


def geometric(ratio: float) -> Slopes:
    """φ′ = 1/(1 − rt): the Taylor coefficients r^k of φ′ decrease."""
    return (
        lambda t: -jnp.log1p(-ratio * t) / ratio,
        lambda t: 1 / (1 - ratio * np.asarray(t)),
        lambda t: ratio / (1 - ratio * np.asarray(t)) ** 2,
    )


def polygon_rates(slopes: Slopes, tokens: int) -> np.ndarray:
    """Rates of the modes 1..n−1 of the n-gon on the circle, by the sums over its vertices.

    θ̇_i = (1/n)Σ_j f(θ_j − θ_i) with f(x) = φ′(cos x) sin x: μ_p = −(1/n)Σ_q f′(θ_q)(1 − cos pθ_q).
    """
    angles = 2 * np.pi * np.arange(tokens) / tokens
    cosine = np.cos(angles)
    pull = slopes[1](cosine) * cosine - slopes[2](cosine) * np.sin(angles) ** 2
    modes = np.arange(1, tokens)
    return -(1 - np.cos(np.outer(modes, angles))) @ pull / tokens


def starts_on_sphere(draws: int, tokens: int, dim: int) -> np.ndarray:
    """Independent uniform starts (draws, n, d)."""
    raw = np.random.default_rng([17, tokens, dim]).normal(size=(draws, tokens, dim))
    return raw / np.linalg.norm(raw, axis=2, keepdims=True)
