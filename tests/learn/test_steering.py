"""Steering tokens: gradients, targets reached, other prompts, and what no control can do."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import energy_distance as scipy_energy_distance

from metastable.core.numerics import jax, jnp
from metastable.fields import SelfAttention
from metastable.learn.control.measures import (
    amplification,
    energy_distance,
    measure_loss,
    meeting_bound,
    perturbed_errors,
)
from metastable.learn.control.steering import Plant, carry, misses, steer_tokens
from metastable.learn.control.steering_experiment import random_tokens
from tests.learn.interruption import slope_error


def moved(plant, seed=3):
    """Controls that do something: those of the start, with every zero replaced by noise."""
    random = np.random.default_rng(seed)
    noise = lambda leaf: leaf + 0.3 * random.standard_normal(leaf.shape)
    return jax.tree.map(noise, plant.first(seed))


def test_gradients_of_both_objectives_are_finite_differences():
    plant = Plant(3, pieces=2, substeps=1, neurons=2, drift=SelfAttention(4.0))
    x, y = (jnp.asarray(random_tokens(3, 3, seed, True)) for seed in (1, 2))

    @jax.jit
    def labelled(controls):
        parts = misses(plant, controls, x[None], y[None], 0.1)
        return sum(jnp.sum(part**2) for part in parts)

    assert slope_error(labelled, moved(plant)) < 1e-5
    unlabelled = jax.jit(lambda controls: measure_loss(plant, controls, (x, y)))
    assert slope_error(unlabelled, moved(plant)) < 1e-5


def test_two_tokens_arrive_and_the_adaptive_solver_agrees():
    plant = Plant(3, attention=False, pieces=2, neurons=3, substeps=4)
    x, y = (random_tokens(2, 3, seed, True) for seed in (1, 2))
    found = steer_tokens(x, y, plant, steps=15, progress=False)
    assert found.errors.max() <= 1e-3 and found.plant.switches == 1
    assert found.field.switches == (0.5,)
    ends = carry(plant, found.controls, jnp.asarray(x)[None])[0]
    assert np.abs(ends - found.ends[0]).max() < 1e-3
    # A path is never shorter than the shortest one.
    assert found.action >= 0.99 * np.mean(np.arccos(np.sum(x * y, 1)) ** 2)
    # The Jacobian foretells the error on other prompts.
    e0, e = perturbed_errors(found, x, y, [0.0, 1e-3], draws=400)
    assert e == pytest.approx(np.hypot(e0, 1e-3 * amplification(found, x)), rel=0.05)


def test_energy_distance_on_a_line_is_scipys():
    """SciPy gives √(2∫(F − G)²) for samples of the line, which is the root of ours."""
    random = np.random.default_rng(0)
    x, y = random.standard_normal(40), random.standard_normal(25) + 1
    ours = float(energy_distance(jnp.asarray(x)[:, None], jnp.asarray(y)[:, None]))
    assert np.sqrt(ours) == pytest.approx(scipy_energy_distance(x, y), rel=2e-3)


@pytest.mark.parametrize("on_sphere", [True, False])
def test_the_bound_of_tokens_that_must_meet_is_the_least(on_sphere):
    """Oracle: a numerical minimum over the meeting place."""
    y = np.stack([random_tokens(1, 3, seed, on_sphere) for seed in range(3)])

    def miss(z):
        z = z / np.linalg.norm(z) if on_sphere else z
        return np.mean(np.sum((z - y[:, 0]) ** 2, axis=-1))

    least = min(minimize(miss, start, tol=1e-12).fun for start in np.eye(3))
    assert meeting_bound(y, on_sphere) == pytest.approx(least, rel=1e-6)


def test_refusals():
    with pytest.raises(ValueError, match="attention or neurons"):
        Plant(3, attention=False, neurons=0)
    with pytest.raises(ValueError, match=r"one place per token.*\(1, 2, 3\)"):
        steer_tokens(np.eye(3)[:2], np.eye(3), Plant(3))
    with pytest.raises(ValueError, match="unit sphere"):
        steer_tokens(2 * np.eye(3), np.eye(3), Plant(3))
