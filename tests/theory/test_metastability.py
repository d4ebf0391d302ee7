"""Metastability bounds on an integrated two-cap start; staircase and smooth limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import ive

from metastable.theory.configurations import cross_polytope, scaled_energy
from metastable.theory.metastability import (
    cross_alignment,
    merger_jump,
    metastability_bounds,
    plateau_level,
    separation_margin,
    smooth_density_rate,
)


@pytest.mark.parametrize("normalized", [True, False])
def test_bounds_hold_on_a_run(normalized):
    beta, epsilon = 6.0, 0.005
    radius = math.acos(1 - epsilon)
    theta = np.array([-radius, radius, 0.3 * radius, math.pi - radius, math.pi + radius])
    alpha = cross_alignment(math.pi, epsilon)
    bounds = metastability_bounds(beta, len(theta), epsilon, alpha, normalized=normalized)
    assert bounds is not None
    collapse, persistence = math.exp(bounds.log_collapse), math.exp(bounds.log_persistence)
    assert collapse < persistence

    def velocity(_, y):
        gap = y[None, :] - y[:, None]
        kernel = np.exp(beta * np.cos(gap))
        return (kernel * np.sin(gap)).sum(1) / (kernel.sum(1) if normalized else len(y))

    times = np.linspace(0, persistence, 40)
    times = np.sort(np.append(times, collapse))
    run = solve_ivp(velocity, (0, persistence), theta, "LSODA", times, rtol=1e-9, atol=1e-12)
    centres = np.array([0, 0, 0, math.pi, math.pi])[:, None]
    assert np.all(np.cos(run.y - centres) >= 1 - 2 * epsilon)
    for cap in (run.y[:3], run.y[3:]):
        spread = 2 - 2 * np.cos(np.ptp(cap, axis=0))
        assert np.all(spread[times >= collapse] <= 2 * math.exp(-bounds.rate * beta))


def test_formulas_in_their_own_terms():
    beta, n, epsilon, alpha, rate = 30.0, 5, 0.01, 0.1, 0.2
    bounds = metastability_bounds(beta, n, epsilon, alpha, rate=rate)
    assert bounds is not None
    collapse = 2 * n * math.exp(8 * epsilon * beta) + math.e * n * rate * beta**2 / (beta - 1)
    assert bounds.log_collapse == pytest.approx(math.log(collapse))
    assert bounds.log_persistence == pytest.approx(math.log(epsilon / n) + (1 - alpha) * beta)
    usa = metastability_bounds(beta, n, epsilon, alpha, rate=rate, normalized=False)
    assert usa is not None
    assert usa.log_persistence == pytest.approx(bounds.log_persistence - beta)


def test_condition_of_applicability():
    # the margin vanishes at β = log(2n²/ε)/(1−α−8ε)
    n, epsilon, alpha = 5, 0.01, 0.1
    edge = math.log(2 * n * n / epsilon) / (1 - alpha - 8 * epsilon)
    assert metastability_bounds(edge * 0.999, n, epsilon, alpha) is None
    just = metastability_bounds(edge * 1.001, n, epsilon, alpha)
    assert just is not None and just.log_collapse < just.log_persistence
    assert separation_margin(edge, n, epsilon, alpha) == pytest.approx(0, abs=1e-15)
    with pytest.raises(ValueError, match="rate must lie"):
        metastability_bounds(30.0, n, epsilon, alpha, rate=2.0)
    # exponents beyond any float
    far = metastability_bounds(1e5, n, epsilon, alpha)
    assert far is not None and far.log_persistence > 8e4


def test_cross_alignment_by_search():
    angle, epsilon = 1.9, 0.02
    radius = math.acos(1 - 2 * epsilon)
    grid = np.linspace(-radius, radius, 201)
    best = np.cos(angle + grid[:, None] - grid[None, :]).max()
    assert cross_alignment(angle, epsilon) == pytest.approx(best, abs=1e-12)
    assert cross_alignment(0.1, epsilon) == 1


def test_staircase_against_an_energy():
    # four equal clusters at right angles: the scaled energy is the plateau level at large β
    assert plateau_level([0.25] * 4) == pytest.approx(float(scaled_energy(cross_polytope(2), 50.0)))
    climb = plateau_level([0.2, 0.3, 0.5]) + merger_jump(0.2, 0.3) + merger_jump(0.5, 0.5)
    assert climb == pytest.approx(1.0)


@pytest.mark.parametrize(("degree", "dim"), [(1, 2), (3, 2), (2, 3), (4, 5)])
def test_smooth_rates_are_the_large_beta_limit_of_the_exact_ones(degree, dim):
    nu, L = dim / 2 - 1, degree * (degree + dim - 2)
    errors = []
    for beta in (50.0, 500.0):
        exact = L / beta * ive(degree + nu, beta) / ive(nu, beta)
        errors.append(smooth_density_rate(beta, dim, degree) / exact - 1)
        mean = math.gamma(dim / 2) * (2 / beta) ** nu * ive(nu, beta) * math.exp(beta)
        usa = smooth_density_rate(beta, dim, degree, normalized=False)
        assert usa == pytest.approx(mean * smooth_density_rate(beta, dim, degree), rel=1e-12)
    assert errors[1] == pytest.approx(L / (2 * 500), rel=0.05)  # the correction is L/2β
    assert errors[1] < errors[0] / 9
    assert smooth_density_rate(2000.0, dim, degree, normalized=False) == math.inf


def test_bad_arguments_are_named():
    for call in (
        lambda: cross_alignment(1.0, 0.1),
        lambda: metastability_bounds(5.0, 4, 0.01, 1.5),
        lambda: plateau_level([-0.1, 1.1]),
        lambda: smooth_density_rate(0.0, 2, 1),
    ):
        with pytest.raises(ValueError, match="must"):
            call()
