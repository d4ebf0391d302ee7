"""Fields that are gradient flows of a potential of the inner product, whatever their name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxtyping import Array

from metastable.core.numerics import is_traced, jax
from metastable.fields.field import Field
from metastable.fields.linear import LinearAttention
from metastable.fields.pairwise import Potential
from metastable.fields.sigmoid import SigmoidAttention


def potential_of(field: Field) -> Callable[[Array], Array] | None:
    """W(s) with v = ∇(W∗μ) on the sphere; None for a field that is no such flow.

    A `Potential` is its own; sigmoid attention with multiples of the identity has
    W(s) = v log(1 + e^{βs+b})/β, plain linear attention W(s) = v s²/2.

    >>> float(potential_of(LinearAttention(value=3.0))(0.5))
    0.375
    """
    if isinstance(field, Potential):
        return field.potential
    if isinstance(field, LinearAttention) and field.isotropic:
        return lambda s: 0.5 * field.strength * s**2
    if isinstance(field, SigmoidAttention) and field.isotropic:
        beta, value = field.beta * _number(field.query) * _number(field.key), _number(field.value)
        if not is_traced(beta) and float(beta) == 0:
            return lambda s: value * jax.nn.sigmoid(field.bias) * s
        return lambda s: value / beta * jax.nn.softplus(beta * s + field.bias)
    return None


def _number(operator: Array | None) -> Any:
    return 1.0 if operator is None else operator
