"""Steering tokens: one control (Q, K, V, w, a, b)(t) that carries given tokens to given targets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import optimistix
from jax.flatten_util import ravel_pytree

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.fields import FeedForward, Field, Schedule, SelfAttention
from metastable.flows import flow
from metastable.geometry.sphere import retract
from metastable.learn.training import LeastSquares, Training, train
from metastable.measures import Points

RIDGE = 1e-2  # keeps the first guess finite where paths nearly meet


class Controls(NamedTuple):
    """The control of each piece of depth, stacked along the first axis.

    `query`, `key`, `value` (pieces, d, d) and `outer` (pieces, d, p), `inner` (pieces, p, d),
    `bias` (pieces, p); empty where a plant has no attention or no neurons.
    """

    query: Any
    key: Any
    value: Any
    outer: Any
    inner: Any
    bias: Any


@dataclasses.dataclass(frozen=True)
class Plant:
    """What can be steered, and how: ẋ = drift + V·softmax attention(Qx, Kx) + w tanh(ax + b).

    - `attention`: whether Q, K, V are controls; `neurons`: p, the width of w tanh(ax + b). Without
      attention this is a neural ODE, without neurons it is attention alone.
    - `pieces`: the control is constant on this many equal pieces, so it switches pieces − 1 times.
    - `drift`: a field that acts whether one wants it or not, such as `SelfAttention(beta=4)`.
    - `substeps`: Runge–Kutta steps of order 4 on each piece, while training.
    """

    dim: int
    attention: bool = True
    neurons: int = 4
    pieces: int = 4
    horizon: float = 1.0
    on_sphere: bool = True
    drift: Field | None = None
    substeps: int = 8

    def __post_init__(self) -> None:
        for name, least in (("dim", 1), ("neurons", 0), ("pieces", 1), ("substeps", 1)):
            checks.integer(name, getattr(self, name), least)
        checks.positive("horizon", self.horizon)
        if not self.attention and not self.neurons:
            raise ValueError("a plant needs attention or neurons; got neither: allow one of them.")

    @property
    def switches(self) -> int:
        return self.pieces - 1

    @property
    def step(self) -> float:
        """The length of a Runge–Kutta step."""
        return self.horizon / (self.pieces * self.substeps)

    @property
    def parameters(self) -> int:
        """Numbers in a control; Q and K count as the d² of QᵀK, which is all that acts."""
        d, p = self.dim, self.neurons
        return self.pieces * (2 * d * d * self.attention + p * (2 * d + 1))

    def first(self, seed: int = 0) -> Controls:
        """A control that stands still: V = 0 and w = 0, the rest random, so it is no saddle."""
        d, m, p = self.dim, self.pieces, self.neurons
        keys = jax.random.split(jax.random.key(checks.seed(seed)), 4)
        size = (m, d, d) if self.attention else (m, 0, 0)
        near = lambda key: jnp.eye(size[1]) + 0.5 * jax.random.normal(key, size)
        inner, bias = jax.random.normal(keys[2], (m, p, d)), jax.random.normal(keys[3], (m, p)) / 2
        still = jnp.zeros(size), jnp.zeros((m, d, p))
        return Controls(near(keys[0]), near(keys[1]), *still, inner, bias)

    def guess(self, prompts: Any, targets: Any, seed: int = 0) -> Controls:
        """`first`, with w such that tokens half-way through a piece move along straight paths.

        Least squares for w at random a and b, exact where p ≥ mn; a start from which few steps
        lead to the targets.
        """
        start = self.first(seed)
        if not self.neurons:
            return start
        x, y = (jnp.reshape(jnp.asarray(z), (-1, self.dim)) for z in (prompts, targets))
        path = lambda s: retract((1 - s) * x + s * y) if self.on_sphere else (1 - s) * x + s * y
        outer = []
        for k in range(self.pieces):
            place, velocity = jax.jvp(path, ((k + 0.5) / self.pieces,), (1.0,))
            hidden = jnp.tanh(place @ start.inner[k].T + start.bias[k])  # (mn, p)
            gram = hidden @ hidden.T + RIDGE * jnp.eye(len(place))
            outer.append(jnp.linalg.solve(gram, velocity).T @ hidden / self.horizon)
        return start._replace(outer=jnp.stack(outer))

    def steer(self, control: Controls) -> Field:
        """The field of one piece, without the drift."""
        parts: list[Field] = []
        if self.attention:
            parts.append(SelfAttention(1.0, control.query, control.key, control.value))
        if self.neurons:
            parts.append(FeedForward(control.outer, control.inner, control.bias, jnp.tanh))
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    def field(self, controls: Controls) -> Field:
        """The whole control as a field, for `flow`; its switches are those of the control."""
        pieces = [self.steer(Controls(*leaves)) for leaves in zip(*controls, strict=True)]
        times = (np.arange(1, self.pieces) * self.horizon / self.pieces).tolist()
        steered: Field = Schedule.piecewise(pieces, times)
        return steered if self.drift is None else self.drift + steered


@dataclasses.dataclass(frozen=True)
class LeastNorm:
    """Levenberg–Marquardt where residuals r are fewer than parameters p: δ = −Jᵀ(JJᵀ + λI)⁻¹r.

    The same step as (JᵀJ + λI)⁻¹Jᵀr, from a matrix of the size of r. Three dampings are tried and
    the best is taken, if it is better than to stay; near a solution that is Newton's method.
    """

    residuals: Callable[[Any, Any], Any]

    def loss(self, parameters: Any, batch: Any) -> Any:
        return jnp.sum(self.residuals(parameters, batch) ** 2)

    def init(self, parameters: Any, batch: Any) -> Any:
        return jnp.asarray(1e-2)

    def step(self, parameters: Any, state: Any, batch: Any) -> tuple[Any, Any, Any]:
        flat, restore = ravel_pytree(parameters)
        miss = lambda p: jnp.ravel(self.residuals(restore(p), batch))
        r, back = jax.vjp(miss, flat)
        J = jax.vmap(lambda row: back(row)[0])(jnp.eye(r.size))
        gram = J @ J.T
        scale = jnp.trace(gram) / r.size
        tried = state * jnp.array([0.1, 1.0, 10.0])
        damped = lambda damp: J.T @ jnp.linalg.solve(gram + damp * scale * jnp.eye(r.size), r)
        steps = jax.vmap(damped)(tried)
        losses = jax.vmap(lambda delta: jnp.sum(miss(flat - delta) ** 2))(steps)
        best = jnp.argmin(jnp.where(jnp.isfinite(losses), losses, jnp.inf))
        loss = jnp.sum(r**2)
        better = losses[best] < loss
        moved = jnp.where(better, flat - steps[best], flat)
        state = jnp.maximum(jnp.where(better, tried[best], 30 * state), 1e-12)
        return restore(moved), state, loss


@dataclasses.dataclass(frozen=True, repr=False)
class Steered:
    """A control that was found, and what it does, seen by the adaptive solver at 1e−9.

    - `ends` (m, n, d): where the tokens of each prompt arrive; `errors` (m, n): their distance to
      the targets.
    - `action`: ∫ mean |u|² dt, u the velocity that the control adds to the drift.
    """

    plant: Plant
    controls: Controls
    field: Field
    ends: np.ndarray
    errors: np.ndarray
    action: float
    training: Training

    def __repr__(self) -> str:
        return (
            f"Steered({self.errors.shape[1]} tokens, {self.errors.shape[0]} prompts, "
            f"{self.plant.switches} switches, worst error {self.errors.max():.2g}, "
            f"action {self.action:.4g}; {self.training.outcome})"
        )


def steer_tokens(
    prompts: Any,
    targets: Any,
    plant: Plant,
    *,
    effort: float = 0.0,
    steps: int = 30,
    seed: int = 0,
    **options: Any,
) -> Steered:
    """Find one control that carries every prompt's tokens to its targets.

    Minimises mean |x_i(T) − y_i|² + effort · ∫ mean |u_i|² dt, by Levenberg–Marquardt,
    in the form of `LeastNorm` where there is no effort.

    - `prompts`, `targets`: (n, d), or (m, n, d) for m prompts under the same control.
    - `options`: `checkpoint` and `progress`, as for `train`.
    - With `effort` λ and no drift, the shortest path of a lone token stops λd/(T + λ) before its
      target, d away: keep λ far below the error that is allowed.

    Generic targets of n tokens need at least as many control parameters as coordinates, mn(d − 1)
    on the sphere and mnd in R^d (the image of fewer has measure zero, by Sard's theorem). Neural
    ODEs do it with O(n) switches at p = 1: Ruiz-Balet and Zuazua, arXiv:2104.05278. One control
    for many prompts needs attention: Geshkovski, Rigollet, Ruiz-Balet, arXiv:2411.04551.
    """
    prompts, targets = _batch("prompts", prompts, plant), _batch("targets", targets, plant)
    if prompts.shape != targets.shape:
        raise ValueError(
            f"targets must hold one place per token, shape {prompts.shape}; got {targets.shape}."
        )
    checks.nonnegative("effort", effort)
    method = LeastNorm(lambda controls, data: misses(plant, controls, data[0], data[1], effort))
    if effort:
        solver = optimistix.LevenbergMarquardt(rtol=1e-8, atol=1e-10)
        method = LeastSquares(method.residuals, solver)
    start = plant.guess(prompts, targets, seed)
    options |= {"steps": steps, "every": max(1, steps // 10), "patience": 2, "title": "steering"}
    training = train(start, method, (prompts, targets), **options)
    field = plant.field(training.parameters)
    starts = [Points(x, on_sphere=plant.on_sphere) for x in prompts]
    runs = [flow(start, field, plant.horizon, frames=2, progress=False) for start in starts]
    ends = np.stack([np.asarray(run.frames[-1].points) for run in runs])
    speeds = jax.vmap(lambda x: _path(plant, training.parameters, x)[1])(prompts)
    action = plant.step * float(jnp.sum(speeds**2)) / (prompts.shape[0] * prompts.shape[1])
    errors = np.linalg.norm(ends - np.asarray(targets), axis=-1)
    return Steered(plant, training.parameters, field, ends, errors, action, training)


def misses(plant: Plant, controls: Controls, prompts: Any, targets: Any, effort: float) -> Any:
    """Misses and, where effort counts, velocities: the sum of squares is the training loss."""
    ends, speeds = jax.vmap(lambda x: _path(plant, controls, x))(prompts)
    share = 1.0 / (prompts.shape[0] * prompts.shape[1])
    misses = jnp.sqrt(share) * (ends - targets)
    if not effort:
        return misses
    return misses, jnp.sqrt(effort * plant.step * share) * speeds


def carry(plant: Plant, controls: Controls, prompts: Any) -> Any:
    """Where tokens (m, n, d) arrive, by the Runge–Kutta steps of training; differentiable."""
    return jax.vmap(lambda x: _path(plant, controls, x)[0])(prompts)


def _path(plant: Plant, controls: Controls, x: Any) -> tuple[Any, Any]:
    """The last places (n, d), and the control's velocity at the four stages of each step, such
    that h·Σ|u|² over them is the integral over the step."""
    h = plant.step
    place = retract if plant.on_sphere else lambda x: x
    measure = lambda x: Points(place(x), on_sphere=plant.on_sphere)

    def piece(x, control):
        steer = plant.steer(control)

        def velocity(x):
            u = steer.velocity(measure(x))
            return u, u if plant.drift is None else u + plant.drift.velocity(measure(x))

        def step(x, _):
            u1, k1 = velocity(x)
            u2, k2 = velocity(x + h / 2 * k1)
            u3, k3 = velocity(x + h / 2 * k2)
            u4, k4 = velocity(x + h * k3)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            # Weighted like the stages: with fewer, training would be slow only where it is seen.
            return place(x), jnp.stack([u1, 2**0.5 * u2, 2**0.5 * u3, u4]) / 6**0.5

        return jax.lax.scan(step, x, length=plant.substeps)

    return jax.lax.scan(piece, x, controls)


def _batch(name: str, tokens: Any, plant: Plant) -> Any:
    array = np.asarray(tokens, float)
    array = array[None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[2] != plant.dim or not np.isfinite(array).all():
        raise ValueError(
            f"{name} must be finite of shape (n, {plant.dim}) or (m, n, {plant.dim}); got "
            f"{np.shape(tokens)}."
        )
    if plant.on_sphere and not np.allclose(np.linalg.norm(array, axis=2), 1, atol=1e-6):
        raise ValueError(f"{name} must lie on the unit sphere; got other norms: normalise them.")
    return jnp.asarray(array)
