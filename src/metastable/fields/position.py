"""Positional schemes inside the dynamics: what the logits know of token order."""

from __future__ import annotations

import equinox as eqx
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jnp
from metastable.fields.sums import Bias


class Causal(Bias):
    """Token i sees only tokens of time ≤ its own (itself included)."""

    def __call__(self, row: Float[Array, " a"], column: Float[Array, " b"]) -> Float[Array, "a b"]:
        return jnp.where(column[None, :] <= row[:, None], 0.0, -jnp.inf)


class Alibi(Bias):
    """Linear decay with distance in time: logit −slope·|s_i − s_j|.

    Source: Press, Smith, Lewis, arXiv:2108.12409 (used there with a causal mask).
    """

    slope: float = eqx.field(converter=lambda s: checks.nonnegative("slope", s))

    def __call__(self, row: Float[Array, " a"], column: Float[Array, " b"]) -> Float[Array, "a b"]:
        return -self.slope * jnp.abs(row[:, None] - column[None, :])


class Window(Bias):
    """Sliding window: tokens with |s_i − s_j| < `width` are seen, and the first `sinks` always.

    Source: Beltagy, Peters, Cohan, arXiv:2004.05150 (window); Xiao et al., arXiv:2309.17453
    (attention sinks: the first tokens stay visible). Sinks are the tokens of time < `sinks`.
    """

    width: float = eqx.field(converter=lambda s: checks.positive("width", s))
    sinks: int = eqx.field(static=True, default=0)

    def __check_init__(self) -> None:
        checks.integer("sinks", self.sinks, 0)

    def __call__(self, row: Float[Array, " a"], column: Float[Array, " b"]) -> Float[Array, "a b"]:
        near = jnp.abs(row[:, None] - column[None, :]) < self.width
        return jnp.where(near | (column[None, :] < self.sinks), 0.0, -jnp.inf)


class Rope(eqx.Module):
    """Rotary positions: query and key coordinates 2k, 2k+1 turn by the angle s/M^{2k/p}.

    Source: Su et al., arXiv:2104.09864. ⟨R(s)q, R(s')k⟩ depends on s − s' only. The dimension of
    query and key must be even.
    """

    base: float = eqx.field(default=10000.0, converter=lambda s: checks.positive("base", s))

    def rotate(self, x: Float[Array, "n p"], times: Float[Array, " n"]) -> Float[Array, "n p"]:
        if x.shape[1] % 2:
            raise ValueError(f"Rope needs an even query and key dimension; got {x.shape[1]}.")
        k = jnp.arange(x.shape[1] // 2)
        phase = times[:, None] / self.base ** (2 * k / x.shape[1])
        even, odd = x[:, ::2], x[:, 1::2]
        turned = (
            even * jnp.cos(phase) - odd * jnp.sin(phase),
            even * jnp.sin(phase) + odd * jnp.cos(phase),
        )
        return jnp.stack(turned, axis=-1).reshape(x.shape)
