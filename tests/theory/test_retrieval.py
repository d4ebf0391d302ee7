"""Retrieval profiles against iterated kernels by mpmath, matrix exponentials and each other."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import brentq

from metastable.theory.retrieval import (
    critical_retrieval_time,
    least_retrieved,
    retrieval_law,
    retrieval_row,
)


def alibi(tokens, slope):
    """Weights ∝ e^{λj/N} on j < i, by loops."""
    pull = np.zeros((tokens, tokens))
    for i in range(1, tokens):
        row = [math.exp(slope * j / tokens) for j in range(1, i + 1)]
        pull[i, :i] = np.array(row) / sum(row)
    return pull


@pytest.mark.parametrize(("slope", "strength"), [(1.0, 1.0), (3.0, 0.4), (0.5, 4.0)])
def test_profile_is_the_series_of_iterated_kernels(slope, strength):
    for s in (0.05, 0.4, 0.95):
        y = mpmath.log(mpmath.expm1(slope) / mpmath.expm1(slope * s))
        term = lambda m, y=y: (
            mpmath.mpf(strength) ** m
            * y ** (m - 1)
            / (mpmath.factorial(m) * mpmath.factorial(m - 1))
        )
        front = slope * mpmath.exp(slope * s) / mpmath.expm1(slope)
        expected = float(front * mpmath.nsum(term, [1, mpmath.inf]))
        assert float(retrieval_law(s, slope, strength)) == pytest.approx(expected, rel=1e-12)


def test_profile_is_the_limit_of_the_linear_chain():
    errors = []
    for tokens in (250, 500):
        row = retrieval_row(alibi(tokens, 1.0), 1.3)
        s = np.arange(1, tokens) / tokens
        errors.append(np.abs(row / retrieval_law(s, 1.0, 1.3) - 1)[tokens // 5 :].max())
    assert errors[1] < 0.005 and errors[0] / errors[1] == pytest.approx(2.0, abs=0.1)


def test_linear_chain_is_a_matrix_exponential():
    pull = np.random.default_rng(0).uniform(size=(9, 9))  # above the diagonal nothing acts
    expected = 9 * expm(2.5 * np.tril(pull, -1))[-1, :-1]
    np.testing.assert_allclose(retrieval_row(pull, 2.5), expected, rtol=1e-12)


def test_no_slope_is_the_limit_of_small_slopes_and_the_right_end_is_c():
    s = np.array([0.1, 0.7, 1.0])
    np.testing.assert_allclose(retrieval_law(s, 0.0, 1.5), retrieval_law(s, 1e-9, 1.5), rtol=1e-8)
    assert float(retrieval_law(1.0, 0.0, 1.5)) == 1.5
    assert critical_retrieval_time(0.0, 1.0) == 0.0


@pytest.mark.parametrize("slope", [0.5, 2.0])
def test_the_right_end_is_flat_at_the_critical_time(slope):
    rates, weights = np.array([0.6, 0.2, 0.05]), np.array([1.0, 0.5, 2.0])
    t = critical_retrieval_time(slope, rates, weights)
    s = 1 - np.array([2e-4, 1e-4, 0.0])
    rise = lambda t: float(np.diff(retrieval_law(s, slope, rates * t, weights), 2)[0])
    ends = lambda t: retrieval_law(s, slope, rates * t, weights)
    slope_at = lambda t: float((3 * ends(t)[2] - 4 * ends(t)[1] + ends(t)[0]) / 2e-4)
    assert abs(slope_at(t)) < 1e-5 * abs(slope_at(0.9 * t)) + 1e-6 * abs(rise(t)) + 1e-6
    assert slope_at(0.95 * t) > 0 > slope_at(1.05 * t)


def test_heads_add_their_kernels():
    rng = np.random.default_rng(1)
    pull, strengths = rng.uniform(size=(3, 7, 7)), [0.5, 1.5, 0.2]
    whole = sum(c * np.tril(one, -1) for c, one in zip(strengths, pull, strict=True))
    np.testing.assert_allclose(retrieval_row(pull, strengths), 7 * expm(whole)[-1, :-1])
    rates = [[0.6, 0.1], [0.2, 0.3]]
    one_slope = critical_retrieval_time([2.0, 2.0], rates, [1.0, 0.5])
    assert one_slope == pytest.approx(critical_retrieval_time(2.0, [0.8, 0.4], [1.0, 0.5]))


@pytest.mark.parametrize("slopes", [(1.0, 0.0), (3.0, 0.5)])
def test_two_heads_lose_recency_when_the_last_source_is_flat(slopes):
    rates, places = np.array([0.7, 0.4]), []
    for tokens in (200, 400):
        pull = np.stack([alibi(tokens, slope) for slope in slopes])
        rise = lambda t, pull=pull: float(np.diff(retrieval_row(pull, rates * t)[-2:])[0])
        places.append(brentq(rise, 0.1, 10.0))
    limit = 2 * places[1] - places[0]  # free of the term in 1/N
    assert limit == pytest.approx(critical_retrieval_time(slopes, rates), rel=1e-3)


def test_the_bottom_of_the_u():
    grid = np.linspace(0.01, 0.999, 20_001)
    # The last two are past the critical time, where a steep profile still has its bottom inside.
    for slope, strength in ((1.0, 1.0), (2.0, 1.2), (1.0, 0.3), (5.0, 2.1), (10.0, 3.0)):
        lowest = grid[np.argmin(retrieval_law(grid, slope, strength))]
        assert least_retrieved(slope, strength) == pytest.approx(lowest, abs=1e-4)
    assert least_retrieved(1.0, 1.27) == 1.0 > least_retrieved(1.0, 1.26)
    assert least_retrieved(0.0) == least_retrieved(5.0, 12.0) == 1.0
    assert least_retrieved(1.0, 1e-7) == 0.0
    assert least_retrieved(1.0, 1e-3) == pytest.approx(5e-4, rel=0.02)  # c/2 as c → 0


def test_bad_arguments_are_named():
    for call in (
        lambda: retrieval_law(0.0, 1.0),
        lambda: retrieval_law(0.5, -1.0),
        lambda: critical_retrieval_time(math.inf, 1.0),
        lambda: retrieval_row(np.ones((2, 3)), 1.0),
        lambda: retrieval_row(np.ones((2, 3, 3)), [1.0, 1.0, 1.0]),
        lambda: retrieval_row(np.ones((3, 3)), [1.0]),
        lambda: critical_retrieval_time([1.0, 1.0], [1.0]),
    ):
        with pytest.raises(ValueError, match="must"):
            call()
