"""The two layer maps and the data, against the flow's own layer and direct products."""

from __future__ import annotations

import numpy as np
import pytest

from metastable.core.numerics import jax, jnp
from metastable.fields import SelfAttention
from metastable.flows.solvers.gaussian_layers import layer_map
from metastable.learn.gaussian.teacher import (
    Dataset,
    ExactLayer,
    TruncatedLayer,
    random_covariances,
    random_matrices,
    split,
    teach,
)

LAYERS = [TruncatedLayer(0.3), ExactLayer(0.3)]
MATRICES = random_matrices(6, 4, seed=0, value_dim=5)
COVARIANCES = random_covariances(3, 6, seed=1)


def test_the_exact_layer_is_that_of_the_flow():
    """Oracle: `layer_map`, which moves a factor of the covariance by an affine map."""
    w, v, q, k = MATRICES
    field = SelfAttention(1.0 / 2.0, query=q, key=k, value=w @ v)  # 1/√d_k
    for s in COVARIANCES:
        _, factor = layer_map(jnp.zeros(6), jnp.linalg.cholesky(s), field, 0.3)
        found = ExactLayer(0.3)(MATRICES, s)
        assert np.allclose(found, factor @ factor.T, rtol=0, atol=1e-13 * np.abs(found).max())


def test_the_truncated_layer_is_the_printed_formula():
    w, v, q, k = map(np.asarray, MATRICES)
    s = np.asarray(COVARIANCES)
    m = 0.7 * 0.3 / 2.0 * (w @ v @ s @ k.T @ q @ s)
    found = TruncatedLayer(0.3)(MATRICES, s, 0.7)
    assert np.allclose(found, s + m + m.transpose(0, 2, 1), rtol=0, atol=1e-13)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_tangents_are_derivatives(layer):
    """Oracle: forward-mode autodiff along a path on which Σ and β both move."""
    slope = np.asarray(random_covariances(3, 6, seed=2))
    moved = lambda t: layer(MATRICES, COVARIANCES + t * slope, 0.4 + t)
    _, expected = jax.jvp(moved, (0.0,), (1.0,))
    assert np.allclose(layer.tangent(MATRICES, COVARIANCES, slope, 0.4), expected, atol=1e-12)


def test_long_steps_leave_the_covariances_only_when_truncated():
    lowest = [
        np.linalg.eigvalsh(kind(5.0)(MATRICES, COVARIANCES)).min(axis=1)
        for kind in (TruncatedLayer, ExactLayer)
    ]
    assert np.all(lowest[0] < -1.0) and np.all(lowest[1] > 0.0)


def test_covariances_have_the_stated_scale():
    """GGᵀ/√d is √d times Marchenko–Pastur's GGᵀ/d, whose upper edge is 4 and whose mean is 1."""
    values = np.linalg.eigvalsh(random_covariances(4, 100, seed=3))
    assert values.max() == pytest.approx(4 * np.sqrt(100), rel=0.1)
    assert values.mean() == pytest.approx(np.sqrt(100), rel=0.02) and values.min() > 0


def test_split_loses_and_repeats_nothing():
    data = Dataset(np.arange(8.0), 10 + np.arange(8.0))
    first, rest = split(data, seed=5)
    assert (len(first.inputs), len(rest.inputs)) == (6, 2)
    assert sorted([*first.inputs, *rest.inputs]) == list(range(8))
    assert np.array_equal(first.targets, 10 + first.inputs)
    assert not np.array_equal(split(data, seed=6)[0].inputs, first.inputs)
    with pytest.raises(ValueError, match=r"share must leave pairs on both sides.*got 0.99 of 8"):
        split(data, share=0.99)


def test_depth_repeats_the_layer():
    layer = LAYERS[1]
    twice = layer(MATRICES, layer(MATRICES, COVARIANCES, 0.5), 0.5)
    found = teach(layer, MATRICES, COVARIANCES, beta=0.5, depth=2).targets
    assert np.allclose(found, twice, rtol=1e-13)


def test_a_step_must_be_positive():
    with pytest.raises(ValueError, match="step must be > 0; got 0"):
        ExactLayer(0.0)
