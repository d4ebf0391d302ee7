"""Linear attention: no exponential, so that what tokens see of each other is one matrix."""

from __future__ import annotations

from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from metastable.core.numerics import jax, jnp
from metastable.fields.attention import act, matrix
from metastable.fields.field import Field, Places, show_value
from metastable.fields.sums import Sum
from metastable.measures import Points


class LinearAttention(Field):
    """Attention by inner products of features, without an exponential.

    ẋ_i = P_{x_i} Σ_j w_j ⟨φ(Qx_i),φ(Kx_j)⟩ V x_j, or that over Σ_k w_k ⟨φ(Qx_i),φ(Kx_k)⟩

    Source: Katharopoulos, Vyas, Pappas, Fleuret, arXiv:2006.16236. O(n d²): the tokens are seen
    through Σ_j w_j V x_j φ(Kx_j)ᵀ alone.

    - `features`: "plain" is φ(u) = u; "elu" is φ(u) = elu(u) + 1 > 0, axis by axis, so that the
      field knows the axes and is not invariant under rotations.
    - `normalized`: divide by the sum of weights; needs positive features.

    Plain, Q = K = V = I: ẋ_i = P_{x_i} M x_i with the second moments M = Σ_j w_j x_j x_jᵀ, the
    gradient flow of W(s) = s²/2. x and −x act alike, and all tokens end on one line ±c (as in
    Oja’s rule; on the circle this is Kuramoto of the doubled angles). Whatever the matrices, the
    tokens stay a linear image of their start: `metastable.theory.moments`.

    >>> import metastable as ms
    >>> pair = ms.Points([[1.0, 0.0], [0.6, 0.8]])
    >>> LinearAttention().velocity(pair)[0].round(2).tolist()
    [0.0, 0.24]
    """

    query: Array | None
    key: Array | None
    value: Array | None
    features: str = eqx.field(static=True)
    normalized: bool = eqx.field(static=True)

    def __init__(
        self,
        query: Any = None,
        key: Any = None,
        value: Any = None,
        features: str = "plain",
        normalized: bool = False,
    ):
        if features not in ("plain", "elu"):
            raise ValueError(f"features must be 'plain' or 'elu'; got {features!r}.")
        if normalized and features == "plain":
            raise ValueError(
                "normalized needs positive features, whose sum is not zero; got features='plain': "
                "use 'elu'."
            )
        self.query = matrix("query", query)
        self.key = matrix("key", key)
        self.value = matrix("value", value)
        self.features = features
        self.normalized = bool(normalized)

    @property
    def clock(self) -> str:
        return "SA" if self.normalized else "linear"

    @property
    def plain(self) -> bool:
        """Whether the weights are the inner products of queries and keys themselves."""
        return self.features == "plain"

    @property
    def isotropic(self) -> bool:
        """Whether it is plain, with multiples of the identity."""
        operators = (self.query, self.key, self.value)
        return self.plain and all(o is None or o.ndim == 0 for o in operators)

    @property
    def strength(self) -> Float[Array, ""]:
        """qkv, of an isotropic field: it moves tokens by qkv P M x."""
        factors = [o for o in (self.query, self.key, self.value) if o is not None]
        return jnp.prod(jnp.stack([jnp.asarray(1.0), *factors]))

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        lift = (lambda u: u) if self.plain else (lambda u: jax.nn.elu(u) + 1.0)
        left = lift(act(self.query, at.points))
        right = lift(act(self.key, measure.points))
        if left.shape[1] != right.shape[1]:
            raise ValueError(
                "query and key must map to one space; got dimensions "
                f"{left.shape[1]} and {right.shape[1]}."
            )
        masses = measure.weights[:, None] * right
        seen = left @ (masses.T @ measure.points)
        if self.normalized:
            seen = seen / (left @ masses.sum(axis=0))[:, None]
        return act(self.value, seen)

    def __repr__(self) -> str:
        given = [(name, getattr(self, name)) for name in ("query", "key", "value")]
        shown = [f"{name}={show_value(value)}" for name, value in given if value is not None]
        shown += [] if self.plain else [f"features={self.features!r}"]
        shown += ["normalized=True"] if self.normalized else []
        return f"LinearAttention({', '.join(shown)})"
