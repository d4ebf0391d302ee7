"""Noise thresholds against 50-digit arithmetic, published values and stationary states."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.optimize import root_scalar
from scipy.special import ive

from metastable.theory.noise import (
    critical_kappa,
    fastest_mode_with_noise,
    log_critical_kappa,
    transition_order,
    tricritical_beta,
)
from metastable.theory.spectrum import growth_rates


@pytest.mark.parametrize("dim", [2, 3, 8, 64])
@pytest.mark.parametrize("beta", [1e-3, 1.0, 5.0, 100.0])
def test_critical_kappa_against_fifty_digits(beta, dim):
    with mpmath.workdps(50):
        b, half = mpf(beta), mpf(dim) / 2
        softmax = b * mp.besseli(half - 1, b) / mp.besseli(half, b)
        plain = b**half / (2 ** (half - 1) * mp.gamma(half) * mp.besseli(half, b))
        assert critical_kappa(beta, dim) == pytest.approx(float(softmax), rel=1e-13)
        actual = critical_kappa(beta, dim, normalized=False)
        assert actual == pytest.approx(float(plain), rel=1e-13)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize(("beta", "dim"), [(0.0, 5), (4.0, 2), (20.0, 3)])
def test_uniform_is_stable_exactly_below_critical_kappa(beta, dim, normalized):
    kappa = float(critical_kappa(beta, dim, normalized=normalized))
    rates = lambda k: growth_rates(beta, dim, 20, normalized=normalized, kappa=k)
    assert rates(kappa * (1 - 1e-9)).max() < 0
    assert rates(kappa * (1 + 1e-9)).max() > 0
    if beta == 0:
        assert kappa == pytest.approx(dim, rel=1e-15)


def test_published_values():
    # arXiv:2606.05140 (K_# = κ_#/2) as tabulated in the field report §2e.
    assert critical_kappa(1.0, 2, normalized=False) == pytest.approx(1.769, abs=5e-4)
    assert critical_kappa(5.0, 2, normalized=False) == pytest.approx(0.2055, abs=5e-5)
    table = {2: 2.44692, 3: 1.81616, 4: 1.57526, 8: 1.26655, 16: 1.12897, 128: 1.01569}
    for dim, beta in table.items():
        assert tricritical_beta(dim) == pytest.approx(beta, abs=1e-5)


@pytest.mark.parametrize("dim", [2, 3, 50, 4096])
def test_tricritical_beta_against_fifty_digits(dim):
    beta = tricritical_beta(dim)
    with mpmath.workdps(50):
        half = mpf(dim) / 2
        ratio = lambda b: mp.besseli(half + 1, b) / mp.besseli(half, b) - 1 / mpf(dim)
        assert beta == pytest.approx(float(mp.findroot(ratio, mpf(beta))), rel=1e-14)


def branch_kappa(beta: float, amplitude: float) -> float:
    """κ at which the USA flow on the circle rests at a density with first moment `amplitude`.

    Stationary densities solve ρ ∝ exp(κ W∗ρ); κ is chosen at each sweep to hold the moment.
    """
    theta = 2 * np.pi * np.arange(256) / 256
    kernel = np.exp(beta * np.cos(theta[:, None] - theta)) / beta / 256
    density = 1 + 2 * amplitude * np.cos(theta)
    kappa = 0.0
    for _ in range(400):
        potential = kernel @ density
        tilt = lambda k, potential=potential: np.exp(k * (potential - potential.max()))
        moment = lambda k, tilt=tilt: (tilt(k) @ np.cos(theta)) / tilt(k).sum() - amplitude
        previous, kappa = kappa, float(root_scalar(moment, bracket=(0, 50)).root)
        density = tilt(kappa) / tilt(kappa).mean()
        if abs(kappa - previous) < 1e-13:
            return kappa
    raise AssertionError("the stationary state did not settle")


@pytest.mark.parametrize(("beta", "quoted"), [(2.0, 1.00121), (3.0, 0.99849), (5.0, 0.99247)])
def test_transition_order_against_stationary_states(beta, quoted):
    # A branch that starts towards larger κ is continuous; one that bends back is not.
    ratio = branch_kappa(beta, 0.1) / float(critical_kappa(beta, 2, normalized=False))
    assert ratio == pytest.approx(quoted, abs=6e-6)
    expected = "continuous" if ratio > 1 else "discontinuous"
    assert transition_order(beta, 2, normalized=False) == expected


def test_transition_order_is_open_for_softmax():
    assert transition_order(3.0, 2) is None


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("beta", [2.0, 15.0, 50.0])
def test_fastest_mode_against_a_full_scan(beta, normalized):
    degree = np.arange(1, 200)
    drift = ive(degree, beta) / beta * (1 / ive(0, beta) if normalized else math.exp(beta))
    for factor in (1.001, 1.1, 1.5, 4.0, 100.0):
        kappa = factor / drift[0]
        scan = 1 + np.argmax(degree**2 * (drift - 1 / kappa))
        assert fastest_mode_with_noise(beta, 2, kappa, normalized=normalized) == scan
    assert fastest_mode_with_noise(beta, 2, 0.999 / drift[0], normalized=normalized) is None


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: critical_kappa(-1.0, 2), "beta"),
        (lambda: tricritical_beta(1), "dim"),
        (lambda: transition_order(-1.0, 2, normalized=False), "beta"),
        (lambda: fastest_mode_with_noise(-1.0, 2, 3.0), "beta"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()


@pytest.mark.parametrize("dim", [2, 3, 100])
def test_logarithm_of_the_critical_noise_where_it_underflows(dim):
    for normalized in (True, False):
        direct = critical_kappa(5.0, dim, normalized=normalized)
        log = log_critical_kappa(5.0, dim, normalized=normalized)
        assert float(log) == pytest.approx(math.log(direct), rel=1e-12)
    beta = 2000.0
    with mpmath.workdps(30):  # κ_# = β^{d/2}/(2^ν Γ(d/2) I_{d/2}(β))
        half = mpmath.mpf(dim) / 2
        expected = half * mpmath.log(beta) - (half - 1) * mpmath.log(2) - mpmath.loggamma(half)
        expected = float(expected - mpmath.log(mpmath.besseli(half, beta)))
    assert critical_kappa(beta, dim, normalized=False) == 0
    assert float(log_critical_kappa(beta, dim, normalized=False)) == pytest.approx(expected)
