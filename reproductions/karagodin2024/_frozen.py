"""Causal attention in which the first tokens never move."""

from __future__ import annotations

from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from metastable.core.numerics import jnp
from metastable.fields import Field, SelfAttention
from metastable.measures import Points


class FrozenAttention(Field):
    """SA among tokens of which those of time 0 stay where they are; the others are causal."""

    attention: SelfAttention
    clock: str = eqx.field(static=True, default="SA")

    def __init__(self, beta: Any):
        self.attention = SelfAttention(beta, causal=True)
        self.clock = "SA"

    def drift(self, measure: Points, at: Any, t: Any, sum: Any) -> Float[Array, "m d"]:
        moving = self.attention.drift(measure, at, t, sum)
        return jnp.where((at.times > 0)[:, None], moving, 0.0)
