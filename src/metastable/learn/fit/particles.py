"""A particle model fitted to observed tokens: how much of their motion is self-attention?"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.fields import SelfAttention
from metastable.fields.field import Places
from metastable.fields.sums import Dense
from metastable.geometry.sphere import retract
from metastable.learn.training import Training, adam, train
from metastable.measures import Points


class States(NamedTuple):
    """Observed prompts: `tokens` (prompts, layers + 1, n, d) on the sphere, `mask` (prompts, n).

    Prompts of fewer tokens are filled up; what is filled has mask 0, and no one sees it.
    """

    tokens: Any
    mask: Any


class LowRank(NamedTuple):
    """V = scale·I + left rightᵀ, of shapes (), (d, r), (d, r)."""

    scale: Any
    left: Any
    right: Any

    def act(self, x: Any) -> Any:
        return self.scale * x + (x @ self.right) @ self.left.T


class Particles(NamedTuple):
    """One layer: x⁺ = (x + τ_k (V A_β(x) + W x))/‖·‖, with A_β plain softmax attention.

    `log_beta` (), `clock` τ (layers,), `value` V and `own` W, both operators.
    """

    log_beta: Any
    clock: Any
    value: LowRank
    own: LowRank


@dataclasses.dataclass(frozen=True)
class Family:
    """Which particle models are tried.

    - `value`: V is "none", "identity", "scalar" or "low rank".
    - `own`: whether a map W of each token by itself, of low rank, is there too. With V "none" it
      is the same model without attention: what that explains is no interaction.
    - `beta`: None is fitted; 0 is the plain mean of the tokens.
    - `rank` of the low-rank maps; `steady`: one clock for all layers.
    """

    value: str = "low rank"
    own: bool = False
    beta: float | None = None
    rank: int = 16
    steady: bool = False

    def __post_init__(self) -> None:
        kinds = ("none", "identity", "scalar", "low rank")
        if self.value not in kinds:
            raise ValueError(f"value must be one of {', '.join(kinds)}; got {self.value!r}.")
        checks.integer("rank", self.rank, 1)

    def first(self, dim: int, layers: int, start: float, seed: int = 0) -> Particles:
        """Where a fit begins: β = `start`, V = I, a slow clock, and small random maps."""
        keys = jax.random.split(jax.random.key(checks.seed(seed)), 4)
        draw = lambda k: jax.random.normal(keys[k], (dim, self.rank)) / np.sqrt(dim)
        maps = [LowRank(jnp.asarray(1.0 - k), 0.1 * draw(k), draw(k + 2)) for k in (0, 1)]
        clock = jnp.full(1 if self.steady else layers, 0.1)
        return Particles(jnp.log(jnp.asarray(float(start))), clock, *maps)

    def restrict(self, fitted: Particles) -> Particles:
        """What the family leaves free; the rest is set."""
        log_beta, clock, value, own = fitted
        flat = jnp.zeros_like(value.left)
        scales = {"none": jnp.zeros(()), "identity": jnp.ones(()), "scalar": value.scale}
        if self.value in scales:
            value = LowRank(scales[self.value], flat, value.right)
        if not self.own:
            own = LowRank(jnp.zeros(()), flat, own.right)
        if self.value == "identity":
            clock = jnp.abs(clock)
        if self.beta is not None:
            log_beta = jax.lax.stop_gradient(jnp.log(jnp.maximum(self.beta, 1e-12)))
        return Particles(log_beta, clock, value, own)


def stack_states(runs: Sequence[Any]) -> States:
    """Trajectories on the sphere, of equally many frames, as one array with a mask."""
    arrays = [np.stack([np.asarray(frame.points) for frame in run.frames]) for run in runs]
    frames = sorted({a.shape[0] for a in arrays})
    if len(frames) != 1:
        raise ValueError(f"runs must have equally many frames; got {frames}.")
    most = max(a.shape[1] for a in arrays)
    tokens = np.zeros((len(arrays), arrays[0].shape[0], most, arrays[0].shape[2]))
    tokens[..., 0] = 1.0  # any point of the sphere: no one sees it
    mask = np.zeros((len(arrays), most))
    for k, a in enumerate(arrays):
        tokens[k, :, : a.shape[1]], mask[k, : a.shape[1]] = a, 1.0
    return States(jnp.asarray(tokens), jnp.asarray(mask))


def predict_layers(family: Family, fitted: Particles, states: States, rollout: bool = False) -> Any:
    """States after each layer, (prompts, layers, n, d): from the observed state before it, or, as a
    `rollout`, from the first state alone."""
    model = family.restrict(fitted)
    tokens = jnp.moveaxis(states.tokens, 1, 0)  # layers first
    clock = jnp.broadcast_to(model.clock, (tokens.shape[0] - 1,))
    step = jax.vmap(_layer, in_axes=(None, None, 0, 0))
    if rollout:

        def advance(x, tau):
            x = step(model, tau, x, states.mask)
            return x, x

        return jnp.moveaxis(jax.lax.scan(advance, tokens[0], clock)[1], 0, 1)
    each = jax.lax.map(lambda at: step(model, at[0], at[1], states.mask), (clock, tokens[:-1]))
    return jnp.moveaxis(each, 0, 1)


def prediction_loss(family: Family, fitted: Particles, states: States) -> Any:
    """Mean over tokens and layers of |x̂ − x|², each layer from the observed state before it."""
    return jnp.mean(squared_errors(predict_layers(family, fitted, states), states))


def squared_errors(predicted: Any, states: States) -> Any:
    """Mean over tokens of |x̂ − x|²: (prompts, layers)."""
    gaps = jnp.sum((predicted - states.tokens[:, 1:]) ** 2, axis=-1)
    mask = states.mask[:, None, :]
    return jnp.sum(gaps * mask, axis=-1) / jnp.sum(mask, axis=-1)


def fit_particles(
    states: States,
    family: Family,
    *,
    steps: int = 200,
    rate: float = 0.02,
    batch: int = 2,
    start: float = 4.0,
    seed: int = 0,
    **options: Any,
) -> Training:
    """Fit a particle model to observed layers by Adam, `batch` prompts a step.

    The parameters are `Particles`; `family.restrict` says which of them count. The loss has more
    than one valley in β: try several values of `start`. `options` are `validation`, `checkpoint`
    and `progress`, as for `train`.
    """
    count = states.mask.shape[0]
    checks.integer("batch", batch, 1)

    def draw(data, key, step):
        some = jax.random.choice(jax.random.fold_in(key, step), count, (min(batch, count),), False)
        return jax.tree.map(lambda leaf: leaf[some], data)

    first = family.first(states.tokens.shape[3], states.tokens.shape[1] - 1, start, seed)
    loss = lambda fitted, some: prediction_loss(family, fitted, some)
    options |= {"every": max(1, steps // 10), "seed": seed, "title": f"V {family.value}"}
    method = adam(loss, rate, steps, final=0.05)
    return train(first, method, states, steps=steps, draw=draw, **options)


def fit_linear(
    states: States, ridge: float = 1e-3, rounds: int = 10
) -> tuple[np.ndarray, np.ndarray]:
    """The best linear map of each token by itself: x⁺ = (x + τ_k M x)/‖·‖; returns M and τ.

    Least squares for M at given τ and for τ at given M, in turn; `ridge` relative to the mean
    eigenvalue of the Gram matrix. The baseline without interaction, of full rank.
    """
    kept = np.asarray(states.mask) > 0
    tokens = np.asarray(states.tokens)
    x = [tokens[:, k][kept] for k in range(tokens.shape[1])]
    # Only the direction of x⁺ is seen: its length is chosen to make the increment tangent.
    goals = [b / np.sum(a * b, 1, keepdims=True).clip(0.1) - a for a, b in itertools.pairwise(x)]
    tau = np.ones(len(goals))
    grams = [a.T @ a for a in x[:-1]]
    crosses = [g.T @ a for g, a in zip(goals, x, strict=False)]
    for _ in range(rounds):
        gram = np.sum([t * t * g for t, g in zip(tau, grams, strict=True)], axis=0)
        cross = np.sum([t * c for t, c in zip(tau, crosses, strict=True)], axis=0)
        damp = ridge * np.trace(gram) / len(gram) * np.eye(len(gram))
        M = np.linalg.solve(gram + damp, cross.T).T
        pairs = zip(crosses, grams, strict=True)
        tau = np.array([np.sum(M * c) / np.sum((M @ g) * M) for c, g in pairs])
    return M, tau


def predict_linear(M: np.ndarray, tau: np.ndarray, states: States, rollout: bool = False) -> Any:
    """What `fit_linear` predicts, as `predict_layers` does."""
    tokens = np.asarray(states.tokens)
    states_after, x = [], tokens[:, 0]
    for k, t in enumerate(tau):
        x = x if rollout else tokens[:, k]
        x = x + t * x @ M.T
        x = x / np.linalg.norm(x, axis=-1, keepdims=True)
        states_after.append(x)
    return np.stack(states_after, 1)


def noise(predicted: Any, states: States) -> np.ndarray:
    """κ of each layer, if what is left were noise dX = √(2/κ) dW over a time of one: (layers,).

    A tangent Gaussian of E|ξ|² = 2(d − 1)/κ; the residual is small, so chords stand for arcs.
    """
    left = np.asarray(jnp.mean(squared_errors(predicted, states), axis=0))
    return 2 * (states.tokens.shape[3] - 1) / np.maximum(left, 1e-300)


def _layer(model: Particles, tau: Any, x: Any, mask: Any) -> Any:
    measure = Points(x, weights=mask)
    attention = SelfAttention(jnp.exp(model.log_beta))
    mean = attention.drift(measure, Places(measure.points, None, own=False), 0.0, Dense())
    return retract(x + tau * (model.value.act(mean) + model.own.act(x)))
