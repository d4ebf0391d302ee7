"""Steering tokens: gradients, targets reached, other prompts, and what no control can do."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import energy_distance as scipy_energy_distance

from metastable.fields import SelfAttention
from metastable.learn.steering import Plant, push, residuals, steer_tokens
from metastable.learn.steering_lesson import learn_steering, random_tokens
from metastable.learn.steering_measures import (
    amplification,
    energy_distance,
    measure_loss,
    meeting_bound,
    perturbed_errors,
)
from metastable.numerics import jax, jnp
from metastable.spec.learning import Steering
from tests.learn.interruption import goes_on_with_the_same_bits, slope_error


def moved(plant, seed=3):
    """Controls that do something: those of the start, with every zero replaced by noise."""
    random = np.random.default_rng(seed)
    noise = lambda leaf: leaf + 0.3 * random.standard_normal(leaf.shape)
    return jax.tree.map(noise, plant.first(seed))


PLANTS = [
    Plant(3, pieces=2, substeps=2, neurons=2),
    Plant(2, pieces=2, substeps=2, neurons=2, attention=False, on_sphere=False),
    Plant(3, pieces=2, substeps=2, neurons=0, drift=SelfAttention(4.0)),
]


@pytest.mark.parametrize("plant", PLANTS, ids=["both", "neural ODE", "attention with drift"])
def test_gradients_of_the_objectives_are_finite_differences(plant):
    x = random_tokens(3, plant.dim, 1, plant.on_sphere)
    y = random_tokens(3, plant.dim, 2, plant.on_sphere)

    def labelled(controls):
        parts = residuals(plant, controls, jnp.asarray(x)[None], jnp.asarray(y)[None], 0.1)
        return sum(jnp.sum(part**2) for part in parts)

    assert slope_error(labelled, moved(plant)) < 1e-5
    clouds = jnp.asarray(x), jnp.asarray(y)
    assert slope_error(lambda c: measure_loss(plant, c, clouds), moved(plant)) < 1e-5


@pytest.mark.parametrize("on_sphere", [True, False])
def test_two_tokens_arrive_and_the_adaptive_solver_agrees(on_sphere):
    plant = Plant(3, pieces=2, neurons=2, substeps=4, on_sphere=on_sphere)
    x, y = (random_tokens(2, 3, seed, on_sphere) for seed in (1, 2))
    found = steer_tokens(x, y, plant, steps=15, effort=0.0, progress=False)
    assert found.errors.max() <= 1e-3 and found.plant.switches == 1
    assert len(found.field.switches) == 1
    ends = push(plant, found.controls, jnp.asarray(x)[None])[0]
    assert np.abs(ends - found.ends[0]).max() < 1e-3
    # A path is never shorter than the shortest one.
    way = np.arccos(np.sum(x * y, 1)) if on_sphere else np.linalg.norm(x - y, axis=1)
    assert found.action >= np.mean(way**2) * 0.99
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


def test_a_cut_training_goes_on_with_the_same_bits(tmp_path, monkeypatch):
    plant = Plant(2, pieces=1, neurons=2, substeps=2, attention=False)
    x, y = (random_tokens(2, 2, seed, True) for seed in (1, 2))
    run = lambda path: (
        steer_tokens(x, y, plant, steps=5, effort=0.0, checkpoint=path, progress=False).training
    )
    goes_on_with_the_same_bits(run, tmp_path, monkeypatch)


def test_the_lesson_leaves_facts_and_curves(tmp_path):
    spec = Steering(kind="steering", tokens=(2,), dim=2, neurons=2, steps=6, horizons=(),
                    prompts=False, cloud=0, attention=False)  # fmt: skip
    lesson = learn_steering(spec, tmp_path)
    assert set(lesson.curves) == {"error", "perturbed"} and lesson.outcome.name == "done"
    assert lesson.facts["switches"] == [1] and list(tmp_path.glob("*.npz"))


def test_refusals():
    with pytest.raises(ValueError, match="attention or neurons"):
        Plant(3, attention=False, neurons=0)
    with pytest.raises(ValueError, match=r"one place per token.*\(1, 2, 3\)"):
        steer_tokens(np.eye(3)[:2], np.eye(3), Plant(3))
    with pytest.raises(ValueError, match="unit sphere"):
        steer_tokens(2 * np.eye(3), np.eye(3), Plant(3))
