"""Configurations against brute-force sums, optimisation and the published design strengths."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import minimize

from metastable.theory.configurations import (
    cell24,
    cell600,
    clebsch,
    configuration_energy,
    cross_polytope,
    cube,
    design_strength,
    e7_points,
    e8_roots,
    energy_lower_bound,
    icosahedron,
    regular_polygon,
    regular_simplex,
    scaled_energy,
    scaled_energy_lower_bound,
    schlafli,
)

# (configuration, points, dimension, design strength): sizes and strengths as published
KNOWN = [
    (regular_polygon(7), 7, 2, 6),
    (regular_polygon(12), 12, 2, 11),
    (regular_simplex(4), 5, 4, 2),
    (regular_simplex(9), 10, 9, 2),
    (cross_polytope(2), 4, 2, 3),
    (cross_polytope(6), 12, 6, 3),
    (icosahedron(), 12, 3, 5),
    (cell24(), 24, 4, 5),
    (cell600(), 120, 4, 11),
    (e8_roots(), 240, 8, 7),
    (e7_points(), 56, 7, 5),
    (schlafli(), 27, 6, 4),
    (clebsch(), 16, 5, 3),
    (cube(), 8, 3, 3),
]
IDS = [c.name for c, *_ in KNOWN]


@pytest.mark.parametrize(("config", "n", "d", "strength"), KNOWN, ids=IDS)
def test_points_products_and_strength(config, n, d, strength):
    assert config.points.shape == (n, d)
    gram = config.points @ config.points.T
    assert np.allclose(np.diag(gram), 1, atol=1e-14)
    products = np.sort([t for t, m in config.inner_products for _ in range(m)])
    for row in gram:  # every point sees the same inner products
        assert np.allclose(np.sort(row), products, atol=1e-13)
    assert design_strength(config.points) == config.strength == strength


@pytest.mark.parametrize(("config", "n", "d", "strength"), KNOWN, ids=IDS)
@pytest.mark.parametrize("beta", [1e-3, 3.0, 40.0])
def test_energy_is_the_double_sum_and_above_the_bound(config, n, d, strength, beta):
    brute = np.exp(beta * config.points @ config.points.T).sum() / (2 * beta * n * n)
    energy = float(configuration_energy(config, beta))
    assert energy == pytest.approx(brute, rel=1e-12)
    assert energy >= float(energy_lower_bound(beta, d)) * (1 - 1e-14)


def test_published_energies():
    assert float(configuration_energy(icosahedron(), 3.0)) == pytest.approx(0.5634581, abs=5e-8)
    assert float(configuration_energy(regular_polygon(7), 3.0)) == pytest.approx(
        0.8149561, abs=5e-8
    )
    beta, n = 2.5, 6
    expected = (math.exp(beta) + (n - 1) * math.exp(-beta / (n - 1))) / (2 * beta * n)
    assert float(configuration_energy(regular_simplex(n - 1), beta)) == pytest.approx(
        expected, rel=1e-14
    )


@pytest.mark.parametrize(("d", "beta"), [(2, 3.0), (3, 700.0), (5, 1e-8), (8, 40.0), (1024, 9.0)])
def test_lower_bound_is_the_mean_kernel(d, beta):
    # c_0 = ₀F₁(; d/2; β²/4), at 40 digits
    with mp.workdps(40):
        exact = mp.hyp0f1(mp.mpf(d) / 2, mp.mpf(beta) ** 2 / 4) * mp.exp(-mp.mpf(beta))
    assert float(scaled_energy_lower_bound(beta, d)) == pytest.approx(float(exact), rel=1e-12)


def test_scaled_energy_has_no_pole_and_no_overflow():
    assert scaled_energy(cell600(), [0.0, 1e5]).tolist() == pytest.approx([1.0, 1 / 120])
    assert float(configuration_energy(icosahedron(), 800.0)) == np.inf


def lowest_energy(n, d, beta, seeds):
    """Smallest (2βe^{−β})E found by descent from random starts."""

    def log_energy(flat):
        x = flat.reshape(n, d)
        norm = np.linalg.norm(x, axis=1, keepdims=True)
        u = x / norm
        kernel = np.exp(beta * (u @ u.T - 1))
        slope = 2 * beta * kernel @ u / kernel.sum()
        slope -= np.sum(slope * u, 1, keepdims=True) * u
        return math.log(kernel.sum() / n**2), (slope / norm).ravel()

    options = {"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-10}
    starts = (np.random.default_rng(s).normal(size=n * d) for s in range(seeds))
    runs = [minimize(log_energy, s, jac=True, method="L-BFGS-B", options=options) for s in starts]
    return math.exp(min(run.fun for run in runs))


@pytest.mark.parametrize(
    "config", [regular_polygon(7), icosahedron(), clebsch()], ids=lambda c: c.name
)
@pytest.mark.parametrize("beta", [1.0, 8.0])
def test_universal_configurations_are_found_and_not_beaten(config, beta):
    n, d = config.points.shape
    assert config.universal
    found = lowest_energy(n, d, beta, seeds=6)
    assert found == pytest.approx(float(scaled_energy(config, beta)), rel=1e-9)


@pytest.mark.parametrize(("config", "beta"), [(cube(), 3.0), (cell24(), 6.0)], ids=["cube", "24"])
def test_counterexamples_are_beaten(config, beta):
    n, d = config.points.shape
    assert not config.universal
    assert lowest_energy(n, d, beta, seeds=8) < float(scaled_energy(config, beta)) * (1 - 1e-5)


def test_strength_of_weighted_and_degenerate_sets():
    points = icosahedron().points
    assert design_strength(points, up_to=3) == 3
    assert design_strength(points, np.arange(1.0, 13.0)) == 0
    doubled = np.vstack([points, points[:4]])
    weights = np.concatenate([np.full(4, 0.5), np.ones(8), np.full(4, 0.5)])
    assert design_strength(doubled, weights) == 5  # a weight is a multiplicity
    assert design_strength(doubled) == 0
    assert design_strength(np.eye(3)[:1]) == 0


def test_bad_arguments_are_named():
    for call in (
        lambda: regular_polygon(1),
        lambda: regular_simplex(1),
        lambda: configuration_energy(cube(), 0.0),
        lambda: scaled_energy(cube(), -1.0),
        lambda: energy_lower_bound(0.0, 3),
        lambda: design_strength(2 * np.eye(3)),
    ):
        with pytest.raises(ValueError, match="must"):
            call()
