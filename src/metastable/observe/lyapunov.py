"""Lyapunov exponents: the rates at which nearby runs part along a trajectory."""

from __future__ import annotations

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.fields import Field
from metastable.fields.sums import Dense
from metastable.geometry.sphere import project, retract
from metastable.measures import Points
from metastable.observe.equilibria import check_field


def lyapunov_exponents(
    measure: Points,
    field: Field,
    horizon: float,
    count: int = 1,
    *,
    step: float | None = None,
    transient: float = 0.0,
    seed: int = 0,
) -> np.ndarray:
    """The `count` largest Lyapunov exponents of the flow from a measure, in descending order.

    λ_k = (1/T) Σ log R_kk over the steps, where Q R = Dφ(x) Q: tangent vectors are carried by the
    derivative of the step map φ (a Runge–Kutta step of order 4 and the return to the sphere, by
    automatic differentiation) and made orthonormal again by QR.

    Source: Benettin, Galgani, Giorgilli, Strelcyn, Meccanica 15 (1980). Tokens on the sphere have
    n(d−1) exponents, in R^d nd of them. At rest they are the real parts of the spectrum of
    `equilibrium`; a positive one means chaos, or an unstable rest. In a run that tends to an
    equilibrium they tend to that one's rates, however long the way.

    - `transient`: time to let the tangent vectors align before measuring; without it the estimate
      carries an error of order 1/horizon.
    - `step`: error of order step⁴; None takes 2 % of the time scale of a token next to a cluster.

    >>> import metastable as ms
    >>> together = ms.Points([[1.0, 0.0]] * 3)
    >>> rates = lyapunov_exponents(together, ms.SelfAttention(2.0), 1.0, count=3, transient=20.0)
    >>> (rates + 0.0).round(6).tolist()
    [0.0, -1.0, -1.0]
    """
    checks.defined_for("lyapunov_exponents", measure, Points)
    check_field(field)
    checks.positive("horizon", horizon)
    checks.nonnegative("transient", transient)
    most = measure.count * (measure.dim - measure.on_sphere)
    if checks.integer("count", count, 1) > most:
        raise ValueError(f"count must be at most {most}, one per direction of motion; got {count}.")
    from metastable.flows import Geodesic  # which loads diffrax

    usual = Geodesic().resolve(measure, field, Dense())
    step = usual if step is None else float(checks.positive("step", step))
    if step > 100 * usual:
        # On the sphere an unstable step stays finite and would pass for chaos.
        raise ValueError(
            f"step must be below {100 * usual:.3g} to resolve the fastest rate of the field; got "
            f"{step:g}."
        )
    spin_up, steps = int(np.ceil(transient / step)), int(np.ceil(horizon / step))
    key = jax.random.key(checks.integer("seed", seed, 0))
    # Arrays are no constants of the compiled program: one program serves every horizon.
    numbers = jnp.asarray(step), jnp.asarray(spin_up), jnp.asarray(spin_up + steps)
    logs = np.asarray(_follow(measure, field, count, key, *numbers))
    if not np.isfinite(logs).all():
        raise ValueError(
            f"horizon must end before the tokens blow up; got {horizon:g}: shorten it."
        )
    return np.sort(logs / (steps * step))[::-1]


@eqx.filter_jit
def _follow(
    measure: Points, field: Field, count: int, key: Array, step: Array, first: Array, last: Array
) -> Float[Array, " count"]:
    """Σ log R_kk over the steps `first` to `last`."""
    held = measure.on_sphere

    def move(x: Array, t: Array) -> Array:
        v = lambda x, t: field.velocity(measure.at(x), t=t)
        k1 = v(x, t)
        k2 = v(x + step / 2 * k1, t + step / 2)
        k3 = v(x + step / 2 * k2, t + step / 2)
        k4 = v(x + step * k3, t + step)
        x = x + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return retract(x) if held else x

    def orthonormal(frame: Array) -> tuple[Array, Array]:
        q, r = jnp.linalg.qr(frame.reshape(count, -1).T)
        return q.T.reshape(frame.shape), jnp.log(jnp.abs(jnp.diagonal(r)))

    def advance(k: Array, carry: tuple) -> tuple:
        x, frame, total = carry
        push = lambda u: jax.jvp(lambda x: move(x, k * step), (x,), (u,))[1]
        frame, growth = orthonormal(jax.vmap(push)(frame))
        return move(x, k * step), frame, total + jnp.where(k < first, 0.0, growth)

    x = measure.points
    frame = jax.random.normal(key, (count, *x.shape))
    frame = orthonormal(project(x, frame) if held else frame)[0]
    start = x, frame, jnp.zeros(count)
    return jax.lax.fori_loop(0, last, advance, start)[2]
