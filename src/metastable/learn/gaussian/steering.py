"""Steering one Gaussian to another by attention whose matrices change from layer to layer."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import optax

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.core.result import Answer
from metastable.fields import Schedule, SelfAttention
from metastable.flows import Layers, flow
from metastable.flows.solvers.affine import affine_velocity
from metastable.flows.trajectory import Trajectory
from metastable.learn.curves import Curves, make_answer
from metastable.learn.spec import GaussianSteering
from metastable.learn.training import Gradient, Training, last, options_in, train
from metastable.measures.gaussian import Gaussian
from metastable.observe.distances import bures_wasserstein


class LayerMatrices(NamedTuple):
    """The matrices of each layer: `value` A and `score` P, both (layers, d, d); v = A(m + ΣPx)."""

    value: Any
    score: Any


@dataclasses.dataclass(frozen=True, repr=False)
class GaussianPath:
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
            f"GaussianPath({self.distances.size - 1} layers, distance {self.distances[0]:.3g} → "
            f"{self.distances[-1]:.3g}, action {self.action:.6g}; {self.training.outcome})"
        )


def _gap(mean: Any, factor: Any, goal_mean: Any, goal_factor: Any) -> Any:
    """A vector whose length is the distance of N(m, LLᵀ) from the goal."""
    # The best rotation is found without derivatives: at a minimum they do not matter.
    u, _, v = jnp.linalg.svd(jax.lax.stop_gradient(factor.T @ goal_factor))
    return jnp.concatenate([mean - goal_mean, jnp.ravel(factor @ (u @ v) - goal_factor)])


def steer(
    start: Gaussian,
    goal: Gaussian,
    layers: int = 8,
    effort: float = 0.0,
    steps: int = 3000,
    **options: Any,
) -> GaussianPath:
    """Learn matrices A_t, P_t of `layers` attention layers that carry `start` to `goal`.

    Minimises W₂²(end, goal) + effort · ∫E|v|²dt by L-BFGS, through the exact layer
    Σ⁺ = (I + εAΣP)Σ(I + εAΣP)ᵀ with ε = 1/layers.

    A layer is an affine map, so it cannot raise the rank of a covariance, and lowers it only where
    I + εB is singular: the ranks must be equal. A centred Gaussian stays centred, since
    v(m) = A(I + ΣP)m: a start with mean 0 needs such a goal.

    With `effort` λ > 0 the best path runs along the Bures–Wasserstein geodesic and stops at the
    distance λW₂/(1 + λ) from the goal, with the action W₂²/(1 + λ)². Derived here (the cost of a
    path between fixed ends is at least their squared distance); the tests hold runs against it.

    `options`: `checkpoint` and `progress`, as for `train`.
    """
    for name, measure in (("start", start), ("goal", goal)):
        checks.instance(name, measure, Gaussian, "Gaussian(...)")
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
    # A = 0 stands still; P is of the size that makes ΣP of order one. Both zero would be a saddle.
    scale, shape = start.rank() / jnp.sum(start.factor**2), (layers, start.dim, start.dim)
    still = LayerMatrices(jnp.zeros(shape), jnp.broadcast_to(scale * jnp.eye(start.dim), shape))
    options |= {"steps": steps, "every": 100, "patience": 4, "title": "steering"}
    return _follow(start, goal, train(still, method, ends, **options), layers)


def learn_path(
    spec: GaussianSteering, checkpoint: Path | None = None, progress: bool | None = None
) -> Answer:
    """Carry out a `GaussianSteering`: its path beside the geodesic."""
    dim, effort = spec.dim, spec.effort
    rank = dim if spec.rank is None else spec.rank
    random = np.random.default_rng(spec.seed)

    def draw() -> Gaussian:
        mean, factor = random.standard_normal(dim), random.standard_normal((dim, dim))
        return Gaussian.from_factor(mean, (np.eye(dim) + factor / 2)[:, :rank])

    start, goal = draw(), draw()
    options = options_in(checkpoint, "training", progress)
    path = steer(start, goal, spec.layers, effort, spec.steps, **options)
    whole = bures_wasserstein(start, goal)
    facts = {
        "dimension d": dim,
        "rank": rank,
        "layers": spec.layers,
        "effort λ": effort,
        "seed": spec.seed,
        "distance at the start": whole,
        "distance at the end": float(path.distances[-1]),
        "λW/(1+λ)": effort * whole / (1 + effort),
        "action": path.action,
        "W²/(1+λ)²": (whole / (1 + effort)) ** 2,
        "seconds in steps": last(path.training.seconds),
    }
    times = np.asarray(path.run.times)
    straight = whole * (1 - times / (1 + effort))
    lines = {"learned path": (times, path.distances), "geodesic": (times, straight)}
    caption = "Bures–Wasserstein distance to the goal along the path."
    figures = {"distance": Curves("depth t", "distance to the goal", lines, caption=caption)}
    sentence = (
        f"One Gaussian carried to another by {spec.layers} layers: distance {whole:.3g} to "
        f"{path.distances[-1]:.3g}, action {path.action:.4g}."
    )
    return make_answer(sentence, facts, figures, path.training.outcome)


def _thin(measure: Gaussian) -> Any:
    """A factor with as many columns as the rank, so that the rank is kept by construction."""
    u, s, _ = np.linalg.svd(np.asarray(measure.factor), full_matrices=False)
    return jnp.asarray((u * s)[:, : measure.rank()])


def _cost(step: float, effort: float) -> Any:
    def cost(controls: LayerMatrices, ends: Any) -> Any:
        def layer(state, control):
            mean, factor = state
            moved, spread = _velocity(control, mean, factor)
            speed = jnp.sum(moved**2) + jnp.sum(spread**2)
            return (mean + step * moved, factor + step * spread), speed

        last, speeds = jax.lax.scan(layer, ends[0], controls)
        return jnp.sum(_gap(*last, *ends[1]) ** 2) + effort * step * jnp.sum(speeds)

    return cost


def _velocity(control: LayerMatrices, mean: Any, factor: Any) -> tuple[Any, Any]:
    """Velocities of the mean and of the factor."""
    offset, linear = affine_velocity(_head(control), mean, factor, 0.0)
    return offset + linear @ mean, linear @ factor


def _head(control: LayerMatrices) -> SelfAttention:
    return SelfAttention(1.0, query=control.score, value=control.value)


def _follow(start: Gaussian, goal: Gaussian, training: Training, layers: int) -> GaussianPath:
    controls = [LayerMatrices(a, p) for a, p in zip(*training.parameters, strict=True)]
    times = (np.arange(1, layers) / layers).tolist()
    field = Schedule.piecewise([_head(control) for control in controls], times)
    run = flow(start, field, 1.0, stepper=Layers(1.0 / layers), frames=layers + 1)
    speeds = [
        sum(jnp.sum(part**2) for part in _velocity(control, frame.mean, frame.factor))
        for control, frame in zip(controls, run.frames, strict=False)
    ]
    distances = np.array([bures_wasserstein(frame, goal) for frame in run.frames])
    return GaussianPath(run, field, distances, float(sum(speeds)) / layers, training)
