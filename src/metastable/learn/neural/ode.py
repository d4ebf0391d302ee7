"""Neural ODEs and ResNets as one object at two depths: the flow, and its Euler steps.

ẋ = c(t) tanh(a(t) x + b(t)) on [0, T], or x⁺ = x + (T/L) c tanh(a x + b) for L layers; then a
linear classifier. E, "A proposal on machine learning via dynamical systems" (2017); Chen et al.,
arXiv:1806.07366.

Weights drawn anew for each layer: x_{l+1} = x_l + (T/L) f_{θ_l}(x_l) with independent θ_l tends to
ẋ = E f_θ(x) as L → ∞: noise of size 1/√L averages out. Derived here, as for any stochastic
approximation; checked by sampling.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

from jaxtyping import Array, Float

from metastable.core.numerics import jax, jnp
from metastable.learn.spec import FlowNet


class Weights(NamedTuple):
    """Weights of one stage: a (p, w, d), b (p, w), c (p, d, w), one for each piece or node."""

    a: Array
    b: Array
    c: Array


class Classifier(NamedTuple):
    """Stages of a network, and the linear map that reads the classes off its last state."""

    stages: tuple[Weights, ...]
    matrix: Array
    offset: Array

    def scores(self, state: Any) -> Any:
        """One number for each class at states (n, d); the largest is the answer."""
        return state @ self.matrix.T + self.offset


def velocity(weights: Weights, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """c tanh(a x + b) at each of the points, for weights of one moment."""
    return jnp.tanh(x @ weights.a.T + weights.b) @ weights.c.T


Moving = Callable[..., Any]  # velocity at (share of the piece, points, weights)


class Depth(Protocol):
    """How points move through one piece of weights: `ResidualLayers(...)` or `Continuous(...)`."""

    def move(self, field: Moving, x: Any, weights: Any, span: float, pieces: int) -> Any:
        """States (m, n, d) on the way, the last one at the end of the piece."""
        ...


@dataclasses.dataclass(frozen=True)
class ResidualLayers:
    """A ResNet: `count` layers per stage, shared evenly by its pieces; every layer is a state."""

    count: int

    def move(self, field: Moving, x: Any, weights: Any, span: float, pieces: int) -> Any:
        if self.count % pieces:
            raise ValueError(
                f"layers must be a multiple of the {pieces} pieces of weights; got {self.count}: "
                "choose another number."
            )
        steps = self.count // pieces

        def layer(x, k):
            x = x + span / steps * field(k / steps, x, weights)
            return x, x

        return jax.lax.scan(layer, x, jnp.arange(steps))[1]


@dataclasses.dataclass(frozen=True)
class Continuous:
    """The flow, by Tsit5 with adaptive steps; `frames` states per piece.

    Gradients come from diffrax: "checkpoints" differentiates the steps that were taken, some of
    which it takes again; "backsolve" solves the adjoint equation backwards, in constant memory and
    with an error of the tolerance.
    """

    tolerance: float = 1e-4
    adjoint: Literal["checkpoints", "backsolve"] = "checkpoints"
    frames: int = 1

    def move(self, field: Moving, x: Any, weights: Any, span: float, pieces: int) -> Any:
        import diffrax

        checkpoints, backsolve = diffrax.RecursiveCheckpointAdjoint, diffrax.BacksolveAdjoint
        adjoint = backsolve() if self.adjoint == "backsolve" else checkpoints()
        steps = diffrax.PIDController(rtol=self.tolerance, atol=self.tolerance)
        how: dict[str, Any] = {
            "saveat": diffrax.SaveAt(ts=jnp.linspace(0.0, span, self.frames + 1)[1:]),
            "stepsize_controller": steps,
            "adjoint": adjoint,
            "throw": False,  # a solve that fails is a loss that is not finite: training reports it
        }
        term: Any = diffrax.ODETerm(lambda t, x, weights: field(t / span, x, weights))
        return diffrax.diffeqsolve(term, diffrax.Tsit5(), 0.0, span, None, x, weights, **how).ys


def depth_of(network: FlowNet) -> Depth:
    """The depth a spec asks for."""
    if network.layers is not None:
        return ResidualLayers(network.layers)
    return Continuous(network.tolerance, network.adjoint)


def resize(x: Array, dim: int) -> Array:
    """The coordinate projector R^d → R^dim: drop the last coordinates, or append zeros."""
    missing = dim - x.shape[-1]
    if missing <= 0:
        return x[..., :dim]
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)])


def initial_classifier(network: FlowNet, classes: int, seed: int) -> Classifier:
    """Random weights: a of variance 1/d, c of variance 1/w, both offsets zero."""
    nodes = network.pieces + (network.path == "linear")
    keys = iter(jax.random.split(jax.random.key(seed), 2 * len(network.widths) + 1))
    w, d = network.neurons, network.widths[-1]
    draw = lambda *shape: jax.random.normal(next(keys), shape) / shape[-1] ** 0.5
    stage = lambda d: Weights(draw(nodes, w, d), jnp.zeros((nodes, w)), draw(nodes, d, w))
    return Classifier(tuple(map(stage, network.widths)), draw(classes, d), jnp.zeros(classes))


def trace(
    parameters: Classifier, x: Float[Array, "n d0"], network: FlowNet, depth: Depth | None = None
) -> Float[Array, "m n d"]:
    """States through all stages, the first of them x; narrow ones are padded with zeros."""
    depth = depth_of(network) if depth is None else depth
    widest = max(x.shape[-1], *network.widths)
    states = [resize(x, widest)[None]]
    for weights, width in zip(parameters.stages, network.widths, strict=True):
        x = resize(x, width)
        for part in _stage(weights, x, network, depth):
            states.append(resize(part, widest))
            x = part[-1]
    return jnp.concatenate(states)


def final_state(
    parameters: Classifier, x: Float[Array, "n d0"], network: FlowNet, depth: Depth | None = None
) -> Float[Array, "n d"]:
    """The state at the end of the last stage, which the classifier reads."""
    depth = depth_of(network) if depth is None else depth
    for weights, width in zip(parameters.stages, network.widths, strict=True):
        x = _stage(weights, resize(x, width), network, depth)[-1, -1]
    return x


def classification_loss(
    network: FlowNet, loss: str = "cross_entropy", decay: float = 0.0, depth: Depth | None = None
) -> Callable[[Classifier, tuple[Array, Array]], Array]:
    """The mean loss of a batch (x, labels), plus (decay/2)(‖W‖² + ‖b‖² + mean ‖features‖²).

    "cross_entropy", or "squares": half the squared distance of the logits from 0 and 1. With
    decay on classifier and features, and features free to lie anywhere, every global minimum is a
    full neural collapse (Zhu et al., arXiv:2105.02375); decay on the weights of the flow would
    prefer small motions to collapsed classes.
    """

    def objective(parameters: Classifier, batch: tuple[Array, Array]) -> Array:
        import optax

        x, labels = batch
        state = final_state(parameters, x, network, depth)
        scores = parameters.scores(state)
        if loss == "squares":
            goal = jax.nn.one_hot(labels, scores.shape[-1])
            each = 0.5 * jnp.sum((scores - goal) ** 2, axis=-1)
        else:
            each = optax.softmax_cross_entropy_with_integer_labels(scores, labels)
        size = jnp.sum(parameters.matrix**2) + jnp.sum(parameters.offset**2)
        size += jnp.mean(jnp.sum(state**2, axis=-1))
        return jnp.mean(each) + 0.5 * decay * size

    return objective


def _stage(weights: Weights, x: Array, network: FlowNet, depth: Depth) -> Array:
    """States (pieces, m, n, d) of one stage."""
    linear = network.path == "linear"
    pieces = network.pieces
    span = network.horizon / pieces
    here = jax.tree.map(lambda leaf: leaf[:pieces], weights)
    there = jax.tree.map(lambda leaf: leaf[1:], weights) if linear else None

    def field(share, x, nodes):
        left, right = nodes
        if right is not None:
            left = jax.tree.map(lambda u, v: (1 - share) * u + share * v, left, right)
        return velocity(left, x)

    def piece(x, nodes):
        states = depth.move(field, x, nodes, span, pieces)
        return states[-1], states

    return jax.lax.scan(piece, x, (here, there))[1]


def split_neurons(weights: Weights, groups: int) -> Weights:
    """The neurons in `groups` groups, each `groups` times as strong: their average is all of them.

    a (p, w, d) becomes (p, g, w/g, d), and so on: a layer that draws one group at a time has the
    whole network as its mean.
    """
    p, w, d = weights.a.shape
    if w % groups:
        raise ValueError(f"groups must divide the {w} neurons; got {groups}: choose a divisor.")
    return Weights(
        weights.a.reshape(p, groups, w // groups, d),
        weights.b.reshape(p, groups, w // groups),
        groups * jnp.moveaxis(weights.c.reshape(p, d, groups, w // groups), 1, 2),
    )


def resampled_layers(
    pool: Weights, x: Float[Array, "n d"], horizon: float, layers: int, key: Any
) -> Float[Array, "n d"]:
    """The last state of a ResNet that draws the weights of each layer from a pool (p, g, …)."""
    pieces, groups = pool.b.shape[:2]
    drawn = jax.random.randint(key, (layers,), 0, groups)

    def layer(x, here):
        piece, group = here
        weights = jax.tree.map(lambda leaf: leaf[piece, group], pool)
        return x + horizon / layers * velocity(weights, x), None

    return jax.lax.scan(layer, x, (jnp.arange(layers) * pieces // layers, drawn))[0]


def average_and_spread(
    pool: Weights, x: Float[Array, "n d"], horizon: float, tolerance: float = 1e-9
) -> tuple[Float[Array, "n d"], Float[Array, "n d d"]]:
    """Where the average flow takes each point, and the matrix S of the noise around it.

    ẋ = f̄(x), Ṡ = JS + SJᵀ + Cov_θ f_θ(x) with J = ∂f̄/∂x: the last state of L layers is close to a
    Gaussian of mean x(T) and covariance (T/L) S(T).
    """
    pieces = pool.b.shape[0]

    def all_velocities(weights, x):
        return jax.vmap(lambda group: velocity(group, x[None])[0])(weights)  # (g, d)

    def field(_, state, weights):
        def at_point(x, S):
            f = all_velocities(weights, x)
            centred = f - f.mean(axis=0)
            J = jax.jacfwd(lambda x: all_velocities(weights, x).mean(axis=0))(x)
            return f.mean(axis=0), J @ S + S @ J.T + centred.T @ centred / len(f)

        return jax.vmap(at_point)(*state)

    def piece(state, weights):
        states = Continuous(tolerance).move(field, state, weights, horizon / pieces, pieces)
        return jax.tree.map(lambda leaf: leaf[-1], states), None

    start = x, jnp.zeros((*x.shape, x.shape[-1]))
    return jax.lax.scan(piece, start, pool)[0]
