"""Heads fitted to equivariant maps: what every layer of attention obeys, gradients, the lesson."""

from __future__ import annotations

import numpy as np
import pytest

from metastable.core.numerics import jax, jnp
from metastable.geometry.sphere import uniform_points
from metastable.learn.neural.equivariant import (
    TARGETS,
    Fits,
    Heads,
    apply_heads,
    best_values,
    even_share,
    respond,
)
from tests.learn.differences import check_gradient

OUTPUTS = ("tangent", "unit", "free")


def configurations(count=6, tokens=4, dim=3, seed=0):
    points = uniform_points(jax.random.key(seed), count * tokens, dim)
    return points.reshape(count, tokens, dim)


def heads(*shape, seed=1):
    first, second = jax.random.split(jax.random.key(seed))
    return Heads(2 * jax.random.normal(first, shape), jax.random.normal(second, shape))


def test_attention_against_loops():
    x, (score, value) = configurations(2), heads(3, 3, 3)
    found = np.zeros((2, 4, 3))
    for b in range(2):
        for i in range(4):
            for h in range(3):
                k = np.exp([x[b, i] @ score[h] @ x[b, j] for j in range(4)])
                found[b, i] += sum(k[j] / k.sum() * value[h] @ x[b, j] for j in range(4))
    assert np.allclose(jax.jit(apply_heads)(Heads(score, value), x), found, atol=1e-12)


@pytest.mark.parametrize("output", OUTPUTS)
def test_every_layer_is_equivariant_and_odd(output):
    x, order = configurations(), np.array([2, 0, 3, 1])
    found = heads(5, 3, 3)
    layer = jax.jit(lambda x: respond(apply_heads(found, x), x, output))
    assert np.allclose(layer(x[:, order]), layer(x)[:, order], atol=1e-12)
    assert np.allclose(layer(-x), -layer(x), atol=1e-12)


def test_where_all_tokens_agree_a_layer_is_linear():
    x = jnp.repeat(configurations(tokens=1), 4, axis=1)
    found = heads(5, 3, 3)
    assert np.allclose(apply_heads(found, x), x @ found.value.sum(axis=0).T, atol=1e-12)


@pytest.mark.parametrize("name", ["cube", "nearest", "mirror"])
def test_targets_are_equivariant_maps_of_the_sphere(name):
    x, order = configurations(), np.array([2, 0, 3, 1])
    found = TARGETS[name](x)
    assert np.allclose(jnp.linalg.norm(found, axis=-1), 1, atol=1e-10)
    assert np.allclose(TARGETS[name](x[:, order]), found[:, order], atol=1e-6)
    assert even_share(TARGETS[name], x) == pytest.approx(float(name == "mirror"), abs=1e-6)


def fits(count=8):
    x = configurations(2 * count, dim=2).reshape(2, count, 4, 2)
    names = ("cube", "mirror")
    flat = x.reshape(-1, 4, 2)
    return Fits(x, jnp.stack([TARGETS[name](flat).reshape(x.shape) for name in names]))


def test_gradient_of_the_fit_against_finite_differences():
    objective = lambda found, data: jnp.sum(data.errors(found, OUTPUTS))
    check_gradient(objective, heads(2, 3, 2, 3, 2, 2), fits())


def test_an_even_map_stays_at_its_distance():
    """For odd f of unit length and even g, E‖f − g‖² = E‖f‖² + E‖g‖² = 2; a sample closed under
    X → −X has it exactly."""
    x = configurations(20)
    x = jnp.concatenate([x, -x])[None]
    data = Fits(x, TARGETS["mirror"](x[0])[None, None])
    errors = jax.jit(lambda found: data.errors(found, OUTPUTS))(heads(1, 3, 1, 5, 3, 3))[0, :, 0]
    assert errors[1] == pytest.approx(2.0, abs=1e-12)
    assert errors[0] >= 1 and errors[2] >= 1


def test_best_values_are_recovered():
    """Targets made by known values are fitted exactly, and given back where heads are few."""
    x, known = configurations(40, dim=2), heads(3, 2, 2)
    goals = jnp.stack([apply_heads(known, x), apply_heads(known._replace(value=-known.value), x)])
    found = jax.jit(best_values)(known.score, x, goals)
    assert np.allclose(found, jnp.stack([known.value, -known.value]), atol=1e-6)
