"""Weights drawn anew for each layer: the average flow that deep networks follow, and their noise.

x_{l+1} = x_l + (T/L) f_{θ_l}(x_l) with independent θ_l tends to ẋ = E f_θ(x) as L → ∞: noise of
size 1/√L averages out. Derived here, as for any stochastic approximation; checked by sampling.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Array, Float

from metastable.core.numerics import jax, jnp
from metastable.learn.neural.ode import Continuous, Weights, velocity


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
        return jax.vmap(lambda one: velocity(one, x[None])[0])(weights)  # (g, d)

    def field(_, state, weights):
        def one(x, S):
            f = all_velocities(weights, x)
            centred = f - f.mean(axis=0)
            J = jax.jacfwd(lambda x: all_velocities(weights, x).mean(axis=0))(x)
            return f.mean(axis=0), J @ S + S @ J.T + centred.T @ centred / len(f)

        return jax.vmap(one)(*state)

    def piece(state, weights):
        states = Continuous(tolerance).move(field, state, weights, horizon / pieces, pieces)
        return jax.tree.map(lambda leaf: leaf[-1], states), None

    d = x.shape[-1]
    start = (x, jnp.zeros((*x.shape, d)))
    return jax.lax.scan(piece, start, pool)[0]
