"""A transformer on measures, trained at one number of tokens and used at any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.core.progress import Bar
from metastable.learn.training import Gradient, Training, train
from metastable.measures import Points

from ._in_context_maps import InContextMap, MultiHeadAttention, Perceptron
from ._scalar_sum import ScalarSum

__all__ = [
    "Generalization",
    "MeasureTransformer",
    "draw_measure",
    "generalization",
    "mean_spread_distance",
    "train_on_measures",
]

Target = Callable[[Array, Array, Array], Array]


class Layer(eqx.Module):
    """H heads with d_k = d_v = 1 on R^p, then a perceptron to R^q with one hidden layer."""

    query: Float[Array, "heads 1 p"]
    key: Float[Array, "heads 1 p"]
    value: Float[Array, "heads 1 p"]
    output: Float[Array, "heads p 1"]
    inner: Float[Array, "hidden p"]
    bias: Float[Array, " hidden"]
    outer: Float[Array, "q hidden"]
    shift: Float[Array, " q"]

    @property
    def map(self) -> InContextMap:
        weights, biases = (self.inner, self.outer), (self.bias, self.shift)
        residual = self.inner.shape[1] == self.outer.shape[0]
        attention = MultiHeadAttention(self.query, self.key, self.value, self.output)
        return Perceptron(weights, biases, jnp.tanh, residual) @ attention


class MeasureTransformer(eqx.Module):
    """F_L ⋄ Γ_L ⋄ … ⋄ F_1 ⋄ Γ_1, the network of the universality theorem for in-context maps.

    For a continuous Λ*: P(Ω) × Ω → R^{d'}, Ω ⊂ R^d compact, and every ε there is one with
    |network(μ, x) − Λ*(μ, x)| ≤ ε for all μ and x: the number of tokens plays no role. Each Γ has
    at most d' heads with d_k = d_v = 1 on tokens of dimension at most d + 3d'; each F is a
    perceptron.

    Source: Furuya, de Hoop, Peyré, arXiv:2408.01367, main theorem (Theorem 2.1 of E. Ponti's
    thesis). It bounds neither the depth L nor the width of the perceptrons.
    """

    layers: tuple[Layer, ...]

    @classmethod
    def create(
        cls, dim: int, outputs: int, depth: int = 3, hidden: int = 32, seed: int = 0
    ) -> MeasureTransformer:
        """Random parameters for d = `dim`, d' = `outputs`: d' heads on R^{d+3d'}."""
        for name, value in (("dim", dim), ("outputs", outputs), ("hidden", hidden)):
            checks.integer(name, value, 1)
        checks.integer("depth", depth, 1)
        random = np.random.default_rng(checks.seed(seed))
        sizes = [dim, *[dim + 3 * outputs] * (depth - 1), outputs]
        matrix = lambda *shape: jnp.asarray(random.normal(size=shape) / np.sqrt(shape[-1]))
        layers = [
            Layer(
                query=matrix(outputs, 1, p),
                key=matrix(outputs, 1, p),
                value=matrix(outputs, 1, p),
                output=matrix(outputs, p, 1),
                inner=matrix(hidden, p),
                bias=jnp.asarray(random.normal(size=hidden) / 2),
                outer=matrix(q, hidden),
                shift=jnp.zeros(q),
            )
            for p, q in pairwise(sizes)
        ]
        return cls(tuple(layers))

    @property
    def map(self) -> InContextMap:
        """The network as one in-context map."""
        total = self.layers[0].map
        for layer in self.layers[1:]:
            total = layer.map @ total
        return total

    def __call__(self, measure: Points, at: Any = None) -> Float[Array, "m q"]:
        """Values at places, or at the tokens; O(n) in the number of tokens."""
        pieces = 16
        while True:
            found = self.map(measure, at, sum=ScalarSum(pieces))
            if not np.isnan(found).any():
                return found
            if pieces >= 1024:
                raise ValueError(
                    f"the logits of this network span more than {4 * pieces} e-folds, or measure "
                    "holds too large tokens; call network.map(measure, at) instead."
                )
            pieces *= 4


def mean_spread_distance(
    tokens: Float[Array, "n d"], weights: Float[Array, " n"], at: Float[Array, "m d"]
) -> Float[Array, "m e"]:
    """Λ*(μ, x) = (∫ y dμ, ∫ ‖y − x‖² dμ, ∫ ‖y − x‖ dμ): mean, spread about x, and W_1(μ, δ_x)."""
    apart = jnp.linalg.norm(at[:, None] - tokens, axis=-1)
    mean = jnp.broadcast_to(weights @ tokens, at.shape)
    return jnp.column_stack([mean, apart**2 @ weights, apart @ weights])


def draw_measure(law: Any, sample: Any, count: int, dim: int = 1) -> Float[Array, "n d"]:
    """`count` iid tokens in [−1, 1]^d from a random mixture of three bumps, narrow to wide.

    `law` is the random key of the mixture, `sample` that of the tokens: the same law can be seen
    through any number of tokens.
    """
    centre, width, share = jax.random.split(law, 3)
    centres = jax.random.uniform(centre, (3, dim), minval=-1.0, maxval=1.0)
    widths = jnp.exp(jax.random.uniform(width, (3,), minval=np.log(0.02), maxval=np.log(0.6)))
    shares = jax.random.exponential(share, (3,))
    pick, noise = jax.random.split(sample)
    which = jax.random.categorical(pick, jnp.log(shares), shape=(count,))
    normal = jax.random.normal(noise, (count, dim))
    return jnp.clip(centres[which] + widths[which, None] * normal, -1.0, 1.0)


def train_on_measures(
    network: MeasureTransformer,
    target: Target = mean_spread_distance,
    tokens: int = 32,
    steps: int = 2000,
    batch: int = 16,
    places: int = 32,
    rate: float = 1e-2,
    seed: int = 0,
    **options: Any,
) -> Training:
    """Fit Λ* in mean square over random measures of `tokens` tokens and random places of [−1, 1]^d.

    New measures at every step (`draw_measure`), Adam with a cosine schedule from `rate`.
    `options` go to `train`: checkpoint, progress, seconds. About 45 s on one core as it stands,
    and an error near 0.015 with three layers.

    - `target`: maps tokens (n, d), masses (n,) and places (m, d) to values (m, d').
    """
    import optax

    dim = network.layers[0].inner.shape[1]
    weights = jnp.full(tokens, 1.0 / tokens)

    def draw(data: Any, key: Any, step: Any) -> Any:
        law, sample, place = jax.random.split(jax.random.fold_in(key, step), 3)
        laws, samples = jax.random.split(law, batch), jax.random.split(sample, batch)
        drawn = jax.vmap(lambda a, b: draw_measure(a, b, tokens, dim))(laws, samples)
        return drawn, jax.random.uniform(place, (batch, places, dim), minval=-1.0, maxval=1.0)

    def loss(network: MeasureTransformer, batch: Any) -> Array:
        def one(points: Array, at: Array) -> Array:
            measure = Points(points, weights, on_sphere=False)
            return jnp.mean((network.map(measure, at) - target(points, weights, at)) ** 2)

        return jnp.mean(jax.vmap(one)(*batch))

    optimiser = optax.adam(optax.cosine_decay_schedule(rate, steps))
    validation = draw(None, jax.random.key(checks.seed(seed) + 1), 0)
    return train(
        network,
        Gradient(loss, optimiser),
        None,
        steps=steps,
        draw=draw,
        validation=validation,
        seed=seed,
        **options,
    )


@dataclass(frozen=True)
class Generalization:
    """Root-mean-square error (counts, d') of a network at several numbers of tokens (counts,)."""

    counts: np.ndarray
    errors: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """Over all outputs, (counts,)."""
        return np.sqrt(np.mean(self.errors**2, axis=1))


def generalization(
    network: MeasureTransformer,
    counts: Sequence[int],
    target: Target = mean_spread_distance,
    measures: int = 24,
    places: int = 64,
    seed: int = 1,
) -> Generalization:
    """Errors at numbers of tokens never seen: the same random laws, seen through n tokens each.

    The target is that of the n tokens themselves, so no sampling error enters. 10⁵ tokens take
    about a third of a second a measure.
    """
    dim = network.layers[0].inner.shape[1]
    key, places_key = jax.random.split(jax.random.key(checks.seed(seed)))
    at = jax.random.uniform(places_key, (places, dim), minval=-1.0, maxval=1.0)
    draw = jax.jit(draw_measure, static_argnums=(2, 3))
    exact = jax.jit(target)
    squares: list[list[np.ndarray]] = [[] for _ in counts]
    with Bar("generalization") as bar:
        for row, count in enumerate(counts):
            for column, law in enumerate(jax.random.split(key, measures)):
                points = draw(law, jax.random.fold_in(law, count), count, dim)
                measure = Points(points, on_sphere=False)
                wrong = network(measure, at) - exact(points, measure.weights, at)
                squares[row].append(np.mean(np.asarray(wrong) ** 2, axis=0))
                bar.update((row + column / measures) / len(counts))
    return Generalization(np.asarray(counts), np.sqrt(np.mean(squares, axis=1)))
