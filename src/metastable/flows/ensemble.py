"""Many small systems at once: statistics of pairs of tokens over thousands of random starts.

Plain softmax attention (Q = K = V = I) needs no tokens for that:

- on the circle angles are enough, and with the samples along the fastest axis the sum over pairs
  is one loop whose terms stay in registers (`Angles`);
- inner products obey a closed equation in any dimension: with A the softmax rows of βG and
  M = AG, Ġ = N + Nᵀ, N_ij = M_ij − M_ii G_ij (`Gram`). Derived here from ẋ_i = P_{x_i}(AX)_i.

Any other attention on the sphere moves its tokens (`TokenForm`, in float64). All are advanced by
third-order Adams–Bashforth steps, one evaluation each: the flow is smooth, and a step is a quarter
of its fastest time scale. Single precision is far below their error, which is measured against
small Runge–Kutta steps in tests/flows/test_ensemble.py.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core.numerics import jax, jnp
from metastable.fields import Field, MultiHead, SelfAttention
from metastable.flows.solvers.angle_kernel import angle_drift
from metastable.geometry.sphere import retract, uniform_points
from metastable.measures import Points

STEP = 0.25  # of the fastest time scale; these methods are stable up to 6/11
FEW_TOKENS = 128  # beyond, the loop over tokens compiles for long and inner products are many


class Form(eqx.Module):
    """How an ensemble is held while it moves: the state is one array, the parameters are here."""

    rate: eqx.AbstractVar[float]  # the fastest decay, near a cluster
    chunk: ClassVar[int]  # samples moved together: more would leave the cache

    @abstractmethod
    def start(self, keys: Array, tokens: int, dim: int) -> Array:
        """Independent uniform starts, one for each key."""

    @abstractmethod
    def drift(self, y: Array) -> Array: ...

    @abstractmethod
    def gram(self, y: Array) -> Float[Array, "s n n"]:
        """Inner products of all pairs of tokens."""

    def settle(self, y: Array) -> Array:
        """Back to the sphere after a step."""
        return y

    def pair(self, y: Array) -> Float[Array, " s"]:
        """⟨x_1,x_2⟩ of each sample."""
        return self.gram(y)[:, 0, 1]

    def order(self, y: Array) -> Float[Array, " s"]:
        """‖(1/n) Σ_i x_i‖ of each sample."""
        return jnp.sqrt(jnp.maximum(jnp.mean(self.gram(y), axis=(1, 2)), 0))


class Angles(Form):
    """Plain attention on the circle: angles (n, s), in single precision."""

    beta: Float[Array, ""] | Float[Array, " s"]  # one, or one for each sample
    chunk = 2048
    rate: float = eqx.field(static=True, default=1.0, kw_only=True)

    def start(self, keys: Array, tokens: int, dim: int) -> Array:
        draw = lambda key: jax.random.uniform(key, (tokens,), jnp.float32, 0, 2 * math.pi)
        return jax.vmap(draw, out_axes=1)(keys)

    def drift(self, y: Array) -> Array:
        if jax.default_backend() == "gpu" and y.dtype == jnp.float32:
            return angle_drift(self.beta, y)
        cos, sin = jnp.cos(y), jnp.sin(y)
        mass = along = across = jnp.zeros_like(y)
        for j in range(y.shape[0]):
            k = jnp.exp(self.beta.astype(y.dtype) * (cos * cos[j] + sin * sin[j] - 1))
            mass, along, across = mass + k, along + k * cos[j], across + k * sin[j]
        return (cos * across - sin * along) / mass

    def gram(self, y: Array) -> Array:
        return jnp.cos(y.T[:, :, None] - y.T[:, None, :])

    def pair(self, y: Array) -> Array:
        return jnp.cos(y[0] - y[1])

    def order(self, y: Array) -> Array:
        return jnp.hypot(jnp.mean(jnp.cos(y), 0), jnp.mean(jnp.sin(y), 0))


class Gram(Form):
    """Plain attention in any dimension: inner products (s, n, n), in single precision."""

    beta: Float[Array, ""] | Float[Array, "s 1 1"]
    chunk = 128
    rate: float = eqx.field(static=True, default=2.0, kw_only=True)

    def start(self, keys: Array, tokens: int, dim: int) -> Array:
        def draw(key: Array) -> Array:
            if dim < tokens:
                x = uniform_points(key, tokens, dim)
                return x @ x.T
            # Bartlett: the inner products of n Gaussian vectors are LLᵀ, with independent normal
            # entries below the diagonal and χ of d, d−1, … degrees of freedom on it.
            first, second = jax.random.split(key)
            below = jnp.tril(jax.random.normal(first, (tokens, tokens)), -1)
            freedom = dim - jnp.arange(tokens)
            squares = 2 * jax.random.gamma(second, freedom / 2.0)
            rows = retract(below + jnp.diag(jnp.sqrt(squares)))
            return rows @ rows.T

        return jax.vmap(draw)(keys).astype(jnp.float32)

    def drift(self, y: Array) -> Array:
        # Without the barriers the compiler would take each exponential twice.
        k = jax.lax.optimization_barrier(jnp.exp(self.beta.astype(y.dtype) * (y - 1)))
        ky = jax.lax.optimization_barrier(k @ y)
        mass = 1 / k.sum(-1)
        own = jnp.diagonal(ky, axis1=1, axis2=2) * mass
        pull = ky * mass[:, :, None] + ky.swapaxes(1, 2) * mass[:, None, :]
        return pull - (own[:, :, None] + own[:, None, :]) * y

    def gram(self, y: Array) -> Array:
        return y


class TokenForm(Form):
    """Any attention on the sphere: tokens (s, n, d), in double precision."""

    field: Field
    chunk = 64
    rate: float = eqx.field(static=True, kw_only=True)

    def start(self, keys: Array, tokens: int, dim: int) -> Array:
        return jax.vmap(lambda key: uniform_points(key, tokens, dim))(keys)

    def drift(self, y: Array) -> Array:
        return jax.vmap(lambda x: self.field.velocity(Points(x)))(y)

    def settle(self, y: Array) -> Array:
        return retract(y)

    def gram(self, y: Array) -> Array:
        return y @ y.swapaxes(1, 2)


def choose_form(field: Field, tokens: int, dim: int) -> Form | None:
    """The cheapest form that holds this field, or None if ensembles cannot move it."""
    if isinstance(field, SelfAttention) and field.isotropic and field.normalized:
        identity = field.query is field.key is field.value is None
        if identity and tokens <= FEW_TOKENS:
            return Angles(field.beta) if dim == 2 else Gram(field.beta)
    if isinstance(field, SelfAttention | MultiHead):
        return TokenForm(field, rate=_fastest_rate(field, tokens, dim))
    return None


def step_count(form: Form, spacing: float) -> int:
    """Equal steps that lead from one frame to the next."""
    return max(1, math.ceil(spacing * form.rate / STEP - 1e-9))


def flow_ensemble(
    form: Form,
    start: Array,
    horizon: float,
    frames: int,
    observe: Callable[[Form, Array], Any],
    steps: int | None = None,
) -> Any:
    """What `observe(form, state)` sees at `frames` equally spaced times from 0 to the horizon.

    y_{k+1} = y_k + h/12 (23 f_k − 16 f_{k−1} + 5 f_{k−2}), f = ẏ, in `steps` steps between two
    frames (by default as many as `step_count` says). `observe` gives a number for each sample, or
    a tree of them; results have shape (frames, samples). No trajectory is kept.

    >>> start = jnp.broadcast_to(jnp.eye(32), (1, 32, 32))
    >>> cosine = lambda form, y: form.pair(y)
    >>> seen = flow_ensemble(Gram(jnp.asarray(1.0)), start, 5.0, 6, cosine, steps=16)
    >>> round(float(seen[-1, 0]), 4)  # equiangular_cosine(5.0, 1.0, 32)
    0.9983
    """
    spacing = horizon / (frames - 1)
    steps = step_count(form, spacing) if steps is None else steps
    return _advance(form, start, spacing / steps, frames, steps, observe)


def sample_ensemble(
    form: Form,
    seed: int,
    samples: int,
    tokens: int,
    dim: int,
    horizon: float,
    frames: int,
    observe: Callable[[Form, Array], Any],
) -> Any:
    """`flow_ensemble` from independent uniform starts; sample s is drawn from fold_in(seed, s).

    Memory does not grow with the number of samples. With the default steps and the published
    parameters (n = 32, frames 0.15 apart) the time at which a pair comes near ⟨x_1,x_2⟩ = 0.999 is
    wrong by less than 1e−3 on the circle and 4e−3 by inner products in the median over pairs (the
    worst of 256 pairs: 0.06 and 0.005). It falls with the cube of the step.
    """
    parts, chunk = [], form.chunk * (64 if jax.default_backend() == "gpu" else 1)
    for first in range(0, samples, chunk):
        some = jnp.arange(first, min(first + chunk, samples))
        start = _start(form, jnp.asarray(seed), some, tokens, dim)
        parts.append(jax.tree.map(np.asarray, flow_ensemble(form, start, horizon, frames, observe)))
    return jax.tree.map(lambda *each: np.concatenate(each, axis=1), *parts)


@eqx.filter_jit
def _start(form: Form, seed: Array, some: Array, tokens: int, dim: int) -> Array:
    keys = jax.vmap(lambda s: jax.random.fold_in(jax.random.key(seed), s))(some)
    return form.start(keys, tokens, dim)


@eqx.filter_jit
def _advance(form: Form, y: Array, h: Any, frames: int, steps: int, observe: Any) -> Any:
    h = jnp.asarray(h, y.dtype)
    # Two steps back in time by Runge–Kutta give the history that the first step needs.
    before = _runge_kutta(form, y, -h)
    history = form.drift(before), form.drift(_runge_kutta(form, before, -h))

    def step(_, carry):
        y, (f1, f2) = carry
        f0 = form.drift(y)
        return form.settle(y + h / 12 * (23 * f0 - 16 * f1 + 5 * f2)), (f0, f1)

    def frame(carry, _):
        carry = jax.lax.fori_loop(0, steps, step, carry, unroll=steps <= 4)
        return carry, observe(form, carry[0])

    _, seen = jax.lax.scan(frame, (y, history), length=frames - 1)
    first = observe(form, y)
    return jax.tree.map(lambda a, b: jnp.concatenate([jnp.asarray(a)[None], b]), first, seen)


def _runge_kutta(form: Form, y: Array, h: Any) -> Array:
    k1 = form.drift(y)
    k2 = form.drift(form.settle(y + h / 2 * k1))
    k3 = form.drift(form.settle(y + h / 2 * k2))
    k4 = form.drift(form.settle(y + h * k3))
    return form.settle(y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4))


def _fastest_rate(field: Field, tokens: int, dim: int) -> float:
    """The largest rate, rounded up to a power of two, at a start and at a cluster."""
    points = uniform_points(jax.random.key(0), tokens, dim)
    nudge = jax.random.normal(jax.random.key(1), points.shape)
    cluster = jnp.broadcast_to(points[0], points.shape)
    fastest = 1.0
    velocity = lambda x: field.velocity(Points(x))
    for place in (points, cluster):
        change = nudge / jnp.linalg.norm(nudge)
        for _ in range(8):  # power iteration
            change = jax.jvp(velocity, (place,), (change,))[1]
            size = float(jnp.linalg.norm(change))
            change = change / max(size, 1e-300)
        fastest = max(fastest, size)
    return 2.0 ** math.ceil(math.log2(fastest) - 0.1)
