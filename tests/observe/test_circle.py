"""Tokens on the circle: energies and potentials by harmonics, against brute-force sums."""

import math

import numpy as np
import pytest
from scipy.special import ive

import metastable as ms
from metastable.observe.circle import (
    STEADY,
    circle_energy,
    circle_potential,
    highest_degree,
    worth_harmonics,
)
from metastable.observe.gradient import climb_of
from metastable.observe.summary import energy_series


def tokens(spread, count=700):
    draw = np.random.default_rng(5)
    angles, weights = spread * draw.normal(size=count), draw.uniform(size=count)
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return angles, weights / weights.sum(), ms.Points(x, weights)


@pytest.mark.parametrize("b", np.geomspace(1e-3, 1e5, 25))
def test_harmonics_left_out_weigh_nothing(b):
    """|Σ w_j e^{ikθ_j}| ≤ 1, so that the tail of Σ 2e^{−b}I_k(b) bounds what is left out."""
    degree = highest_degree(b)
    assert 2 * ive(np.arange(degree + 1, 4 * degree), b).sum() < 1e-16


@pytest.mark.parametrize("b", [0.01, 1.0, 9.0, 60.0])
@pytest.mark.parametrize("spread", [0.01, 1.0, 10.0])
def test_the_energy_is_the_sum_over_all_pairs(b, spread):
    """Brute force. b rounding errors of a cosine, and one for each power of e^{iθ}."""
    angles, weights, measure = tokens(spread)
    pairs = np.exp(b * (np.cos(angles[:, None] - angles) - 1))
    expected = math.fsum((weights[:, None] * weights * pairs).ravel())
    found = circle_energy(measure, b)
    assert found == pytest.approx(expected, rel=1e-15 * (10 + b + highest_degree(b)))


@pytest.mark.parametrize("b", [-STEADY, -0.5, 0.5, STEADY])
@pytest.mark.parametrize("spread", [0.01, 1.0])
def test_the_potential_is_the_sum_over_tokens(b, spread):
    """Brute force; opposite a cluster the harmonics cancel to e^{−2|b|} of their size."""
    angles, weights, measure = tokens(spread)
    expected = np.exp(b * np.cos(angles[:, None] - angles) - abs(b)) @ weights
    allowed = 1e-15 * (10 + highest_degree(b)) * math.exp(2 * abs(b))
    np.testing.assert_allclose(circle_potential(measure, b), expected, rtol=allowed)


@pytest.mark.parametrize("count", [60, 400])
def test_a_run_has_the_same_energies_by_either_way(count):
    """Few tokens are summed over pairs, many by harmonics; brute force says the same of both."""
    run = ms.flow(ms.uniform(count, 2, seed=2), ms.SelfAttention(4.0), 3.0, frames=4)
    assert worth_harmonics(run.frames[0], 4.0) == (count == 400)
    x = run.points
    pairs = np.exp(4.0 * (x @ x.transpose(0, 2, 1) - 1))
    series = energy_series(run)
    assert series is not None
    np.testing.assert_allclose(series, pairs.mean(axis=(1, 2)), rtol=1e-13)


@pytest.mark.parametrize("value", [1.0, -1.0])
@pytest.mark.parametrize("count", [60, 400])
def test_the_metric_of_attention_is_the_partition_function(count, value):
    """2β e^{−β} Z_i / v, brute force, by either way."""
    measure = ms.uniform(count, 2, seed=2)
    climb = climb_of(ms.SelfAttention(3.0, value=value), 2)
    assert climb is not None
    x = np.asarray(measure.points)
    expected = 6.0 * np.exp(3.0 * (x @ x.T - 1)).mean(axis=1) / value
    np.testing.assert_allclose(climb.metric(measure), expected, rtol=3e-11)


def test_only_many_tokens_on_the_circle_have_harmonics():
    many = ms.uniform(400, 2)
    assert worth_harmonics(many, 1.0) and not worth_harmonics(many, 1e4)
    assert not worth_harmonics(many.euclidean(), 1.0) and not worth_harmonics(ms.uniform(400, 3), 1)
