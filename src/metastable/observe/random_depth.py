"""Tokens under random weights, by many systems at once: exponents, and how they end."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.core.progress import Bar
from metastable.fields.random import CommonNoise
from metastable.fields.sums import Dense
from metastable.geometry.sphere import exponential, project, retract, uniform_points
from metastable.measures import Points
from metastable.observe.equilibria import Share

WIDTH = 1e-6  # at which a small displacement is held
CLOSE = 1e-10  # distance at which tokens are together, or opposite


class Exponent(NamedTuple):
    """A rate per unit of time and its standard error."""

    rate: float
    error: float


class Ends(NamedTuple):
    """Shares of systems whose tokens ended together, in two opposite groups, or in neither."""

    together: Share
    opposite: Share
    undecided: Share
    time: float  # at which the last system was decided, or the horizon


def step_common(
    x: Float[Array, "n d"], field: CommonNoise, key: Array, h: Any, layers: bool
) -> Float[Array, "n d"]:
    """One layer x ← N(x + √h W m), or one step along geodesics."""
    return _kicked(x, jnp.sqrt(h) * field.kick(Points(x), key, 0.0, Dense()), layers)


def _kicked(x: Array, kick: Array, layers: bool) -> Array:
    return retract(x + kick) if layers else exponential(x, project(x, kick))


def pair_exponent(
    field: CommonNoise,
    dim: int,
    opposite: bool = False,
    *,
    samples: int = 256,
    horizon: float = 10.0,
    step: float,
    layers: bool = False,
    seed: int = 0,
    extrapolate: bool = True,
) -> Exponent:
    """Rate of log(1−ρ) of two close tokens, or of log(1+ρ) of two opposite ones, by simulation.

    The displacement of a pair is brought back to `WIDTH` after each step and its growth is
    summed, as the mean of what W and −W do, which takes away most of the scatter. Bias is of first
    order in `step`; with `extrapolate` a second run of twice the step takes it away.

    >>> import metastable as ms
    >>> found = pair_exponent(ms.RandomValue(beta=1.0), 4, step=0.02, samples=64, horizon=4.0)
    >>> abs(found.rate + 3) < 4 * found.error
    True
    """
    checks.positive("step", step)
    checks.integer("samples", samples, 2)
    steps = max(2, round(checks.positive("horizon", horizon) / step / 2) * 2)
    how = (dim, samples, bool(opposite), bool(layers))

    def grown(seed: int, h: float, count: int) -> np.ndarray:
        now = jnp.asarray(seed), jnp.asarray(float(h)), jnp.asarray(count)
        return np.asarray(_grown(field, *now, *how))

    fine = grown(seed, step, steps) / (steps * step)
    rate, error = float(fine.mean()), float(fine.std(ddof=1)) / math.sqrt(samples)
    if not extrapolate:
        return Exponent(rate, error)
    coarse = grown(seed + 1, 2 * step, steps // 2) / (steps * step)
    other = float(coarse.std(ddof=1)) / math.sqrt(samples)
    return Exponent(2 * rate - float(coarse.mean()), math.hypot(2 * error, other))


@eqx.filter_jit
def _grown(
    field: CommonNoise,
    seed: Array,
    h: Array,
    steps: Array,
    dim: int,
    samples: int,
    opposite: bool,
    layers: bool,
) -> Float[Array, " samples"]:
    """Twice the logarithm by which the displacement of each pair has grown."""
    sign = jnp.array([[1.0], [-1.0 if opposite else 1.0]])

    def together(centre: Array, off: Array) -> Array:
        """Two tokens at ± half the displacement from a centre, the second with its sign."""
        return sign * retract(centre + jnp.array([[0.5], [-0.5]]) * off)

    def one(key: Array) -> Array:
        # Keys that are folded and keys that are split coincide: the steps have their own.
        first, second, walk = jax.random.split(key, 3)
        centre = uniform_points(first, 1, dim)[0]
        off = WIDTH * retract(project(centre, jax.random.normal(second, (dim,))))

        def advance(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            x, total = state
            key = jax.random.fold_in(walk, k)
            kick = jnp.sqrt(h) * field.kick(Points(x), key, 0.0, Dense())
            y, other = (sign * _kicked(x, s * kick, layers) for s in (1, -1))
            centre, off = retract(y[0] + y[1]), y[0] - y[1]
            length, opposed = jnp.linalg.norm(off), jnp.linalg.norm(other[0] - other[1])
            off = WIDTH / length * project(centre, off)
            return together(centre, off), total + jnp.log(length * opposed / WIDTH**2) / 2

        start = together(centre, off), jnp.zeros(())
        return 2 * jax.lax.fori_loop(0, steps, advance, start)[1]

    return jax.vmap(one)(jax.random.split(jax.random.key(seed), samples))


def how_tokens_end(
    field: CommonNoise,
    tokens: int,
    dim: int,
    *,
    samples: int = 1000,
    horizon: float = 200.0,
    step: float,
    orthogonal: bool = False,
    seed: int = 0,
    progress: bool | None = None,
) -> Ends:
    """Whether tokens under random weights end together, or in two opposite groups.

    From independent uniform tokens, or from orthogonal ones. Systems are followed until all are
    decided, each token within `CLOSE` of the first or of its opposite.
    """
    checks.integer("tokens", tokens, 2)
    checks.positive("step", step)
    x = _starts(jnp.asarray(seed), samples, tokens, dim, bool(orthogonal))
    keys = jax.random.split(jax.random.key(seed + 1), samples)
    steps, at, last = max(1, round(1.0 / step)), 0.0, 0.0
    hits, left = np.zeros(3, int), samples  # of each fate; systems still under way
    with Bar("ends", progress) as bar:
        while at < horizon and left:
            now = round(at / step), float(step), steps
            x = _moved(field, x, keys, *map(jnp.asarray, now))
            at += steps * step
            fates = np.asarray(_fates(x))[:left]
            on = np.flatnonzero(fates == 0)  # copies that only fill up come after them
            hits += np.bincount(fates, minlength=3) * np.array([0, 1, 1])
            last, left = at if len(on) < left else last, len(on)
            # As many as are left, rounded up to half of what there was: few shapes to compile.
            size = len(x)
            while size > 1 and 2 * left <= size:
                size //= 2
            chosen = np.resize(on, size) if left else on
            x, keys = x[chosen], keys[chosen]
            bar.update(max(at / horizon, 1 - left / samples))
    hits[0] = left
    undecided, together, opposite = (Share(int(hit), samples) for hit in hits)
    return Ends(together, opposite, undecided, last)


@eqx.filter_jit
def _starts(seed: Array, samples: int, tokens: int, dim: int, orthogonal: bool) -> Array:
    keys = jax.random.split(jax.random.key(seed), samples)
    if orthogonal:
        return jnp.broadcast_to(jnp.eye(dim)[:tokens], (samples, tokens, dim))
    return jax.vmap(lambda key: uniform_points(key, tokens, dim))(keys)


@eqx.filter_jit
def _moved(field: CommonNoise, x: Array, keys: Array, first: Any, h: Any, steps: Any) -> Array:
    def one(x: Array, key: Array) -> Array:
        move = lambda k, x: step_common(x, field, jax.random.fold_in(key, first + k), h, False)
        return jax.lax.fori_loop(0, steps, move, x)

    return jax.vmap(one)(x, keys)


@jax.jit
def _fates(x: Float[Array, "s n d"]) -> Array:
    """1 for all together, 2 for two opposite groups, 0 for neither."""
    near = jnp.linalg.norm(x - x[:, :1], axis=2) < CLOSE
    far = jnp.linalg.norm(x + x[:, :1], axis=2) < CLOSE
    return jnp.where(near.all(axis=1), 1, jnp.where((near | far).all(axis=1), 2, 0))
