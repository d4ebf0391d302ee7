"""Neural ODEs and ResNets: motion, gradients, stages, and layers drawn at random."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from metastable.core.numerics import jax, jnp
from metastable.learn.neural.datasets import draw_spirals
from metastable.learn.neural.ode import (
    Continuous,
    ResidualLayers,
    Weights,
    average_and_spread,
    classification_loss,
    final_state,
    initial_classifier,
    resampled_layers,
    resize,
    split_neurons,
    trace,
    velocity,
)
from metastable.learn.spec import FlowNet
from tests.learn.differences import check_gradient

DATA = draw_spirals(12, classes=3, seed=1)
X = jnp.asarray(DATA.points)


def by_hand(stages, network, x):
    """SciPy's integrator, piece by piece: shares no code with the package."""
    x, span = np.asarray(x), network.horizon / network.pieces
    for weights, width in zip(stages, network.widths, strict=True):
        x = np.pad(x, [(0, 0), (0, max(0, width - x.shape[1]))])[:, :width]
        for k in range(network.pieces):

            def f(t, y, k=k, shape=x.shape, weights=weights):
                s = t / span if network.path == "linear" else 0.0
                j = k + 1 if network.path == "linear" else k
                a, b, c = ((1 - s) * np.asarray(w[k]) + s * np.asarray(w[j]) for w in weights)
                return (np.tanh(y.reshape(shape) @ a.T + b) @ c.T).ravel()

            x = solve_ivp(f, (0, span), x.ravel(), rtol=1e-10, atol=1e-12).y[:, -1].reshape(x.shape)
    return x


def test_flows_against_scipy():
    network = FlowNet(widths=(4,), neurons=5, pieces=2, path="linear")
    parameters = initial_classifier(network, 3, 0)
    depth = Continuous(1e-10, frames=2)
    states = jax.jit(lambda parameters: trace(parameters, X, network, depth))(parameters)
    assert states.shape == (1 + 2 * network.pieces * len(network.widths), 12, max(network.widths))
    expected = by_hand(parameters.stages, network, X)
    assert np.allclose(states[-1, :, : network.widths[-1]], expected, atol=1e-8)


def test_layers_are_euler_steps_through_all_stages():
    """By hand: zeros are appended before the first stage, the last coordinate dropped after it."""
    network = FlowNet(widths=(3, 2), neurons=5, pieces=2, layers=4, horizon=2.0)
    parameters = initial_classifier(network, 3, 0)
    x = np.pad(DATA.points, [(0, 0), (0, 1)])
    for stage, width in enumerate(network.widths):
        x = x[:, :width]
        for k in (0, 0, 1, 1):
            a, b, c = (np.asarray(w[k]) for w in parameters.stages[stage])
            x = x + 0.5 * np.tanh(x @ a.T + b) @ c.T
    states, found = jax.jit(
        lambda parameters: (
            trace(parameters, X, network),
            parameters.scores(final_state(parameters, X, network)),
        )
    )(parameters)
    assert states.shape == (9, 12, 3)
    assert np.allclose(states[-1, :, :2], x, atol=1e-13) and np.all(states[-1, :, 2] == 0)
    expected = x @ parameters.matrix.T + parameters.offset
    assert np.allclose(found, expected, atol=1e-13)
    with pytest.raises(ValueError, match="multiple of the 2 pieces"):
        final_state(parameters, X, network, ResidualLayers(3))


@pytest.mark.parametrize("loss", ["cross_entropy", "squares"])
def test_gradients_through_layers_against_finite_differences(loss):
    network = FlowNet(widths=(3,), neurons=4, pieces=2, path="linear", layers=4)
    batch = (X, jnp.asarray(DATA.labels))
    check_gradient(
        classification_loss(network, loss, 0.01), initial_classifier(network, 3, 1), batch
    )


def test_groups_of_neurons_average_to_all_of_them():
    network = FlowNet(widths=(3,), neurons=6, pieces=2)
    weights = initial_classifier(network, 2, 0).stages[0]
    x = resize(X, 3)
    pool, move = jax.tree.map(np.asarray, split_neurons(weights, 3)), jax.jit(velocity)
    for k in range(2):
        whole = move(Weights(*(w[k] for w in weights)), x)
        parts = [move(Weights(*(w[k, g] for w in pool)), x) for g in range(3)]
        assert np.allclose(sum(parts) / 3, whole, atol=1e-13)
    with pytest.raises(ValueError, match="groups must divide"):
        split_neurons(weights, 4)


def test_layers_drawn_at_random_have_the_predicted_mean_and_covariance():
    """Oracle: 4000 sampled networks of 200 layers; three standard errors of a variance, 7 %."""
    network = FlowNet(widths=(2,), neurons=8, pieces=2, horizon=1.0)
    parameters = initial_classifier(network, 2, 4)
    pool = split_neurons(parameters.stages[0], 4)
    x, layers = X[:1], 200
    end, spread = jax.jit(lambda pool: average_and_spread(pool, x, 1.0))(pool)
    assert np.allclose(end, by_hand(parameters.stages, network, x), atol=1e-8)
    keys = jax.random.split(jax.random.key(0), 4000)
    drawn = jax.jit(jax.vmap(lambda key: resampled_layers(pool, x, 1.0, layers, key)))(keys)[:, 0]
    expected = np.asarray(spread[0]) / layers
    found = np.cov(np.asarray(drawn).T)
    assert np.abs(found - expected).max() < 0.07 * np.trace(expected)
    # the mean is off by Euler's error and a bias, both of order 1/L
    assert np.abs(np.mean(drawn, axis=0) - end[0]).max() < 5.0 / layers
