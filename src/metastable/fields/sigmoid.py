"""Sigmoid attention: each token is weighted by itself, and no other token shares its weight."""

from __future__ import annotations

from typing import Any, ClassVar

from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.fields.attention import AttentionHead, act
from metastable.fields.field import Places, show_value
from metastable.fields.pairwise import dense
from metastable.fields.sums import Sum
from metastable.measures import Points


class SigmoidAttention(AttentionHead):
    """Attention whose weights are sigmoids of the logits, averaged and not normalised.

    ẋ_i = P_{x_i} Σ_j w_j σ(β⟨Qx_i,Kx_j⟩ + b) V x_j,  σ(u) = 1/(1 + e^{−u})

    Source: Ramapuram et al., arXiv:2409.04431 (there with sums over tokens and b = −log n). With
    Q, K, V multiples of the identity it is the gradient flow of W(s) = v log(1 + e^{βs+b})/β, so
    that growth rates, energies and contraction rates are those of that potential.

    - `bias`: b. For b → −∞ the field is e^b times USA, for β → 0 it is σ(b) times Kuramoto, for
      β → ∞ at b = −βh a token sees all tokens with ⟨x_i,x_j⟩ > h alike (bounded confidence).
    - Clock: its own; near one cluster differences shrink at the rate vσ(β+b), not 1.

    All pairs, O(n²). Good values: β = 9 and b = −7 on the circle leave several clusters at first.

    >>> import metastable as ms
    >>> pair = ms.Points([[1.0, 0.0], [0.0, 1.0]])
    >>> SigmoidAttention(beta=3.0).velocity(pair).tolist()
    [[0.0, 0.25], [0.25, 0.0]]
    """

    bias: Float[Array, ""]

    def __init__(
        self,
        beta: Any,
        bias: Any = 0.0,
        query: Any = None,
        key: Any = None,
        value: Any = None,
    ):
        super().__init__(beta, query, key, value)
        self.bias = jnp.asarray(checks.real("bias", bias), jnp.float64)

    clock: ClassVar[str] = "sigmoid"

    @property
    def isotropic(self) -> bool:
        """Whether query, key and value are multiples of the identity."""
        return all(o is None or o.ndim == 0 for o in (self.query, self.key, self.value))

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        y = measure.points
        left, right = act(self.query, at.points), act(self.key, y)
        if left.shape[1] != right.shape[1]:
            raise ValueError(
                "query and key must map to one space; got dimensions "
                f"{left.shape[1]} and {right.shape[1]}."
            )
        weight = lambda a, b: jax.nn.sigmoid(self.beta * a @ b.T + self.bias)
        seen = dense(sum).pairwise(weight, left, right, measure.weights, y)[1]
        return act(self.value, seen)

    def shown(self) -> list[str]:
        beta, *others = super().shown()
        return [beta, f"bias={show_value(self.bias)}", *others]
