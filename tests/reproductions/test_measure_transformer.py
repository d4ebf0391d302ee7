"""The transformer on measures: its shape, its sums, and that the number of tokens plays no role."""

from __future__ import annotations

import numpy as np
import pytest

import metastable as ms
from metastable.core.numerics import jax
from metastable.observe.distances import wasserstein
from reproductions.ponti2025._measure_transformer import (
    MeasureTransformer,
    draw_measure,
    generalization,
    mean_spread_distance,
    train_on_measures,
)
from reproductions.ponti2025._scalar_sum import ScalarSum


def draw_field(rng, value):
    return ms.SelfAttention(2.0, rng.normal(size=(1, 3)), rng.normal(size=(1, 3)), value)


def test_scalar_sums_equal_dense_ones():
    """Far logits, unequal masses, places outside the tokens: relative error against all pairs."""
    rng = np.random.default_rng(0)
    field = draw_field(rng, rng.normal(size=(3, 3)))
    measure = ms.Points(rng.normal(size=(300, 3)), rng.uniform(size=300) ** 8, on_sphere=False)
    at = 2 * rng.normal(size=(20, 3))
    dense, fast = field.velocity(measure, at), field.velocity(measure, at, sum=ScalarSum(64))
    assert np.abs(fast - dense).max() < 1e-12 * np.abs(dense).max()
    same = ms.Points(np.ones((5, 3)), on_sphere=False)
    assert np.allclose(field.velocity(same, sum=ScalarSum(1)), field.velocity(same), atol=1e-13)


def test_scalar_sums_refuse_rather_than_round():
    rng = np.random.default_rng(1)
    measure = ms.Points(10 * rng.normal(size=(50, 3)), on_sphere=False)
    assert np.isnan(draw_field(rng, None).velocity(measure, sum=ScalarSum(2))).all()
    with pytest.raises(ValueError, match="scalar queries"):
        ms.SelfAttention(1.0).velocity(measure, sum=ScalarSum())


def test_the_network_has_the_shape_of_the_theorem():
    """d = 2, d' = 3: at most d' heads, d_k = d_v = 1, token dimension at most d + 3d'."""
    network = MeasureTransformer.create(dim=2, outputs=3, depth=2)
    for layer in network.layers:
        heads, scalar, size = layer.query.shape
        assert heads <= 3 and size <= 2 + 3 * 3
        assert scalar == layer.key.shape[1] == layer.value.shape[1] == layer.output.shape[2] == 1
    measure = ms.Points(np.random.default_rng(0).uniform(-1, 1, (20, 2)), on_sphere=False)
    at = np.zeros((4, 2))
    assert network(measure, at).shape == (4, 3)
    assert np.abs(network(measure, at) - network.map(measure, at)).max() < 1e-12


def test_the_target_is_what_it_says():
    """The third output is W_1(μ, δ_x), by the exact distance on the line."""
    rng = np.random.default_rng(2)
    tokens, at = rng.uniform(-1, 1, (15, 1)), rng.uniform(-1, 1, (4, 1))
    weights = rng.dirichlet(np.ones(15))
    values = mean_spread_distance(tokens, weights, at)
    for place, (mean, spread, distance) in zip(at, values, strict=True):
        measure, point = (
            ms.Points(a, w, on_sphere=False) for a, w in ((tokens, weights), ([place], None))
        )
        assert abs(distance - wasserstein(measure, point, order=1)) < 1e-12
        assert abs(spread - wasserstein(measure, point, order=2) ** 2) < 1e-12
        assert abs(mean - weights @ tokens[:, 0]) < 1e-12


def test_a_law_is_seen_through_any_number_of_tokens():
    law, first, second = jax.random.split(jax.random.key(0), 3)
    few, many = draw_measure(law, first, 8), draw_measure(law, second, 20_000)
    assert few.shape == (8, 1) and np.abs(many).max() <= 1
    again = draw_measure(law, first, 20_000)
    assert abs(again.mean() - many.mean()) < 5 / np.sqrt(20_000)


def test_training_lowers_the_error():
    """One layer cannot know the second moment of its context, so the error does not vanish."""
    network = MeasureTransformer.create(dim=1, outputs=3, depth=1, hidden=8)
    trained = train_on_measures(network, tokens=8, steps=600, batch=4, places=4)
    assert trained.validation[-1] < 0.25 * trained.losses[0]
    result = generalization(trained.parameters, [64], measures=4, places=16)
    assert result.total[0] ** 2 < 0.5 * trained.losses[0]
