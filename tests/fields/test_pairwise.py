"""Potential, Kuramoto and Krause against brute force, and one known behaviour of each."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import metastable as ms
from tests import oracles
from tests.fields.cases import arrays, error, places, velocity, weighted

BLOCKS = [ms.Dense(), ms.Dense(block=64)]


def quartic(s):
    return 0.3 * s - 0.7 * s**4


@pytest.mark.parametrize("sum", BLOCKS, ids=["one block", "five blocks"])
def test_potential_is_the_gradient_of_its_mean(sum):
    m, at = weighted(257, 3), places(3)
    x, w = arrays(m)
    slope = lambda s: 0.3 - 2.8 * s**3
    own = oracles.project(x, (slope(x @ x.T) * w) @ x)
    away = oracles.project(at, (slope(at @ x.T) * w) @ x)
    field = ms.Potential(quartic)
    assert error(velocity(field, m, sum=sum), own) < 1e-12
    assert error(velocity(field, m, at=at, sum=sum), away) < 1e-12


def test_exponential_potential_is_unnormalised_attention():
    m = weighted(257, 3)
    x, w = arrays(m)
    expected = oracles.project(x, oracles.attention(x, w, 2.0, normalized=False))
    assert error(velocity(ms.Potential(lambda s: jnp.exp(2.0 * s) / 2.0), m), expected) < 1e-12


def test_kuramoto_turns_each_oscillator():
    m = weighted(257, 2)
    x, w = arrays(m)
    theta = np.arctan2(x[:, 1], x[:, 0])
    omega = np.random.default_rng(1).normal(size=257)
    rate = omega + 1.7 * np.array([np.sum(w * np.sin(theta - a)) for a in theta])
    expected = rate[:, None] * np.stack([-np.sin(theta), np.cos(theta)], 1)
    field = ms.Kuramoto(coupling=1.7, frequencies=omega)
    assert error(velocity(field, m), expected) < 1e-12


@pytest.mark.parametrize("dim", [2, 3])
def test_kuramoto_is_attention_at_infinite_temperature(dim):
    m = weighted(257, dim)
    expected = np.asarray(velocity(ms.Kuramoto(), m))
    for normalized in (True, False):
        field = ms.SelfAttention(0.0, normalized=normalized)
        assert error(velocity(field, m), expected) < 1e-14


def test_kuramoto_oscillators_agree_at_rate_one():
    # θ̇_i = Σ w_j sin(θ_j−θ_i) ≈ −(θ_i − mean): small spreads shrink like e^{−t}, and the mean
    # phase of the linearised system stays.
    theta = 1e-4 * np.array([1.0, -2.0, 0.5, 0.5])
    start = ms.Points(np.stack([np.cos(theta), np.sin(theta)], 1))
    run = ms.flow(start, ms.Kuramoto(), horizon=3.0, frames=4)
    spread = np.array([np.ptp(np.asarray(f.angles)) for f in run.frames])
    assert np.allclose(spread, 3e-4 * np.exp(-run.times), rtol=1e-6)


@pytest.mark.parametrize("sum", BLOCKS, ids=["one block", "five blocks"])
@pytest.mark.parametrize("on_sphere", [True, False])
def test_krause_moves_to_the_mean_of_the_near(on_sphere, sum):
    m = weighted(257, 3, on_sphere=on_sphere)
    x, w = arrays(m)
    squares = ((x[:, None] - x[None]) ** 2).sum(-1)
    a = w * np.exp(-2.0 * squares)
    expected = a @ x / a.sum(1)[:, None] - x
    expected = oracles.project(x, expected) if on_sphere else expected
    field = ms.Krause(lambda s: jnp.exp(-2.0 * s))
    assert error(velocity(field, m, sum=sum), expected) < 1e-12


def test_krause_groups_out_of_reach_never_meet():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 0.9, (12, 2))
    x[6:, 0] += 3.0
    bounded = ms.Krause(lambda s: jnp.where(s < 1.9**2, 1.0, 0.0))
    run = ms.flow(ms.Points(x, on_sphere=False), bounded, horizon=30.0, frames=3)
    last = run.points[-1]
    # Inside a group all see each other, so each group meets at its own mean at rate 1.
    assert np.abs(last[:6] - x[:6].mean(0)).max() < 1e-9
    assert np.abs(last[6:] - x[6:].mean(0)).max() < 1e-9


def test_krause_token_without_mass_and_neighbours_stays():
    m = ms.Points([[1.0, 0.0], [-1.0, 0.0]], weights=[1, 0])
    v = velocity(ms.Krause(lambda s: jnp.where(s < 1.0, 1.0, 0.0)), m)
    assert np.array_equal(v, np.zeros((2, 2)))
