"""Pure attention in R^d, seen in the frame that grows with it."""

from __future__ import annotations

from typing import Any

from jaxtyping import Array, Float

from metastable.core.numerics import jax, jnp
from metastable.fields.attention import SelfAttention, act, logits
from metastable.fields.field import Field, Places
from metastable.fields.sums import Sum
from metastable.measures import Points


class Rescaled(Field):
    """Attention without normalisation in the variable z = e^{−tV}x, which stays bounded.

    ż_i = Σ_j P_ij V(z_j − z_i),  P_ij ∝ w_j e^{β⟨Qe^{tV}z_i, Ke^{tV}z_j⟩}

    Source: Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv:2305.05465, eq. (1.3). Tokens live in
    R^d; x itself grows like e^{tV}. Logits grow like e^{2t}: in float64 they lose their digits past
    t ≈ 18 for V = I.
    """

    attention: SelfAttention

    def __check_init__(self) -> None:
        if not isinstance(self.attention, SelfAttention) or not self.attention.normalized:
            raise ValueError(f"Rescaled needs a normalised SelfAttention; got {self.attention!r}.")

    @property
    def clock(self) -> str:
        return self.attention.clock

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        if measure.on_sphere:
            raise ValueError("Rescaled moves tokens in R^d; start from tokens.euclidean().")
        a = self.attention
        growth = exponential_of(a.value, t)
        kernel = logits(
            a.beta, _compose(a.query, growth), _compose(a.key, growth), a.position, measure, at
        )
        mean = sum.attend(kernel, measure.points)[1]
        return act(a.value, mean - at.points)

    def tokens(self, z: Points, t: Any) -> Points:
        """The tokens x = e^{tV}z behind a rescaled measure."""
        return z.at(act(exponential_of(self.attention.value, t), z.points))


def exponential_of(operator: Array | None, t: Any) -> Array:
    """e^{tV} for a matrix or a multiple of the identity."""
    if operator is None:
        return jnp.exp(jnp.asarray(t, jnp.float64))
    return jnp.exp(t * operator) if operator.ndim == 0 else jax.scipy.linalg.expm(t * operator)


def _compose(left: Array | None, right: Array) -> Array:
    if left is None:
        return right
    return left @ right if left.ndim and right.ndim else left * right
