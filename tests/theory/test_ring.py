"""The ring of clusters against Jacobians of weighted particles written out here, and mpmath."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

from metastable.theory.ring import (
    internal_contraction,
    log_plateau_lifetime,
    plateau_lifetime,
    ring_rates,
)


def jacobian(angles, weights, beta, normalized):
    """Jacobian of the particle field by complex steps, exact to rounding."""

    def velocity(theta):
        delta = theta[:, None] - theta
        kernel = weights * np.exp(beta * (np.cos(delta) - 1))
        force = -(kernel * np.sin(delta)).sum(axis=1)
        return force / kernel.sum(axis=1) if normalized else force * math.exp(beta)

    columns = [velocity(angles + 1e-30j * unit).imag / 1e-30 for unit in np.eye(len(angles))]
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("beta", [-2.0, -0.5, 0.0, 1.0, 5.0, 9.0])
@pytest.mark.parametrize("clusters", [1, 2, 3, 4, 7, 12])
def test_spectrum_of_a_ring_of_split_clusters(beta, clusters, normalized):
    # Two tokens of unequal mass at each vertex: the Jacobian has the rotation (0), the k − 1
    # collective modes, and one internal mode per cluster, at minus the contraction rate.
    angles = np.repeat(2 * np.pi * np.arange(clusters) / clusters, 2)
    weights = np.tile([0.3, 0.7], clusters) / clusters
    actual = np.linalg.eigvals(jacobian(angles, weights, beta, normalized))
    rates = ring_rates(beta, clusters, normalized=normalized)
    inner = internal_contraction(beta, clusters, normalized=normalized)
    expected = np.concatenate([[0.0], rates, np.full(clusters, -inner)])
    scale = 1.0 if normalized else math.exp(abs(beta))
    assert np.abs(actual.imag).max() < 1e-8 * scale
    np.testing.assert_allclose(np.sort(actual.real), np.sort(expected), atol=1e-8 * scale)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize(("beta", "clusters"), [(9.0, 3), (16.0, 3), (20.0, 6), (60.0, 5)])
def test_exponentially_small_rates_keep_their_digits(beta, clusters, normalized):
    # The Bessel form over all integers, in 120 digits because it cancels.
    with mpmath.workdps(120):
        b = mpf(beta)
        bessel = [mp.besseli(m, b) for m in range(300)]
        terms = {m: m * m * bessel[abs(m)] for m in range(-299, 300)}
        rest = sum(v for m, v in terms.items() if m % clusters == 0)
        clock = b
        if normalized:
            angles = [2 * mp.pi * q / clusters for q in range(clusters)]
            clock *= sum(mp.exp(b * mp.cos(phi)) for phi in angles) / clusters
        expected = [
            float((sum(v for m, v in terms.items() if m % clusters == p) - rest) / clock)
            for p in range(1, clusters)
        ]
        contraction = float(rest / clock)
    actual = ring_rates(beta, clusters, normalized=normalized)
    np.testing.assert_allclose(actual, expected, rtol=1e-12)
    inner = internal_contraction(beta, clusters, normalized=normalized)
    assert inner == pytest.approx(contraction, rel=1e-12)


@pytest.mark.parametrize(
    ("beta", "clusters", "rate"),
    [
        (5, 3, 7.04e-3),
        (7, 4, 2.55e-2),
        (9, 4, 4.44e-3),
        (10, 4, 1.82e-3),
        (20, 6, 2.63e-3),
        (100, 14, 3.59e-3),
        (1000, 45, 4.36e-3),
        (4, 3, 2.59e-2),
        (9, 3, 2.98e-5),
        (16, 3, 1.42e-9),
    ],
)
def test_known_softmax_rates(beta, clusters, rate):
    # Field report §2a, rounded there to three digits.
    assert float(f"{ring_rates(beta, clusters).max():.2e}") == rate
    assert float(f"{1 / plateau_lifetime(beta, clusters):.2e}") == rate


@pytest.mark.parametrize("normalized", [True, False])
def test_three_ring_is_stable_exactly_below_minus_two_thirds(normalized):
    assert np.all(ring_rates(-2 / 3 - 1e-6, 3, normalized=normalized) < 0)
    assert np.all(ring_rates(-2 / 3 + 1e-6, 3, normalized=normalized) > 0)
    assert plateau_lifetime(-0.7, 3, normalized=normalized) == math.inf
    assert math.isfinite(plateau_lifetime(-0.6, 3, normalized=normalized))


def test_zero_beta_is_kuramoto():
    # h = sin: only the first harmonic is felt, with rate 1/2.
    np.testing.assert_allclose(ring_rates(0.0, 6), [0.5, 0, 0, 0, 0.5], atol=1e-15)


def test_first_plateau_lasts_the_same_for_every_beta():
    # k = √(2β) → ∞: nearest neighbours only, μ_max = 4(2π² − 1)e^{−π²}, corrections O(1/β).
    limit = math.exp(math.pi**2) / (8 * math.pi**2 - 4)
    assert plateau_lifetime(1000**2 / 2, 1000) == pytest.approx(limit, rel=1e-4)
    assert plateau_lifetime(1e6) == pytest.approx(limit, rel=1e-2)


def test_lifetime_is_the_time_to_grow_from_the_perturbation():
    base = plateau_lifetime(7.0, 4)
    assert plateau_lifetime(7.0, 4, perturbation=1e-3) == pytest.approx(base * math.log(1000))
    assert plateau_lifetime(7.0) == base  # ℓ* = 4 at β = 7
    assert plateau_lifetime(1.0) == math.inf  # mode 1 dominates: no plateau before the end


def test_coarse_ring_at_large_beta_keeps_its_logarithm():
    # Two clusters, SA: μ = 2e^{−2β}/(1 + e^{−2β}).
    assert log_plateau_lifetime(1e5, 2) == pytest.approx(2e5 - math.log(2), rel=1e-14)
    assert plateau_lifetime(1e5, 2) == math.inf
    assert ring_rates(1e5, 2).tolist() == [0.0]
    # USA: μ = e^{−β}.
    assert log_plateau_lifetime(1e5, 2, normalized=False) == pytest.approx(1e5, rel=1e-14)


@pytest.mark.parametrize("clusters", [8193, 8200, 10_001])
def test_long_rings_find_the_fastest_mode(clusters):
    # All modes in full, by the sum over nearest neighbours as written in `ring_rates`.
    beta = clusters**2 / 2
    q = np.arange(1, 12)
    phi = 2 * np.pi * q / clusters
    weight = np.exp(-2 * beta * np.sin(phi / 2) ** 2)
    slope = np.cos(phi) - beta * np.sin(phi) ** 2
    p = np.arange(1, clusters)[:, None]
    rates = -2 * ((1 - np.cos(2 * np.pi * p * q / clusters)) @ (weight * slope))
    expected = (1 + 2 * weight.sum()) / rates.max()
    assert plateau_lifetime(beta, clusters) == pytest.approx(expected, rel=1e-9)


def test_first_plateau_of_any_beta():
    # Nearest neighbours in the limit: Z = 1 + 2e^{−π²}, μ = 4(2π² − 1)e^{−π²}/Z.
    near = math.exp(-(math.pi**2))
    limit = (1 + 2 * near) / (4 * (2 * math.pi**2 - 1) * near)
    for beta in (1e18, 1e100, 1e300):
        assert plateau_lifetime(beta) == pytest.approx(limit, rel=1e-8)
        assert log_plateau_lifetime(beta, normalized=False) == pytest.approx(-beta, rel=1e-14)


def test_rings_that_are_a_uniform_measure_are_refused():
    with pytest.raises(ValueError, match="clusters must be few enough"):
        plateau_lifetime(1.0, 10**6)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: ring_rates(1.0, 0), "clusters"),
        (lambda: ring_rates(math.nan, 3), "beta"),
        (lambda: plateau_lifetime(1.0, 3, perturbation=1.0), "perturbation"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()
