"""Brownian noise on the tokens."""

from __future__ import annotations

from typing import Any

from jaxtyping import Array, Float

from metastable import checks
from metastable.fields.field import Field, Places, Superposition
from metastable.fields.sums import Sum
from metastable.measures import Points
from metastable.numerics import jnp

__all__ = ["Noise", "diffusion"]


class Noise(Field):
    """Independent Brownian motion of each token: dX = √(2/κ) dW on the sphere or in R^d.

    On the sphere W is spherical Brownian motion (Stratonovich, generator Δ), so the density obeys
    ∂_t μ = Δμ/κ and a harmonic of degree ℓ decays as e^{−ℓ(ℓ+d−2)t/κ}.

    >>> import metastable as ms
    >>> field = ms.SelfAttention(beta=5.0) + ms.Noise(kappa=20.0)
    """

    kappa: Float[Array, ""]

    def __init__(self, kappa: Any):
        self.kappa = jnp.asarray(
            checks.positive("kappa", kappa, "Leave Noise out for none."), jnp.float64
        )

    @property
    def clock(self) -> None:
        return None

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        return jnp.zeros_like(at.points)


def diffusion(field: Field) -> Array | float:
    """1/κ of a field: the sum over its noises, 0 without any."""
    if isinstance(field, Noise):
        return 1.0 / field.kappa
    if isinstance(field, Superposition):
        return sum((diffusion(part) for part in field.parts), start=0.0)
    return 0.0
