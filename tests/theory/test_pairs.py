"""Merge times against 40-digit quadrature, the research table, and two simulated tokens."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from metastable.theory.equiangular import phase_curve
from metastable.theory.pairs import closing_speed, log_merge_time, merge_time


@pytest.mark.parametrize(
    ("beta", "time"), [(5, 19.43), (10, 1130.2), (15, 1.1000e5), (20, 1.2192e7)]
)
def test_table_of_equal_clusters(beta, time):
    assert merge_time(math.pi / 2, beta) == pytest.approx(time, rel=3e-4)


def test_equal_clusters_are_two_equiangular_tokens():
    expected = phase_curve(3.0, 2, 1e-3)
    assert merge_time(math.pi / 2, 3.0) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize(
    ("start", "stop", "beta", "masses"),
    [
        (1.5, 0.01, 5, (0.5, 0.5)),
        (3.1, 0.01, 7, (0.2, 0.8)),
        (3.14, 1e-6, 50, (0.01, 0.99)),
        (1.0, 0.1, 300, (0.3, 0.1)),
        (2.0, 0.5, 0, (0.6, 0.4)),
    ],
)
def test_log_time_against_quadrature_in_the_angle(start, stop, beta, masses, normalized):
    with mp.workdps(40):
        a, b = map(mp.mpf, masses)

        def slowness(phi):
            wall = mp.exp(beta * (1 - mp.cos(phi)))
            if not normalized:  # without its e^{−β}: mp.quad stops at an absolute tolerance
                return wall / ((a + b) * mp.sin(phi))
            return 1 / (mp.sin(phi) * (b / (a * wall + b) + a / (b * wall + a)))

        ratio = mp.mpf(start) / mp.mpf(stop)
        points = [mp.mpf(stop) * ratio ** (mp.mpf(k) / 60) for k in range(61)]
        exact = mp.log(mp.quad(slowness, points, maxdegree=5)) - (0 if normalized else beta)
    found = log_merge_time(start, beta, until=stop, masses=masses, normalized=normalized)
    assert found == pytest.approx(float(exact), rel=1e-13, abs=1e-13)


def test_a_million_in_beta():
    # Watson: with x = β(cos φ − cos φ_0), T = e^β ∫ e^{−x}/(2β(1−x²/β²)) dx = e^β/(2β)(1 + 2/β² …)
    beta = 1e6
    expected = beta - math.log(2 * beta) + 2 / beta**2
    assert log_merge_time(math.pi / 2, beta) == pytest.approx(expected, rel=1e-15)
    assert merge_time(math.pi / 2, beta) == math.inf
    # a small angle, where 1 − cos would lose digits
    with mp.workdps(40):
        phi = mp.mpf(0.02)
        top = beta * (1 - mp.cos(phi))
        quotient = lambda x: mp.exp(-x) / (2 * (1 - (mp.cos(phi) + x / beta) ** 2)) / beta
        end = beta * (mp.cos(mp.mpf(0.001)) - mp.cos(phi))
        peak = mp.quad(quotient, mp.linspace(0, min(end, 190), 20))
        flat = mp.log(mp.tan(phi / 2) / mp.tan(mp.mpf(0.0005))) / 2  # the "+1" of the integrand
        exact = top + mp.log(peak + mp.exp(-top) * flat)
    assert log_merge_time(0.02, beta, until=0.001) == pytest.approx(float(exact), rel=1e-13)


@pytest.mark.parametrize("normalized", [True, False])
def test_speed_is_that_of_two_weighted_tokens(normalized):
    beta, w = 2.3, np.array([0.3, 0.7])

    def velocity(theta):
        gap = theta[None, :] - theta[:, None]
        kernel = w * np.exp(beta * np.cos(gap))
        force = (kernel * np.sin(gap)).sum(1)
        return force / kernel.sum(1) if normalized else force

    for phi in (0.1, 1.0, 2.5):
        v = velocity(np.array([0.0, phi]))
        found = closing_speed(phi, beta, masses=(0.3, 0.7), normalized=normalized)
        assert float(found) == pytest.approx(v[1] - v[0], rel=1e-13)

    run = solve_ivp(
        lambda t, y: velocity(y),
        (0, merge_time(2.0, beta, until=0.2, masses=(0.3, 0.7), normalized=normalized)),
        [0.0, 2.0],
        "DOP853",
        rtol=1e-11,
        atol=1e-12,
    )
    assert run.y[1, -1] - run.y[0, -1] == pytest.approx(0.2, abs=1e-9)


def test_speed_survives_large_beta():
    assert float(closing_speed(3.0, 1e6)) == 0
    assert float(closing_speed(1e-9, 1e6)) == pytest.approx(-1e-9, rel=1e-9)


@pytest.mark.parametrize(
    "kwargs",
    [
        dict(angle=math.pi, beta=1.0),
        dict(angle=0.1, beta=1.0, until=0.2),
        dict(angle=1.0, beta=-1.0),
        dict(angle=1.0, beta=1.0, masses=(0.0, 1.0)),
        dict(angle=1.0, beta=1.0, masses=(0.8, 0.8)),
    ],
)
def test_bad_arguments_are_named(kwargs):
    with pytest.raises(ValueError, match="must"):
        log_merge_time(**kwargs)
