"""Steering: cost over the horizon, one control for many prompts, measures to measures."""

import dataclasses

import numpy as np
import pytest

from metastable.core.numerics import jnp
from metastable.fields import SelfAttention
from metastable.learn.control.measures import (
    cloud_distance,
    meeting_bound,
    steer_measure,
)
from metastable.learn.control.steering import Plant, carry, steer_tokens
from metastable.learn.control.steering_experiment import blobs, random_tokens

pytestmark = pytest.mark.claim


def test_the_cost_falls_like_one_over_the_horizon_unless_attention_must_be_held_off():
    """No drift: a path run slower costs c/T. Against attention, time costs."""
    x, y = (random_tokens(3, 3, seed, True) for seed in (1, 2))
    least = np.mean(np.arccos(np.sum(x * y, axis=1)) ** 2)
    horizons, free, held = np.array([0.5, 4.0]), [], []
    for T in horizons:
        for actions, drift in ((free, None), (held, SelfAttention(4.0))):
            plant = Plant(3, False, 6, pieces=2, horizon=float(T), substeps=4, drift=drift)
            found = steer_tokens(x, y, plant, steps=25, effort=1e-3 * float(T), progress=False)
            assert found.errors.max() < 0.01
            actions.append(found.action)
    cost = np.array(free) * horizons
    print("action × T, free:", cost, "least:", least, "against attention:", held)
    assert np.ptp(cost) < 0.05 * cost.mean() and np.all(cost > 0.98 * least)
    assert held[-1] > 1.2 * free[-1]


def test_one_control_for_many_prompts_needs_attention_and_oddness_needs_a_bias():
    draw = lambda seed: random_tokens(2, 3, seed, True)
    x, other, y, z = (draw(seed) for seed in (1, 2, 3, 4))
    goals = np.stack([y, z])
    shared = np.stack([x, np.stack([x[0], other[1]])])
    mirrored = np.stack([x, -x])
    both = Plant(3, neurons=4, pieces=3, substeps=4)
    ode = dataclasses.replace(both, attention=False, neurons=8)
    alone = dataclasses.replace(both, neurons=0)
    seen = {}
    for name, plant, prompts in (
        ("shared, both", both, shared),
        ("shared, neural ODE", ode, shared),
        ("mirrored, both", both, mirrored),
        ("mirrored, attention", alone, mirrored),
    ):
        found = steer_tokens(prompts, goals, plant, steps=30, progress=False)
        seen[name] = np.mean(found.errors**2, axis=0)
    first, mirror = meeting_bound(goals[:, :1]), meeting_bound(np.stack([y, -z]))
    print(seen, "bounds", first, mirror)
    assert seen["shared, both"][0] < 1e-6 < 0.999 * first <= seen["shared, neural ODE"][0]
    assert seen["mirrored, both"].mean() < 1e-6
    assert seen["mirrored, attention"].mean() >= 0.999 * mirror
    assert seen["shared, neural ODE"][0] < 1.2 * first  # the bound is nearly met


def test_a_measure_is_carried_to_a_measure(on_sphere=True):
    """One cloud to two: W_2 falls near that of two samples of the goal, on fresh samples too."""
    plant = Plant(3, neurons=6, pieces=3, substeps=4, on_sphere=on_sphere)
    (start, goal), (fresh, again), (_, third) = (blobs(160, 3, on_sphere, s) for s in range(3))
    found = steer_measure(start, goal, plant, steps=150, progress=False)
    measure = np.asarray
    reached = lambda x: measure(carry(plant, found.parameters, jnp.asarray(x)[None])[0])
    before = cloud_distance(measure(start), measure(goal))
    after = cloud_distance(reached(start), measure(goal))
    new = cloud_distance(reached(fresh), measure(again))
    floor = cloud_distance(measure(again), measure(third))
    print(f"W₂ before {before:.3f}, after {after:.3f}, fresh {new:.3f}, two samples {floor:.3f}")
    assert after < 0.15 * before and new < 0.35 * before
