"""Many small systems at once: statistics of pairs of tokens over thousands of random starts.

Plain softmax attention (Q = K = V = I) needs no tokens for that:

- on the circle angles are enough, and with the samples along the fastest axis the sum over pairs
  is one loop whose terms stay in registers (`Angles`);
- inner products obey a closed equation in any dimension: with A the softmax rows of βG and
  M = AG, Ġ = N + Nᵀ, N_ij = M_ij − M_ii G_ij (`Gram`). Derived here from ẋ_i = P_{x_i}(AX)_i.

Any other attention on the sphere moves its tokens (`TokenForm`, in float64).

All are advanced by exponential Adams–Bashforth steps (Cox & Matthews, J. Comput. Phys. 176, 2002),
one evaluation each. With λ the rate at which a cluster of all tokens contracts, ẏ = −λy + g(y) is
solved exactly for the polynomial through the last values of g: the contraction itself, in which a
system spends most of its time, has no error and sets no limit to the step. The same polynomial
gives the frames inside a step. Single precision is far below the error of the steps, which is
measured against small Runge–Kutta steps in tests/flows/test_ensemble.py.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core.numerics import jax, jnp
from metastable.fields import Field, MultiHead, SelfAttention
from metastable.flows.solvers.angle_kernel import angle_drift, angle_march
from metastable.geometry.sphere import retract, uniform_points
from metastable.measures import Points

MOST_INSIDE = 8  # frames of one step
MOST_STRIDES = 10  # from frame to frame, that a kernel takes at once
UNROLLED = 4  # steps between two frames that are written out
FEW_TOKENS = 128  # beyond, the loop over tokens compiles for long and inner products are many


class Form(eqx.Module):
    """How an ensemble is held while it moves: the state is one array, the parameters are here."""

    rate: eqx.AbstractVar[float]  # the fastest decay, near a cluster
    chunk: ClassVar[int]  # samples moved together: more would leave the cache
    memory: ClassVar[int]  # evaluations from which a step is made: its order
    length: ClassVar[float]  # of a step, in units of 1/rate
    contracts: ClassVar[bool]  # whether everything decays like e^{−rate t} near a cluster

    @abstractmethod
    def start(self, keys: Array, tokens: int, dim: int) -> Array:
        """Independent uniform starts, one for each key."""

    @abstractmethod
    def drift(self, y: Array) -> Array: ...

    @abstractmethod
    def gram(self, y: Array) -> Float[Array, "s n n"]:
        """Inner products of all pairs of tokens."""

    @property
    def decay(self) -> float:
        """λ of the steps; see the top of this module."""
        return self.rate if self.contracts else 0.0

    def slope(self, y: Array) -> Array:
        """g = ẏ + λy."""
        return self.drift(y) + self.decay * y if self.contracts else self.drift(y)

    def strides(self, y: Array, wanted: int) -> int:
        """Strides from frame to frame that `march` takes at once, of so many."""
        return 1

    def march(
        self, y: Array, history: tuple[Array, ...], weights: StepWeights, steps: int, strides: int
    ) -> tuple[Array, Array, tuple[Array, ...]]:
        """States in the last of `steps` steps, the state after it, and the history then."""

        def step(state: tuple[Array, ...]) -> tuple[tuple[Array, ...], list[Array]]:
            y, slopes = state[0], (self.slope(state[0]), *state[1:])
            reached = [d * y + _weighted(w, slopes) for d, w in zip(*weights, strict=True)]
            return slopes, [self.settle(each) for each in reached]

        def whole(_: Any, state: tuple[Array, ...]) -> tuple[Array, ...]:
            slopes, states = step(state)
            return states[-1], *slopes[:-1]

        state = jax.lax.fori_loop(0, steps - 1, whole, (y, *history), unroll=steps <= UNROLLED)
        slopes, states = step(state)
        return jnp.stack(states), states[-1], slopes[:-1]

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
    chunk, memory, length, contracts = 2048, 5, 0.3, True
    rate: float = eqx.field(static=True, default=1.0, kw_only=True)

    def start(self, keys: Array, tokens: int, dim: int) -> Array:
        draw = lambda key: jax.random.uniform(key, (tokens,), jnp.float32, 0, 2 * math.pi)
        return jax.vmap(draw, out_axes=1)(keys)

    def drift(self, y: Array) -> Array:
        if self._in_kernel(y):
            return angle_drift(self.beta, y)
        cos, sin = jnp.cos(y), jnp.sin(y)
        mass = along = across = jnp.zeros_like(y)
        for j in range(y.shape[0]):
            k = jnp.exp(self.beta.astype(y.dtype) * (cos * cos[j] + sin * sin[j] - 1))
            mass, along, across = mass + k, along + k * cos[j], across + k * sin[j]
        return (cos * across - sin * along) / mass

    def strides(self, y: Array, wanted: int) -> int:
        whole = [k for k in range(1, MOST_STRIDES + 1) if wanted % k == 0]
        return max(whole) if self._in_kernel(y) else 1

    def march(
        self, y: Array, history: tuple[Array, ...], weights: StepWeights, steps: int, strides: int
    ) -> tuple[Array, Array, tuple[Array, ...]]:
        if not self._in_kernel(y):
            return super().march(y, history, weights, steps, strides)
        how: Any = {"rate": self.rate, "strides": strides, "steps": steps}
        return angle_march(self.beta, y, history, *weights, **how)

    @staticmethod
    def _in_kernel(y: Array) -> bool:
        return jax.default_backend() == "gpu" and y.dtype == jnp.float32

    def gram(self, y: Array) -> Array:
        return jnp.cos(y.T[:, :, None] - y.T[:, None, :])

    def pair(self, y: Array) -> Array:
        return jnp.cos(y[0] - y[1])

    def order(self, y: Array) -> Array:
        return jnp.hypot(jnp.mean(jnp.cos(y), 0), jnp.mean(jnp.sin(y), 0))


class Gram(Form):
    """Plain attention in any dimension: inner products (s, n, n), in single precision."""

    beta: Float[Array, ""] | Float[Array, "s 1 1"]
    chunk, memory, length, contracts = 128, 4, 0.3, True
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
    # Plain Adams–Bashforth, which is stable up to 6/11: a value matrix may turn or repel.
    chunk, memory, length, contracts = 64, 3, 0.25, False
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


def steps_and_frames(form: Form, spacing: float) -> tuple[int, int]:
    """Equal steps from one frame to the next, and frames in a step: one of them is 1."""
    steps = spacing * form.rate / form.length
    if steps > 1 - 1e-9:
        return math.ceil(steps - 1e-9), 1
    return 1, min(MOST_INSIDE, math.floor(1 / max(steps, 1e-9) + 1e-9))


def flow_ensemble(
    form: Form,
    start: Array,
    horizon: float,
    frames: int,
    observe: Callable[[Form, Array], Any],
    steps: int | None = None,
) -> Any:
    """What `observe(form, state)` sees at `frames` equally spaced times from 0 to the horizon.

    In `steps` steps between two frames; by default steps are as long as `steps_and_frames` says,
    and may hold several frames. `observe` gives a number for each sample, or a tree of them;
    results have shape (frames, samples). No trajectory is kept.

    >>> start = jnp.broadcast_to(jnp.eye(32), (1, 32, 32))
    >>> cosine = lambda form, y: form.pair(y)
    >>> seen = flow_ensemble(Gram(jnp.asarray(1.0)), start, 5.0, 6, cosine, steps=16)
    >>> round(float(seen[-1, 0]), 4)  # equiangular_cosine(5.0, 1.0, 32)
    0.9983
    """
    spacing = horizon / (frames - 1)
    steps, inside = steps_and_frames(form, spacing) if steps is None else (steps, 1)
    inside = min(inside, frames - 1)
    h = spacing * inside / steps
    weights = jax.tree.map(jnp.asarray, step_weights(form, h, inside))
    return _advance(form, start, jnp.asarray(h), weights, frames, steps, observe)


class StepWeights(NamedTuple):
    """What y and the last values of g count at each of the m frames of a step."""

    decay: Any  # (m,)
    slopes: Any  # (m, memory), the latest g first


def step_weights(form: Form, h: float, inside: int) -> StepWeights:
    """The weights of a step of length h at its `inside` frames.

    y(θh) = e^{−λθh} y + Σ_k w_k g(−kh),  w_k = ∫_0^{θh} e^{−λ(θh−τ)} L_k(τ) dτ, with L_k the
    polynomial that is 1 at −kh and 0 at the other places. Without λ those are Adams and Bashforth's
    weights.

    >>> decay, weights = step_weights(TokenForm(None, rate=1.0), 1.0, 1)
    >>> (12 * weights).round(12).tolist(), decay.tolist()
    ([[23.0, -16.0, 5.0]], [1.0])
    """
    ends = h * np.arange(1, inside + 1) / inside
    places, shares = np.polynomial.legendre.leggauss(form.memory + 8)  # exact to rounding
    tau, shares = ends[:, None] * (places + 1) / 2, ends[:, None] * shares / 2
    shares = shares * np.exp(-form.decay * (ends[:, None] - tau))
    known = range(form.memory)
    factors = lambda k: [(tau / h + j) / (j - k) for j in known if j != k]
    weights = [np.sum(shares * np.prod(factors(k), axis=0), axis=1) for k in known]
    return StepWeights(np.exp(-form.decay * ends), np.stack(weights, axis=1))


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
    wrong by less than 2e−3 on the circle and 4e−3 by inner products in the median over pairs (the
    worst of 256 pairs: 0.07 and 0.005). It falls with the order of the steps, 5 and 4.
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
def _advance(
    form: Form, y: Array, h: Array, weights: StepWeights, frames: int, steps: int, observe: Any
) -> Any:
    h, weights = h.astype(y.dtype), jax.tree.map(lambda each: each.astype(y.dtype), weights)
    # Steps back in time by Runge–Kutta give the history that the first step needs.
    before, history = y, []
    for _ in range(form.memory - 1):
        before = _runge_kutta(form, before, -h)
        history.append(form.slope(before))
    inside = weights.decay.size
    count = -(-(frames - 1) // inside)
    strides = form.strides(y, count)

    def forward(carry: tuple, _: None) -> tuple[tuple, Any]:
        states, y, history = form.march(carry[0], carry[1], weights, steps, strides)
        return (y, history), jax.lax.map(lambda state: observe(form, state), states)

    _, seen = jax.lax.scan(forward, (y, tuple(history)), length=-(-count // strides))
    first = observe(form, y)

    def joined(first: Any, seen: Array) -> Array:
        whole = seen.reshape(-1, *seen.shape[2:])
        return jnp.concatenate([jnp.asarray(first)[None], whole])[:frames]

    return jax.tree.map(joined, first, seen)


def _weighted(weights: Array, slopes: tuple[Array, ...]) -> Array:
    return reduce(add, (w * g for w, g in zip(weights, slopes, strict=True)))


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
