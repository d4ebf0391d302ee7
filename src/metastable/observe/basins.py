"""Where random starts end: the attracting equilibria of a field and their shares."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.fields import Field
from metastable.geometry.sphere import uniform_points
from metastable.measures import Points
from metastable.observe.equilibria import RESOLUTION, Equilibrium, Share, check_field, polish
from metastable.observe.linearization import chart, symmetries, turning, value_and_jacobian
from metastable.observe.similarity import singular_values


def find_equilibria(
    field: Field,
    tokens: int,
    dim: int,
    starts: int = 100,
    seed: int = 0,
    *,
    weights: Any = None,
    horizon: float = 1e9,
) -> list[Equilibrium]:
    """The equilibria that independent uniform starts flow to, the most frequent first.

    Each `share` holds the count of starts and a Wilson interval: the size of the basin. Equilibria
    are the same when they agree, to 1e−6, in kind, masses of the groups, Gram spectrum and rates of
    the linearisation, that is up to rotations, reflections and exchange of tokens; neutral ones,
    which form families or cannot be resolved (large β), when kind and masses agree.

    Starts not at rest by `horizon` (the field's clock), or at rest on a saddle, belong to no
    basin: the shares then sum to less than 1. Cost grows as starts·(n(d−1))³; 200 starts of 8
    tokens on S² take seconds. `weights` (tokens,) gives the tokens unequal masses.

    >>> import metastable as ms
    >>> ends = find_equilibria(ms.SelfAttention(beta=1.0), tokens=4, dim=3, starts=20)
    >>> [(end.kind, end.stability, end.share) for end in ends]
    [('consensus', 'stable', 100.0% of 20 starts (95%: 83.9% to 100.0%))]
    """
    check_field(field)
    checks.integer("tokens", tokens, 1)
    checks.integer("dim", dim, 2)
    checks.integer("starts", starts, 1)
    checks.positive("horizon", horizon)
    keys = jax.random.split(jax.random.key(checks.integer("seed", seed, 0)), starts)
    first = jax.vmap(lambda key: uniform_points(key, tokens, dim))(keys)
    measure = Points(first[0], weights)
    generators = jnp.asarray(symmetries(measure, field))
    ends, rested = settle(measure, field, generators, first, jnp.asarray(float(horizon)))
    distinct: list[Equilibrium] = []
    hits: list[int] = []
    for end in ends[rested]:
        new = polish(measure.at(end), field)
        if new is None or new.stability == "unstable":
            continue
        known = next((k for k, old in enumerate(distinct) if _same(old, new)), len(distinct))
        if known == len(distinct):
            distinct, hits = [*distinct, new], [*hits, 0]
        hits[known] += 1
    order = np.argsort(-np.array(hits, int), stable=True)
    return [replace(distinct[k], share=Share(hits[k], starts)) for k in order]


@eqx.filter_jit
def settle(
    measure: Points,
    field: Field,
    generators: Float[Array, "g d d"],
    starts: Float[Array, "s n d"],
    horizon: Array,
) -> tuple[Float[Array, "s n d"], Bool[Array, " s"]]:
    """Flow many starts, with the masses and times of `measure`, until they rest up to rotations.

    Rodas3 (Sandu et al., Atmos. Environ. 31, 1997; L-stable, order 3) in tangent coordinates, with
    local error 1e−5 rad. Linearly implicit, because clusters attract each other on time scales up
    to e^{2β} and then merge on scale 1. Returns the ends and whether the speed fell below 1e−11 of
    the fastest rate.
    """

    def advance(state: tuple) -> tuple:
        t, h, x, _, taken = state
        now = measure.at(x)
        # In the frame that turns with the tokens they come to rest, and steps may grow.
        place, velocity = chart(now, field, turning(now, field, generators)[2])
        here = jnp.zeros(x.shape[0] * (x.shape[1] - 1))
        v, jacobian = value_and_jacobian(velocity, here)
        factors = jax.scipy.linalg.lu_factor(2 / h * jnp.eye(here.size) - jacobian)
        solve = lambda right: jax.scipy.linalg.lu_solve(factors, right)
        k1 = solve(v)
        k2 = solve(v + 4 / h * k1)
        k3 = solve(velocity(2 * k1) + (k1 - k2) / h)
        k4 = solve(velocity(2 * k1 + k3) + (k1 - k2 - 8 / 3 * k3) / h)
        error = jnp.max(jnp.abs(k4)) / 1e-5
        error = jnp.where(jnp.isfinite(error), error, jnp.inf)
        good = error <= 1
        x = jnp.where(good, place(2 * k1 + k3 + k4), x)
        factor = jnp.clip(0.9 * jnp.maximum(error, 1e-9) ** (-1 / 3), 0.2, 5.0)
        speed = jnp.max(jnp.abs(v)) / jnp.maximum(jnp.linalg.norm(jacobian), 1e-300)
        return t + jnp.where(good, h, 0.0), h * factor, x, speed, taken + 1

    def moving(state: tuple) -> Array:
        t, _, _, speed, taken = state
        return (t < horizon) & (speed > 1e-11) & (taken < 5000)

    def one(x: Array) -> tuple[Array, Array]:
        fresh = (0.0, 1e-2, x, jnp.inf, 0)
        _, _, x, speed, _ = jax.lax.while_loop(moving, advance, fresh)
        return x, jnp.less_equal(speed, 1e-11)

    return jax.vmap(one)(starts)


def _same(one: Equilibrium, two: Equilibrium) -> bool:
    if (one.kind, one.stability) != (two.kind, two.stability):
        return False
    pairs = [(one.groups.masses, two.groups.masses)]
    if one.stability != "neutral":
        scale = one.resolution / RESOLUTION
        # The shape, forgetting rotations and the order of tokens.
        pairs.append((singular_values(one.measure), singular_values(two.measure)))
        pairs.append((np.real(one.modes) / scale, np.real(two.modes) / scale))
    return all(len(a) == len(b) and np.allclose(a, b, rtol=0, atol=1e-6) for a, b in pairs)
