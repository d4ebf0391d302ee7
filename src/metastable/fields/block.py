"""The rest of a transformer block: feed-forward, placement of the normalisation, learned gain."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import is_traced, jax, jnp
from metastable.fields.attention import act, matrix
from metastable.fields.field import Field, Places
from metastable.fields.sums import Sum
from metastable.geometry.sphere import project
from metastable.measures import Points


class FeedForward(Field):
    """A perceptron acting token by token, alone or after attention.

    alone:  ẋ_i = P_{x_i}( w σ(a x_i + b) );  after a field A:  ẋ_i = P_{x_i}( w σ(a A(x_i) + b) ).

    - `outer` w (d, p), `inner` a (p, d), `bias` b (p,): None stands for identity, identity, zero.
    - `activation` σ: `jax.nn.relu`, `jnp.tanh`, `jax.nn.gelu`, `jax.nn.sigmoid`, or any function.

    Alone it moves each token by itself, as a residual network; after attention it is the
    full layer of arXiv:2312.10794.
    """

    outer: Array | None
    inner: Array | None
    bias: Array
    after: Field | None
    activation: Callable[[Array], Array] = eqx.field(static=True)

    def __init__(
        self,
        outer: Any = None,
        inner: Any = None,
        bias: Any = None,
        activation: Callable[[Array], Array] = jax.nn.relu,
        after: Field | None = None,
    ):
        self.outer, self.inner = matrix("outer", outer), matrix("inner", inner)
        if bias is not None:
            checks.finite_array("bias", bias, 1)
        self.bias = jnp.asarray(0.0 if bias is None else bias, jnp.float64)
        self.activation = checks.function("activation", activation, "a function such as jnp.tanh")
        if after is not None:
            checks.instance("after", after, Field, "a field, whose output the layer takes")
        self.after = after

    @property
    def clock(self) -> str | None:
        return "layer" if self.after is None else self.after.clock

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        x = at.points if self.after is None else self.after.drift(measure, at, t, sum)
        hidden = act(self.inner, x)
        if self.bias.ndim and self.bias.shape != hidden.shape[1:]:
            raise ValueError(
                f"bias must have {hidden.shape[1]} entries, one per row of inner; got "
                f"{self.bias.shape[0]}."
            )
        return act(self.outer, self.activation(hidden + self.bias))


class Placement(eqx.Module):
    """Where the normalisation sits: how a block's output A moves direction θ and radius r.

    Each placement is θ̇ = P_θ A / s with its own s, and a law for the radius. The residual stream
    x = rθ carries both, so a placement answers ẋ. Source: Karagodin et al., arXiv:2510.22026.
    A placement that moves the radius needs tokens in R^d.
    """

    moves_radius: eqx.AbstractClassVar[bool]

    @abstractmethod
    def motion(self, theta: Array, radius: Array, a: Array, t: Any) -> Array:
        """ẋ of the residual stream x = radius·theta, shapes (m, d), (m, 1), (m, d)."""


class PostNorm(Placement):
    """s = 1: normalise after adding. 1 − γ ~ e^{−2t} near consensus."""

    moves_radius: ClassVar[bool] = False

    def motion(self, theta: Array, radius: Array, a: Array, t: Any) -> Array:
        return radius * project(theta, a)


class PreNorm(Placement):
    """s = r, ṙ = ⟨θ,A⟩: the block sees θ, the stream adds A. 1 − γ ~ t^{−2}."""

    moves_radius: ClassVar[bool] = True

    def motion(self, theta: Array, radius: Array, a: Array, t: Any) -> Array:
        return a


class PeriNorm(Placement):
    """s = r‖A‖, ṙ = ⟨θ,A⟩/‖A‖: both input and output are normalised. 1 − γ ~ t^{−2}, fast start."""

    moves_radius: ClassVar[bool] = True

    def motion(self, theta: Array, radius: Array, a: Array, t: Any) -> Array:
        return a / jnp.linalg.norm(a, axis=1, keepdims=True)


class NGPT(Placement):
    """s = ‖A‖/α: a step of fixed length α on the sphere. 1 − γ ~ e^{−2αt}."""

    alpha: float = eqx.field(default=1.0, converter=lambda a: checks.positive("alpha", a))
    moves_radius: ClassVar[bool] = False

    def motion(self, theta: Array, radius: Array, a: Array, t: Any) -> Array:
        unit = a / jnp.linalg.norm(a, axis=1, keepdims=True)
        return self.alpha * radius * project(theta, unit)


class DepthSqrt(Placement):
    """s = √(t+1): residual branches scaled down with depth. 1 − γ ~ e^{−4√t}."""

    moves_radius: ClassVar[bool] = False

    def motion(self, theta: Array, radius: Array, a: Array, t: Any) -> Array:
        return radius * project(theta, a) / jnp.sqrt(t + 1.0)


class Mix(Placement):
    """Post until time `until`, then Pre."""

    until: float = eqx.field(converter=lambda a: checks.nonnegative("until", a))
    moves_radius: ClassVar[bool] = True

    def motion(self, theta: Array, radius: Array, a: Array, t: Any) -> Array:
        return jnp.where(t < self.until, radius * project(theta, a), a)


class Block(Field):
    """A field with its normalisation placed as in a transformer block.

    The inner field sees the directions θ = x/‖x‖; the placement says how its output moves the
    residual stream x. Placements that move the radius need tokens in R^d: start from
    `tokens.euclidean()`, and read the result through `frame.directions()`.
    """

    field: Field
    placement: Placement

    def __check_init__(self) -> None:
        checks.instance("field", self.field, Field, "a field")
        checks.instance("placement", self.placement, Placement, "an object such as PreNorm()")

    @property
    def clock(self) -> str | None:
        return self.field.clock

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        if measure.on_sphere and self.placement.moves_radius:
            raise ValueError(
                f"{type(self.placement).__name__} moves the radius of tokens, and these are held "
                "on the sphere: start from tokens.euclidean()."
            )
        radius = jnp.linalg.norm(at.points, axis=1, keepdims=True)
        theta = at.points / radius
        a = self.field.drift(measure.directions(), at.at(theta), t, sum)
        return self.placement.motion(theta, radius, a, t)


class Gain(Field):
    """LayerNorm with a learned gain g: motion on the axis-aligned ellipsoid {g⊙θ : ‖θ‖ = 1}.

    The state is θ on the sphere and the block sees x = g⊙θ. Normalising x + εA(x) back to the
    ellipsoid along its ray, x ↦ x/‖x/g‖, gives in the limit θ̇ = P_θ( A(g⊙θ)/g ).

    With V = I this equals attention with Q = K = diag(g) on the sphere.
    """

    field: Field
    gain: Float[Array, " d"]

    def __init__(self, field: Field, gain: Any):
        checks.finite_array("gain", gain, 1)
        self.field, self.gain = field, jnp.asarray(gain, jnp.float64)
        if not is_traced(self.gain) and bool(jnp.any(self.gain == 0)):
            where = int(jnp.argmin(jnp.abs(self.gain)))
            raise ValueError(
                f"gain must have no zero entry (the ellipsoid would be flat); axis {where} has 0."
            )

    @property
    def clock(self) -> str | None:
        return self.field.clock

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        if self.gain.shape != (measure.dim,):
            raise ValueError(
                f"gain must have one entry per axis ({measure.dim}); got {self.gain.shape[0]}."
            )
        stretched = measure.at(self.gain * measure.points).euclidean()
        return self.field.drift(stretched, at.at(self.gain * at.points), t, sum) / self.gain
