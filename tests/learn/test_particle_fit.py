"""Fitting a particle model: a known teacher is found again, gradients, masks, intervals."""

import numpy as np
import pytest

from metastable.core.numerics import jax, jnp
from metastable.core.outcome import Outcome
from metastable.flows import Trajectory
from metastable.learn.fit.particles import (
    Family,
    LowRank,
    Particles,
    States,
    fit_linear,
    fit_particles,
    noise,
    predict_layers,
    predict_linear,
    prediction_loss,
    squared_errors,
    stack_states,
)
from metastable.measures import uniform
from tests.learn.interruption import goes_on_with_the_same_bits, slope_error

DIM, LAYERS = 4, 3


def taught(prompts=4, beta=2.0):
    """Prompts of two lengths that a particle model with V = −0.5 I moved."""
    family = Family("scalar", rank=1)
    flat = jnp.zeros((DIM, 1))
    truth = Particles(
        jnp.log(beta),
        jnp.array([0.4, 0.3, 0.2]),
        LowRank(jnp.asarray(-1.0), flat, flat),
        LowRank(jnp.asarray(0.0), flat, flat),
    )
    starts = [uniform(6 + k % 2, DIM, seed=k) for k in range(prompts)]
    runs = []
    for start in starts:
        alone = States(jnp.stack([start.points] * (LAYERS + 1))[None], jnp.ones((1, start.count)))
        path = predict_layers(family, truth, alone, rollout=True)[0]
        frames = (start, *(start.at(x) for x in path))
        times = np.arange(LAYERS + 1.0)
        runs.append(Trajectory(times, frames, "layers", Outcome("done", ""), {}))
    return family, truth, stack_states(runs)


def test_the_teacher_fits_its_own_states_and_is_found_again():
    family, truth, states = taught()
    assert float(prediction_loss(family, truth, states)) < 1e-28
    found = fit_particles(states, family, steps=300, batch=4, start=1.0, rate=0.05, progress=False)
    model = family.restrict(found.parameters)
    assert found.validation[-1] < 1e-6
    assert float(jnp.exp(model.log_beta)) == pytest.approx(2.0, rel=0.02)
    moves = model.value.scale * model.clock  # v and τ are known only as a product
    assert np.allclose(moves, [-0.4, -0.3, -0.2], atol=5e-3)


def test_the_gradient_is_that_of_finite_differences():
    family = Family("low rank", own=True, rank=2)
    _, _, states = taught(2)
    loss = jax.jit(lambda found: prediction_loss(family, found, states))
    assert slope_error(loss, family.first(DIM, LAYERS, 2.0), size=1e-6) < 1e-5


def test_what_fills_up_is_never_seen():
    family, truth, states = taught()
    other = states._replace(tokens=jnp.where(states.mask[:, None, :, None] > 0, states.tokens,
                                             jnp.array([0.0, 1.0, 0.0, 0.0])))  # fmt: skip
    seen = squared_errors(predict_layers(family, truth, other), other)
    assert np.abs(seen).max() < 1e-28


def test_a_linear_teacher_is_found_by_least_squares():
    """Oracle: x⁺ ∝ (I + τM)x with known M; the fitted map must predict fresh tokens exactly."""
    random = np.random.default_rng(0)
    M = 0.3 * random.standard_normal((DIM, DIM))
    x = random.standard_normal((6, 1, 20, DIM))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    states = States(jnp.asarray(np.repeat(x, 3, axis=1)), jnp.ones((6, 20)))
    path = predict_linear(M, np.array([1.0, 0.5]), states, rollout=True)
    states = states._replace(tokens=jnp.asarray(np.concatenate([x, path], axis=1)))
    train = States(states.tokens[:4], states.mask[:4])
    held = States(states.tokens[4:], states.mask[4:])
    error = squared_errors(predict_linear(*fit_linear(train, 1e-9), held), held)
    stay = squared_errors(held.tokens[:, :-1], held)
    assert np.mean(error) < 0.05 * np.mean(stay)


def test_noise_is_read_off_what_is_left():
    """Tangent Gaussians of variance 2/κ in each of the d − 1 directions."""
    random = np.random.default_rng(1)
    x = random.standard_normal((1, 2, 4000, 5))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    step = np.sqrt(2 / 500) * random.standard_normal(x[:, 0].shape)
    step -= np.sum(step * x[:, 0], -1, keepdims=True) * x[:, 0]
    moved = x[:, 0] + step
    x[:, 1] = moved / np.linalg.norm(moved, axis=-1, keepdims=True)
    states = States(jnp.asarray(x), jnp.ones((1, 4000)))
    assert noise(states.tokens[:, :-1], states)[0] == pytest.approx(500, rel=0.05)


def test_a_cut_training_goes_on_with_the_same_bits(tmp_path, monkeypatch):
    family, _, states = taught(2)
    run = lambda path: fit_particles(states, family, steps=10, checkpoint=path, progress=False)
    goes_on_with_the_same_bits(run, tmp_path, monkeypatch)


def test_intervals_are_over_prompts():
    models = pytest.importorskip("metastable.models.particles")
    stay, left = np.ones((50, 3)), np.full((50, 3), 0.25)
    found = models.explained(left, stay)
    assert (found.share, found.low, found.high) == (0.75, 0.75, 0.75)
    random = np.random.default_rng(0)
    left = random.uniform(0, 0.5, (400, 1))
    found = models.explained(left, np.ones((400, 1)))
    # The mean of 400 uniform numbers on [0, ½] has standard deviation 0.5/√(12·400).
    half = 1.96 * 0.5 / np.sqrt(12 * 400)
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.1)
