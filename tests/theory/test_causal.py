"""Rényi centres against simulation, caps against quadrature, persistence against a causal flow."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from metastable.theory.causal import (
    cap_measure,
    greedy_centres,
    log_persistence_time,
    parking_density,
    renyi_constant,
    separation,
    strong_centres,
)


@pytest.mark.parametrize("dim", [2, 3, 4, 7, 64])
@pytest.mark.parametrize("angle", [0.05, 0.8, math.pi / 2, 2.5])
def test_cap_measure_against_quadrature(angle, dim):
    with mp.workdps(30):
        density = lambda t: mp.sin(t) ** (dim - 2)
        exact = mp.quad(density, [0, angle]) / mp.quad(density, [0, mp.pi / 2, mp.pi])
    assert cap_measure(angle, dim) == pytest.approx(float(exact), rel=1e-12)


def test_closed_forms_of_the_limit():
    assert strong_centres(0.5, 2) == pytest.approx(math.pi / 0.5)
    assert strong_centres(0.8, 3) == pytest.approx(1 / math.sin(0.4) ** 2)
    assert strong_centres(0.0, 3, tokens=10) == 10
    assert strong_centres(math.pi, 3, tokens=10) == 1


def test_renyi_constant():
    # OEIS A050996
    assert renyi_constant() == pytest.approx(0.74759792025341143, abs=1e-13)
    assert parking_density(0.0) == 0
    # first arrivals park freely: θ(t) = t − t² + O(t³)
    assert parking_density(1e-4) == pytest.approx(1e-4 - 1e-8, rel=1e-7)
    # late cars: θ(∞) − θ(t) ≈ e^{−2γ}/t
    late = renyi_constant() - parking_density(1e4)
    assert late == pytest.approx(math.exp(-2 * np.euler_gamma) / 1e4, rel=1e-3)


def count_centres(points, angle):
    """(strong, greedy) numbers by the definitions."""
    cosines = points @ points.T
    near = cosines >= math.cos(angle)
    strong = sum(not near[i, :i].any() for i in range(len(points)))
    greedy: list[int] = []
    for i in range(len(points)):
        if not near[i, greedy].any():
            greedy.append(i)
    return strong, len(greedy)


def test_centre_counts_by_simulation():
    beta, n, trials = 64.0, 200, 400
    delta = separation(beta)
    rng = np.random.default_rng(3)
    for dim in (2, 3):
        counts = []
        for _ in range(trials):
            x = rng.normal(size=(n, dim))
            x /= np.linalg.norm(x, axis=1, keepdims=True)
            counts.append(count_centres(x, delta))
        mean = np.mean(counts, axis=0)
        error = np.std(counts, axis=0) / math.sqrt(trials)
        assert abs(mean[0] - strong_centres(delta, dim, n)) < 3.5 * error[0]
        if dim == 2:
            # finite n matters: the jammed value 9.39 is five standard errors away
            assert abs(mean[1] - greedy_centres(delta, n)) < 3.5 * error[1]
            assert mean[1] < greedy_centres(delta) - 3.5 * error[1]
    assert greedy_centres(delta) == pytest.approx(0.74759792 * 2 * math.pi / delta)


def test_centre_stays_as_long_as_promised():
    beta, factor, drift = 100.0, 4.0, 0.2
    x = factor / math.sqrt(beta)
    gap = x * (1 + 2 * drift) * 1.0001
    theta = np.array([gap, -gap, gap + 0.1, -gap - 0.3, 2.0, 0.0])  # the last one is the centre

    def velocity(_, y):
        diff = y[None, :] - y[:, None]
        kernel = np.tril(np.exp(beta * (np.cos(diff) - 1)))
        return (kernel * np.sin(diff)).sum(1) / kernel.sum(1)

    horizon = math.exp(log_persistence_time(beta, len(theta), factor=factor, drift=drift))
    assert horizon > 80  # about (ε/s)e^{c²/2} = 99
    run = solve_ivp(velocity, (0, horizon), theta, "LSODA", rtol=1e-9, atol=1e-11)
    moved = np.abs(run.y[-1] - run.y[-1, 0]).max()
    assert 0 < moved < drift * x


@pytest.mark.parametrize(
    "call",
    [
        lambda: separation(0.0),
        lambda: cap_measure(1.0, 1),
        lambda: cap_measure(4.0, 3),
        lambda: greedy_centres(0.0),
        lambda: parking_density(-1.0),
        lambda: log_persistence_time(64.0, 5, factor=0.5),
        lambda: log_persistence_time(64.0, 0),
    ],
)
def test_bad_arguments_are_named(call):
    with pytest.raises(ValueError, match="must"):
        call()
