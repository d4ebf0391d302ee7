"""Learning one β: against the published loops, closed forms and plain evaluation."""

from __future__ import annotations

import numpy as np
import pytest

from metastable.core.numerics import jax, jnp
from metastable.learn.gaussian.scalar import (
    descend,
    gauss_newton,
    gradient_descent,
    newton,
    scalar_loss,
    stochastic_descent,
)
from metastable.learn.gaussian.teacher import (
    ExactLayer,
    TruncatedLayer,
    loss_and_slope,
    propagate,
    propagate_with_slope,
    random_covariances,
    random_matrices,
    teach,
)
from tests.learn import listing

DIM, KEYS, STEP = 8, 4, 0.1
TEACHER = random_matrices(DIM, KEYS, seed=0)
COVARIANCES = random_covariances(12, DIM, seed=1)
LAYERS = [TruncatedLayer(STEP), ExactLayer(STEP)]
DATA = [teach(layer, TEACHER, COVARIANCES) for layer in LAYERS]
LOSSES = [scalar_loss(layer, TEACHER, data) for layer, data in zip(LAYERS, DATA, strict=True)]


def printed(data):
    """The arguments of the published loops."""
    w, v, q, k = map(np.asarray, TEACHER)
    return w @ v, q, k, np.asarray(data.inputs), np.asarray(data.targets), STEP / np.sqrt(KEYS)


@pytest.mark.parametrize("kind", [0, 1], ids=["truncated", "exact"])
def test_the_factor_carries_the_whole_loss(kind):
    """Inside and far outside of the span, for all samples and for one."""
    for beta in (-3.0, 0.0, 0.4, 7.0):
        errors = LAYERS[kind](TEACHER, COVARIANCES, beta) - DATA[kind].targets
        assert float(LOSSES[kind](beta)) == pytest.approx(float(jnp.mean(errors**2)), rel=1e-12)
        assert float(LOSSES[kind](beta, 3)) == pytest.approx(
            float(jnp.mean(errors[3] ** 2)), rel=1e-12
        )


def test_batch_descent_is_the_published_loop():
    rate = 0.05 / float(LOSSES[0](0.0))
    betas, losses = listing.beta_batch(*printed(DATA[0]), rate=rate, steps=40)
    found = descend(LOSSES[0], gradient_descent(rate), 40)
    assert 0.9 < betas[-1] < 1
    assert np.allclose(found.betas, betas, rtol=0, atol=1e-12)
    assert np.allclose(found.losses, losses, rtol=1e-11, atol=0)
    hoisted = listing.beta_batch_hoisted(*printed(DATA[0]), rate=rate, steps=40)
    assert np.allclose(hoisted, betas, rtol=0, atol=1e-13)


def test_stochastic_descent_is_the_published_loop():
    update = stochastic_descent(2.0, seed=7)
    key = jax.random.key(7)
    samples = [int(jax.random.randint(jax.random.fold_in(key, s), (), 0, 12)) for s in range(20)]
    betas, losses = listing.beta_stochastic(*printed(DATA[0]), 2.0, samples)
    found = descend(LOSSES[0], update, 20)
    assert len(set(samples)) > 5
    assert np.allclose(found.betas, betas, rtol=0, atol=1e-12)
    assert np.allclose(found.losses, losses, rtol=1e-10)


def test_the_quadratic_loss_decays_geometrically():
    """L is quadratic for the truncated layer, so 1 − β_k = (1 − rate L″)^k with L″ = 2L(0)."""
    found = descend(LOSSES[0], gradient_descent(1.0), 30)
    ratio = 1 - 2 * float(LOSSES[0](0.0))
    assert np.allclose(1 - found.betas, ratio ** np.arange(31), rtol=0, atol=1e-13)


def test_newton_needs_one_step_where_the_loss_is_quadratic_and_more_where_it_is_quartic():
    assert abs(descend(LOSSES[0], newton(), 1).betas[1] - 1) < 1e-12
    quartic = descend(LOSSES[1], newton(), 12).betas
    assert abs(quartic[1] - 1) > 1e-3 and abs(quartic[-1] - 1) < 1e-12


@pytest.mark.parametrize("step", [0.01, 0.1, 1.0])
def test_gauss_newton_finds_the_exact_layer_in_eight_steps(step):
    layer = ExactLayer(step)
    loss = scalar_loss(layer, TEACHER, teach(layer, TEACHER, COVARIANCES))
    assert abs(descend(loss, gauss_newton(), 8).betas[-1] - 1) < 1e-12


@pytest.mark.parametrize(
    "layer, depth",
    [(TruncatedLayer(0.1), 5), (ExactLayer(1e-3), 10)],
    ids=["5 truncated", "10 exact"],
)
def test_sensitivities_equal_autodiff(layer, depth):
    data = teach(layer, TEACHER, COVARIANCES, depth=depth)
    run = lambda beta: propagate(layer, TEACHER, COVARIANCES, beta, depth)
    whole = jax.jit(jax.grad(lambda beta: jnp.mean((run(beta) - data.targets) ** 2)))
    expected = jax.jit(lambda beta: jax.jvp(run, (beta,), (1.0,)))
    found = jax.jit(lambda b: propagate_with_slope(layer, TEACHER, COVARIANCES, b, depth))
    for beta in (0.0, 0.8):
        for one, other in zip(found(beta), expected(beta), strict=True):
            assert np.allclose(one, other, rtol=0, atol=1e-9 * float(jnp.abs(other).max()))
        slope = float(loss_and_slope(layer, TEACHER, data, depth, beta)[1])
        assert slope == pytest.approx(float(whole(beta)), rel=1e-9)


def test_descent_through_layers_is_the_published_loop():
    data = teach(LAYERS[0], TEACHER, COVARIANCES, depth=3)
    loss = scalar_loss(LAYERS[0], TEACHER, data, depth=3)
    rate = 0.2 / float(jax.hessian(loss)(1.0))
    betas, losses = listing.multistep(*printed(data), rate=rate, steps=15, depth=3)
    found = descend(loss, gradient_descent(rate), 15)
    assert 0.3 < betas[-1] < 1
    assert np.allclose(found.betas, betas, rtol=0, atol=1e-10)
    assert np.allclose(found.losses, losses, rtol=1e-9)


def test_a_descent_may_not_leave_an_interpolated_loss():
    data = teach(LAYERS[0], TEACHER, COVARIANCES, depth=2)
    loss = scalar_loss(LAYERS[0], TEACHER, data, depth=2)
    with pytest.raises(ValueError, match=r"stay in the span.*lower the rate or widen the span"):
        descend(loss, gradient_descent(100.0), 5)
