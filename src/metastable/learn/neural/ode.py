"""Neural ODEs and ResNets as one object at two depths: the flow, and its Euler steps.

ẋ = c(t) tanh(a(t) x + b(t)) on [0, T], or x⁺ = x + (T/L) c tanh(a x + b) for L layers; then a
linear classifier. E, "A proposal on machine learning via dynamical systems" (2017); Chen et al.,
arXiv:1806.07366.
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


def velocity(weights: Weights, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """c tanh(a x + b) at each of the points, for weights of one moment."""
    return jnp.tanh(x @ weights.a.T + weights.b) @ weights.c.T


class Depth(Protocol):
    """How points move through one piece of weights: `ResidualLayers(...)` or `Continuous(...)`."""

    def move(
        self, field: Callable[..., Any], x: Any, weights: Any, span: float, pieces: int
    ) -> Any:
        """States (m, n, d) on the way, the last one at the end of the piece."""
        ...


@dataclasses.dataclass(frozen=True)
class ResidualLayers:
    """A ResNet: `count` layers per stage, shared evenly by its pieces; every layer is a state."""

    count: int

    def move(
        self, field: Callable[..., Any], x: Any, weights: Any, span: float, pieces: int
    ) -> Any:
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

    def move(
        self, field: Callable[..., Any], x: Any, weights: Any, span: float, pieces: int
    ) -> Any:
        import diffrax

        backsolve = self.adjoint == "backsolve"
        return diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, x, weights: field(t / span, x, weights)),  # pyright: ignore[reportArgumentType]
            diffrax.Tsit5(),
            0.0,
            span,
            None,
            x,
            weights,
            saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, span, self.frames + 1)[1:]),
            stepsize_controller=diffrax.PIDController(rtol=self.tolerance, atol=self.tolerance),
            adjoint=diffrax.BacksolveAdjoint()
            if backsolve
            else diffrax.RecursiveCheckpointAdjoint(),
            throw=False,  # a solve that fails is a loss that is not finite, which training reports
        ).ys


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
    w = network.neurons
    stages = tuple(
        Weights(
            jax.random.normal(next(keys), (nodes, w, d)) / d**0.5,
            jnp.zeros((nodes, w)),
            jax.random.normal(next(keys), (nodes, d, w)) / w**0.5,
        )
        for d in network.widths
    )
    d = network.widths[-1]
    matrix = jax.random.normal(next(keys), (classes, d)) / d**0.5
    return Classifier(stages, matrix, jnp.zeros(classes))


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


def class_scores(
    parameters: Classifier, x: Float[Array, "n d0"], network: FlowNet, depth: Depth | None = None
) -> Float[Array, "n k"]:
    """One number for each class; the largest is the answer."""
    return final_state(parameters, x, network, depth) @ parameters.matrix.T + parameters.offset


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
        found = state @ parameters.matrix.T + parameters.offset
        if loss == "squares":
            goal = jax.nn.one_hot(labels, found.shape[-1])
            each = 0.5 * jnp.sum((found - goal) ** 2, axis=-1)
        else:
            each = optax.softmax_cross_entropy_with_integer_labels(found, labels)
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
