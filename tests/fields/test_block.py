"""Feed-forward layers, placements of the normalisation, and the learned gain."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metastable as ms
from tests import oracles
from tests.fields.cases import arrays, error, places, velocity, weighted

ACTIVATIONS = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "gelu": jax.nn.gelu,
    "sigmoid": jax.nn.sigmoid,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("on_sphere", [True, False])
def test_feed_forward_alone_and_after_attention(name, on_sphere):
    rng = np.random.default_rng(4)
    d, p = 3, 7
    w, a, b = rng.normal(size=(d, p)), rng.normal(size=(p, d)), rng.normal(size=p)
    m = weighted(257, d, on_sphere=on_sphere)
    x, mass = arrays(m)
    held = oracles.project if on_sphere else (lambda x, v: v)
    alone = ms.FeedForward(w, a, b, ACTIVATIONS[name])
    assert error(velocity(alone, m), held(x, oracles.perceptron(x, w, a, b, name))) < 1e-12
    after = ms.FeedForward(w, a, b, ACTIVATIONS[name], after=ms.SelfAttention(2.0))
    seen = oracles.attention(x, mass, 2.0)
    assert error(velocity(after, m), held(x, oracles.perceptron(seen, w, a, b, name))) < 1e-12


def test_feed_forward_defaults_to_identity_matrices_without_bias():
    m = weighted(257, 3)
    x, _ = arrays(m)
    assert error(velocity(ms.FeedForward(), m), oracles.project(x, np.maximum(x, 0))) < 1e-14


def test_feed_forward_moves_each_token_by_itself():
    at = places(3)
    field = ms.FeedForward(activation=jnp.tanh)
    a, b = (velocity(field, ms.uniform(257, 3, seed=s), at=at) for s in (1, 2))
    assert np.array_equal(a, b)


# THEORY §9: θ̇ = P A / s and the law of the radius; (placement, s, ṙ) with along = ⟨θ,A⟩.
T = 3.0
LAWS = {
    "post": (ms.PostNorm(), lambda r, size: 1.0, lambda along, size: 0 * along),
    "pre": (ms.PreNorm(), lambda r, size: r, lambda along, size: along),
    "peri": (ms.PeriNorm(), lambda r, size: r * size, lambda along, size: along / size),
    "ngpt": (ms.NGPT(alpha=0.3), lambda r, size: size / 0.3, lambda along, size: 0 * along),
    "sqrt": (ms.DepthSqrt(), lambda r, size: np.sqrt(T + 1), lambda along, size: 0 * along),
    "mix before": (ms.Mix(until=4.0), lambda r, size: 1.0, lambda along, size: 0 * along),
    "mix after": (ms.Mix(until=2.0), lambda r, size: r, lambda along, size: along),
}


@pytest.mark.parametrize("name", LAWS)
def test_placement_moves_direction_and_radius_by_its_law(name):
    placement, s, growth = LAWS[name]
    m = weighted(257, 3, on_sphere=False)
    x, w = arrays(m)
    r = np.linalg.norm(x, axis=1, keepdims=True)
    theta = x / r
    a = oracles.attention(theta, w, 2.0)
    size, along = np.linalg.norm(a, axis=1, keepdims=True), (theta * a).sum(1, keepdims=True)
    v = np.asarray(velocity(ms.Block(ms.SelfAttention(2.0), placement), m, t=T))
    radial = (theta * v).sum(1, keepdims=True)
    assert np.abs(radial - growth(along, size)).max() < 1e-12
    turn = (v - radial * theta) / r
    assert np.abs(turn - oracles.project(theta, a) / s(r, size)).max() < 1e-12


@pytest.mark.parametrize("name", ["post", "ngpt", "sqrt"])
def test_placements_that_keep_the_radius_act_on_the_sphere(name):
    placement, s, _ = LAWS[name]
    m, at = weighted(257, 3), places(3)
    x, w = arrays(m)
    a = oracles.attention(x, w, 2.0, at=at)
    expected = oracles.project(at, a) / s(1.0, np.linalg.norm(a, axis=1, keepdims=True))
    got = velocity(ms.Block(ms.SelfAttention(2.0), placement), m, at=at, t=T)
    assert error(got, expected) < 1e-12


@pytest.mark.parametrize("placement", [ms.PreNorm(), ms.PeriNorm(), ms.Mix(until=1.0)])
def test_placements_that_move_the_radius_refuse_the_sphere(placement):
    with pytest.raises(ValueError, match=r"moves the radius.*euclidean"):
        ms.Block(ms.SelfAttention(1.0), placement).velocity(ms.polygon(3))


def test_gain_with_identity_value_is_attention_with_diagonal_matrices():
    g = np.array([0.5, 1.0, -2.0])
    m = weighted(257, 3)
    x, w = arrays(m)
    diagonal = np.diag(g)
    expected = oracles.project(x, oracles.attention(x, w, 1.5, diagonal, diagonal))
    assert error(velocity(ms.Gain(ms.SelfAttention(1.5), g), m), expected) < 1e-12


def test_gain_is_the_limit_of_normalising_to_the_ellipsoid():
    g, v = np.array([0.5, 1.0, 2.0]), np.random.default_rng(0).normal(size=(3, 3))
    m = weighted(257, 3)
    theta, w = arrays(m)
    x = g * theta
    a = oracles.attention(x, w, 1.5, value=v)

    def step(eps):  # x ← N(x + εA), N(y) = y/‖y/g‖, read back as θ = x/g
        y = x + eps * a
        return (y / np.linalg.norm(y / g, axis=1, keepdims=True)) / g

    eps = 1e-5
    slope = (step(eps) - step(-eps)) / (2 * eps)  # central: error ε² ≈ 1e−10
    got = np.asarray(velocity(ms.Gain(ms.SelfAttention(1.5, value=v), g), m))
    assert np.abs(got - slope).max() < 1e-8
    assert np.abs(np.linalg.norm(step(0.3), axis=1) - 1).max() < 1e-14
