"""Brownian noise on the tokens."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import is_traced, jax, jnp
from metastable.fields.field import Field, Places, Superposition
from metastable.fields.schedule import Schedule
from metastable.fields.sums import Sum
from metastable.measures import Points

LEAST = float(np.finfo(np.float64).tiny)


class Noise(Field):
    """Independent Brownian motion of each token: dX = √(2/κ) dW on the sphere or in R^d.

    On the sphere W is spherical Brownian motion (Stratonovich, generator Δ), so the density obeys
    ∂_t μ = Δμ/κ and a harmonic of degree ℓ decays as e^{−ℓ(ℓ+d−2)t/κ}.

    >>> import metastable as ms
    >>> field = ms.SelfAttention(beta=5.0) + ms.Noise(kappa=20.0)
    """

    kappa: Float[Array, ""]

    def __init__(self, kappa: Any):
        checks.positive("kappa", kappa, "Leave Noise out for none.")
        if not is_traced(kappa) and float(kappa) < LEAST:
            raise ValueError(
                f"kappa must be at least {LEAST:.2g}, or 1/kappa is no finite number; got "
                f"{float(kappa):g}: take weaker noise, that is a larger kappa."
            )
        self.kappa = jnp.asarray(kappa, jnp.float64)

    clock: ClassVar[None] = None

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        return jnp.zeros_like(at.points)


def diffusion(field: Field) -> Array | float:
    """1/κ of a field: the sum over its noises, 0 without any.

    Noise is a term of the equation, not of a force: inside another field it would be lost.
    """
    parts = field.parts if isinstance(field, Superposition) else (field,)
    if any(_hides_noise(part) for part in parts if not isinstance(part, Noise)):
        raise ValueError(
            "Noise must be added to the outermost field, field + Noise(...); it is inside another."
        )
    return sum((1.0 / part.kappa for part in parts if isinstance(part, Noise)), start=0.0)


def _hides_noise(field: Field) -> bool:
    if isinstance(field, Schedule):
        inside = field.at_time(0.0)
        return isinstance(inside, Noise) or _hides_noise(inside)
    nodes = jax.tree.leaves(field, is_leaf=lambda node: isinstance(node, Noise | Schedule))
    return any(
        isinstance(node, Noise) or (isinstance(node, Schedule) and _hides_noise(node))
        for node in nodes
    )
