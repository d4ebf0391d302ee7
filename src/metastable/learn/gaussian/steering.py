"""Steering one Gaussian to another by attention whose matrices change from layer to layer."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import optax

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.fields import Schedule, SelfAttention
from metastable.flows.affine import affine_velocity
from metastable.flows.gaussian_layers import gaussian_layers
from metastable.flows.trajectory import Trajectory
from metastable.learn.training import Gradient, Training, train
from metastable.measures.gaussian import Gaussian

__all__ = ["Controls", "Steering", "bures_wasserstein", "steer"]


class Controls(NamedTuple):
    """The matrices of each layer: `value` A and `score` P, both (layers, d, d); v = A(m + ΣPx)."""

    value: Any
    score: Any


@dataclasses.dataclass(frozen=True, repr=False)
class Steering:
    """A path from one Gaussian to another.

    - `run`: the path, one frame per layer, over the time 0 to 1; `field` moves it, and moves tokens
      as well.
    - `distances` (layers + 1,): Bures–Wasserstein distance to the goal along the path.
    - `action`: ∫ E|v|² dt, never below the squared distance between the two ends of the path, and
      equal to it along a geodesic.
    """

    run: Trajectory[Gaussian]
    field: Schedule
    distances: np.ndarray
    action: float
    training: Training

    def __repr__(self) -> str:
        return (
            f"Steering({self.distances.size - 1} layers, distance {self.distances[0]:.3g} → "
            f"{self.distances[-1]:.3g}, action {self.action:.6g}; {self.training.outcome})"
        )


def bures_wasserstein(first: Gaussian, second: Gaussian) -> float:
    """The 2-Wasserstein distance of two Gaussians, from their factors.

    W₂² = |m − m′|² + min_R ‖LR − L′‖²_F over orthogonal R, which is Bures' formula without matrix
    roots, and does not cancel when the two are close. Source: olkin1982distance.

    >>> one, other = Gaussian([0.0, 0.0], np.eye(2)), Gaussian([3.0, 0.0], np.diag([1.0, 25.0]))
    >>> bures_wasserstein(one, other)
    5.0
    """
    return float(
        jnp.sqrt(jnp.sum(_gap(first.mean, _square(first), second.mean, _square(second)) ** 2))
    )


def _gap(mean: Any, factor: Any, goal_mean: Any, goal_factor: Any) -> Any:
    """A vector whose length is the distance of N(m, LLᵀ) from the goal."""
    # The best rotation is found without derivatives: at a minimum they do not matter.
    u, _, v = jnp.linalg.svd(jax.lax.stop_gradient(factor.T @ goal_factor))
    return jnp.concatenate([mean - goal_mean, jnp.ravel(factor @ (u @ v) - goal_factor)])


def _square(measure: Gaussian) -> Any:
    """A factor with d columns."""
    missing = measure.dim - measure.factor.shape[1]
    if missing < 0:
        return jnp.linalg.qr(measure.factor.T, mode="r").T
    return jnp.pad(measure.factor, ((0, 0), (0, missing)))


def steer(
    start: Gaussian,
    goal: Gaussian,
    layers: int = 8,
    effort: float = 0.0,
    steps: int = 3000,
    checkpoint: str | Path | None = None,
) -> Steering:
    """Learn matrices A_t, P_t of `layers` attention layers that carry `start` to `goal`.

    Minimises W₂²(end, goal) + effort · ∫E|v|²dt by L-BFGS, through the exact layer
    Σ⁺ = (I + εAΣP)Σ(I + εAΣP)ᵀ with ε = 1/layers.

    A layer is an affine map, so it cannot raise the rank of a covariance, and lowers it only where
    I + εB is singular: the ranks must be equal. A centred Gaussian stays centred, since
    v(m) = A(I + ΣP)m: a start with mean 0 needs such a goal.

    With `effort` λ > 0 the best path runs along the Bures–Wasserstein geodesic and stops at the
    distance λW₂/(1 + λ) from the goal, with the action W₂²/(1 + λ)². Derived here (the cost of a
    path between fixed ends is at least their squared distance); the tests hold runs against it.
    """
    checks.instance("start", start, Gaussian, "Gaussian(...)")
    checks.instance("goal", goal, Gaussian, "Gaussian(...)")
    checks.integer("layers", layers, 1)
    checks.nonnegative("effort", effort)
    if start.dim != goal.dim or start.rank() != goal.rank():
        raise ValueError(
            "goal must have the dimension and the rank of the start, which attention cannot "
            f"change; got dimension {goal.dim} and rank {goal.rank()} against {start.dim} and "
            f"{start.rank()}: choose another goal."
        )
    if not np.any(start.mean) and np.any(goal.mean):
        raise ValueError(
            "goal must have mean 0 like the start, since attention leaves a centred Gaussian "
            f"centred; got {np.asarray(goal.mean).tolist()}: shift the start."
        )
    ends = [(measure.mean, _thin(measure)) for measure in (start, goal)]
    # Not Gauss–Newton: along the directions that only the effort sees, what it drops is as large as
    # what it keeps.
    method = Gradient(_cost(1.0 / layers, float(effort)), optax.lbfgs(memory_size=30))
    first = _first(start, layers)
    training = train(
        first,
        method,
        ends,
        steps=steps,
        every=100,
        patience=4,
        checkpoint=checkpoint,
        title="steering",
    )
    return _follow(start, goal, training, layers)


def _first(start: Gaussian, layers: int) -> Controls:
    # A = 0 stands still; P is of the size that makes ΣP of order one. Both zero would be a saddle.
    scale = start.rank() / jnp.sum(start.factor**2)
    shape = (layers, start.dim, start.dim)
    return Controls(jnp.zeros(shape), jnp.broadcast_to(scale * jnp.eye(start.dim), shape))


def _thin(measure: Gaussian) -> Any:
    """A factor with as many columns as the rank, so that the rank is kept by construction."""
    u, s, _ = np.linalg.svd(np.asarray(measure.factor), full_matrices=False)
    return jnp.asarray((u * s)[:, : measure.rank()])


def _cost(step: float, effort: float) -> Any:
    def cost(controls: Controls, ends: Any) -> Any:
        def layer(state, control):
            mean, factor = state
            moved, spread = _velocity(control, mean, factor)
            speed = jnp.sum(moved**2) + jnp.sum(spread**2)
            return (mean + step * moved, factor + step * spread), speed

        last, speeds = jax.lax.scan(layer, ends[0], controls)
        return jnp.sum(_gap(*last, *ends[1]) ** 2) + effort * step * jnp.sum(speeds)

    return cost


def _velocity(control: Controls, mean: Any, factor: Any) -> tuple[Any, Any]:
    """Velocities of the mean and of the factor."""
    offset, linear = affine_velocity(_head(control), mean, factor, 0.0)
    return offset + linear @ mean, linear @ factor


def _head(control: Controls) -> SelfAttention:
    return SelfAttention(1.0, query=control.score, value=control.value)


def _follow(start: Gaussian, goal: Gaussian, training: Training, layers: int) -> Steering:
    controls = [Controls(a, p) for a, p in zip(*training.parameters, strict=True)]
    times = (np.arange(1, layers) / layers).tolist()
    field = Schedule.piecewise([_head(control) for control in controls], times)
    run = gaussian_layers(start, field, depth=layers, step=1.0 / layers)
    speeds = [
        sum(jnp.sum(part**2) for part in _velocity(control, frame.mean, frame.factor))
        for control, frame in zip(controls, run.frames, strict=False)
    ]
    distances = np.array([bures_wasserstein(frame, goal) for frame in run.frames])
    return Steering(run, field, distances, float(sum(speeds)) / layers, training)
