"""Forces given pair by pair: a potential of the inner product, Kuramoto, Krause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.fields.field import Field, Places
from metastable.fields.sums import Dense, Sum
from metastable.measures import Points


class Potential(Field):
    """The gradient flow of any potential of the inner product, v = ∇(W∗μ).

    ẋ_i = P_{x_i} Σ_j w_j W′(⟨x_i,x_j⟩) x_j;  W(s) = e^{βs}/β is USA, W(s) = s is Kuramoto.

    `potential` is a function s ↦ W(s) written with `jax.numpy`; it is differentiated automatically.
    It increases Σ w_i w_j W(⟨x_i,x_j⟩)/2 along the flow.
    """

    potential: Callable[[Array], Array]

    def __check_init__(self) -> None:
        checks.function("potential", self.potential, "a function s -> W(s)")

    clock: ClassVar[str] = "W"

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        slope = jax.vmap(jax.vmap(jax.grad(self.potential)))
        profile = lambda x, y: slope(x @ y.T)
        y = measure.points
        return dense(sum).pairwise(profile, at.points, y, measure.weights, y)[1]


class Kuramoto(Field):
    """Phase oscillators on the circle and their sphere version, SA or USA at β = 0.

    ẋ_i = P_{x_i}(K Σ_j w_j x_j) + ω_i J x_i,  J the quarter turn;
    on the circle θ̇_i = ω_i + K Σ_j w_j sin(θ_j − θ_i).

    `frequencies` ω_i (n,) exist on the circle only.
    """

    coupling: Float[Array, ""]
    frequencies: Float[Array, " n"] | None

    def __init__(self, coupling: Any = 1.0, frequencies: Any = None):
        self.coupling = jnp.asarray(checks.real("coupling", coupling), jnp.float64)
        if frequencies is not None:
            checks.finite_array("frequencies", frequencies, 1)
            frequencies = jnp.asarray(frequencies, jnp.float64)
        self.frequencies = frequencies

    clock: ClassVar[str] = "Kuramoto"

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        mean = self.coupling * (measure.weights @ measure.points)
        return jnp.broadcast_to(mean, at.points.shape) + turning(self.frequencies, measure, at)


class Krause(Field):
    """Bounded-confidence opinions: each token moves to the mean of those near it.

    ẋ_i = Σ_j a_ij (x_j − x_i),  a_ij = w_j φ(‖x_i−x_j‖²) / Σ_k w_k φ(‖x_i−x_k‖²)

    Source: Krause (2000); Jabin and Motsch, J. Differential Equations 257 (2014). With φ of compact
    support several clusters remain for ever. `profile` is φ ≥ 0 with φ(0) > 0, of `jax.numpy`.
    """

    profile: Callable[[Array], Array]

    def __check_init__(self) -> None:
        checks.function("profile", self.profile, "a function of the squared distance")

    clock: ClassVar[str] = "Krause"

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        def weight(x: Array, y: Array) -> Array:
            squared = jnp.sum(x * x, 1)[:, None] + jnp.sum(y * y, 1) - 2 * x @ y.T
            # Rounding can make the distance of a token to itself slightly negative.
            return self.profile(jnp.maximum(squared, 0.0))

        y = measure.points
        mass, total = dense(sum).pairwise(weight, at.points, y, measure.weights, y)
        # A token of no mass with no neighbour sees nothing, and stays.
        seen = jnp.where(mass > 0, mass, 1.0)[:, None]
        return jnp.where(mass[:, None] > 0, total / seen - at.points, 0.0)


def dense(sum: Sum) -> Dense:
    """The direct sum, which alone serves fields given pair by pair."""
    if not isinstance(sum, Dense):
        raise ValueError(
            f"a field given pair by pair needs the dense sum; got {sum.name}: leave sum unset."
        )
    return sum


def turning(frequencies: Array | None, measure: Points, at: Places) -> Array | float:
    """ω_i J x_i: what frequencies of their own add to oscillators on the circle."""
    if frequencies is None:
        return 0.0
    if measure.dim != 2 or frequencies.shape != (at.points.shape[0],):
        raise ValueError(
            "frequencies need the circle (dim 2) and one entry per token; got dim "
            f"{measure.dim}, {frequencies.shape[0]} entries, {at.points.shape[0]} places."
        )
    quarter = jnp.stack([-at.points[:, 1], at.points[:, 0]], axis=1)
    return frequencies[:, None] * quarter
