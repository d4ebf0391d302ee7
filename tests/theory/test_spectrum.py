"""Growth rates against 50-digit arithmetic, quadrature and the velocity field itself."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.integrate import quad
from scipy.special import eval_gegenbauer, ive

from metastable.theory.bessel import log_far_ratio
from metastable.theory.spectrum import (
    dominant_mode,
    exit_time,
    growth_rates,
    log_exit_time,
    log_growth_rates,
    log_rates_at,
    max_rate,
    multihead_rates,
    potential_rates,
    switch_points,
)

DEGREES = [1, 2, 3, 5, 10, 50, 200, 1000, 2000]


def mp_log_rate(beta: float, dim: int, degree: int, normalized: bool):
    """log λ_ℓ from its definition, in the working precision of mpmath."""
    x, nu = mpf(beta), mpf(dim) / 2 - 1
    besseli = lambda order: mp.log(mp.besseli(order, x, maxterms=10**6))
    log_rate = mp.log(degree * (degree + dim - 2) / x) + besseli(nu + degree)
    if normalized:
        return log_rate - besseli(nu)
    return log_rate + mp.loggamma(nu + 1) + nu * mp.log(2 / x)


@pytest.mark.parametrize("dim", [2, 3, 4, 8, 64, 1024, 4096])
@pytest.mark.parametrize("beta", [1e-6, 1e-3, 1.0, 10.0, 100.0, 1e3, 1e4, 1e6])
@pytest.mark.parametrize("normalized", [True, False])
def test_rates_against_fifty_digits(beta, dim, normalized):
    rates = growth_rates(beta, dim, DEGREES[-1], normalized=normalized)
    logs = log_growth_rates(beta, dim, DEGREES[-1], normalized=normalized)
    assert not np.isnan(rates).any() and not np.isnan(logs).any()
    with mpmath.workdps(50):
        for degree in DEGREES:
            expected = mp_log_rate(beta, dim, degree, normalized)
            log_error = abs(mpf(float(logs[degree - 1])) - expected)
            if abs(expected) < 708:
                error = abs(mpf(float(rates[degree - 1])) / mp.exp(expected) - 1)
                assert max(error, log_error) <= 1e-12, (degree, float(error), float(log_error))
            else:
                assert log_error <= 1e-14 * abs(expected), (degree, float(log_error / expected))
                extreme = rates[degree - 1]
                assert extreme > 1e307 if expected > 0 else extreme < 1e-307


def circle_rate(betas, weights, degree, *, normalized, sign=1.0, kappa=np.inf):
    """Growth of 1 + ε cos kθ under the continuity equation, velocities by quadrature and FFT."""
    n, eps = 256, 1e-5
    theta = 2 * np.pi * np.arange(n) / n
    density = 1 + eps * np.cos(degree * theta)
    derivative = lambda f: np.fft.ifft(1j * np.fft.fftfreq(n, 1 / n) * np.fft.fft(f)).real
    velocity = np.zeros(n)
    for beta, weight in zip(betas, weights, strict=True):
        delta = theta[:, None] - theta
        kernel = np.exp(beta * np.cos(delta))
        force = -(kernel * np.sin(delta)) @ density / n
        velocity += weight * sign * force / ((kernel @ density / n) if normalized else 1)
    change = -derivative(density * velocity) + derivative(derivative(density)) / kappa
    return 2 * np.mean(change * np.cos(degree * theta)) / eps


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("beta", [-3.0, 0.0, 0.5, 5.0])
@pytest.mark.parametrize(("sign", "kappa"), [(1, np.inf), (-1, np.inf), (1, 4.0), (-1, 4.0)])
def test_rates_are_those_of_the_continuity_equation(normalized, beta, sign, kappa):
    rates = growth_rates(beta, 2, 4, normalized=normalized, sign=sign, kappa=kappa)
    expected = [
        circle_rate([beta], [1.0], k, normalized=normalized, sign=sign, kappa=kappa)
        for k in range(1, 5)
    ]
    np.testing.assert_allclose(rates, expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("normalized", [True, False])
def test_heads_add(normalized):
    betas, weights = [1.0, 6.0, 2.0], [0.5, 0.8, -0.3]
    rates = multihead_rates(betas, weights, 2, 4, normalized=normalized, kappa=9.0)
    expected = [
        circle_rate(betas, weights, k, normalized=normalized, kappa=9.0) for k in range(1, 5)
    ]
    np.testing.assert_allclose(rates, expected, rtol=1e-7, atol=1e-7)


def test_known_values():
    # THEORY §1: d=2 β=5 k=3 and d=3 β=5 ℓ=3, USA and SA.
    assert growth_rates(5.0, 2, 3, normalized=False)[2] == pytest.approx(18.5961, abs=5e-5)
    assert growth_rates(5.0, 2, 3)[2] == pytest.approx(0.682678, abs=5e-7)
    assert growth_rates(5.0, 3, 3, normalized=False)[2] == pytest.approx(9.97809, abs=5e-6)
    assert growth_rates(5.0, 3, 3)[2] == pytest.approx(0.672349, abs=5e-7)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("dim", [2, 3, 7, 4096])
def test_zero_beta(dim, normalized):
    # β → 0: c_1/β → 1/d and c_ℓ/β → 0; c_0 → 1, so both clocks agree.
    rates = growth_rates([0.0, 1e-12, 5e-324], dim, 5, normalized=normalized)
    assert rates[0, 0] == pytest.approx((dim - 1) / dim, rel=4e-16)
    assert rates[0, 1:].tolist() == [0, 0, 0, 0]
    np.testing.assert_allclose(rates[1:], rates[[0, 0]], atol=1e-12)


def test_overflow_is_infinite_and_its_logarithm_is_not():
    rates = growth_rates([10.0, 1e5], 3, 2, normalized=False)
    assert np.isfinite(rates[0]).all() and np.isinf(rates[1]).all()
    assert np.isneginf(growth_rates(1e5, 3, 2, normalized=False, sign=-1)).all()
    assert np.isfinite(log_growth_rates(1e5, 3, 2, normalized=False)).all()


@pytest.mark.parametrize("dim", [2, 3, 4, 9])
def test_potential_rates_against_adaptive_quadrature(dim):
    potential = lambda s: 1 / (1.3 - s) + np.cos(3 * s)
    alpha = dim / 2 - 1

    def coefficient(degree):
        # s = cos φ turns the weight into sin^{d−2}φ, regular also on the circle.
        legendre = lambda s: (
            math.cos(degree * math.acos(s))
            if dim == 2
            else eval_gegenbauer(degree, alpha, s) / eval_gegenbauer(degree, alpha, 1.0)
        )
        weight = lambda phi: math.sin(phi) ** (dim - 2)
        top = quad(
            lambda phi: potential(math.cos(phi)) * legendre(math.cos(phi)) * weight(phi),
            0,
            math.pi,
            epsabs=1e-13,
            limit=200,
        )[0]
        return top / quad(weight, 0, math.pi, epsabs=1e-13)[0]

    expected = [ell * (ell + dim - 2) * coefficient(ell) for ell in range(1, 7)]
    np.testing.assert_allclose(potential_rates(potential, dim, 6), expected, atol=1e-10)


@pytest.mark.parametrize("dim", [2, 3, 64, 4096])
@pytest.mark.parametrize("beta", [0.5, 5.0, 30.0])
def test_exponential_potential_gives_the_usa_rates(dim, beta):
    rates = potential_rates(lambda s: np.exp(beta * s) / beta, dim, 5)
    expected = growth_rates(beta, dim, 5, normalized=False)
    degree = np.arange(1, 6)
    floor = 1e-12 * degree * (degree + dim - 2) * math.exp(beta) / beta
    assert np.all(np.abs(rates - expected) <= floor)


def test_potential_with_a_kink_is_refused():
    with pytest.raises(ValueError, match="settled"):
        potential_rates(lambda s: np.abs(s - 0.3), 3, 4)


def test_published_dominant_modes():
    # arXiv:2410.23228: three clusters at β = 5, four at β = 7, on the circle.
    assert [dominant_mode(5.0, 2), dominant_mode(7.0, 2)] == [3, 4]


@pytest.mark.parametrize("dim", [2, 3, 4, 8, 128])
def test_dominant_mode_against_a_full_scan(dim):
    degree = np.arange(1, 200)
    for beta in [0.01, 1, 2, 3, 4, 6, 9, 15, 30, 50, 100, 200, 1000]:
        rates = degree * (degree + dim - 2) * ive(degree + dim / 2 - 1, beta)
        assert dominant_mode(beta, dim) == degree[np.argmax(rates)], beta


@pytest.mark.parametrize(("beta", "dim"), [(1e6, 2), (1e6, 4096), (3e5, 3), (1e4, 64)])
def test_dominant_mode_at_large_beta_beats_its_neighbours(beta, dim):
    mode = dominant_mode(beta, dim)
    nu = dim / 2 - 1
    assert mode == pytest.approx(math.sqrt(2 * beta + nu**2) - nu, abs=2)
    with mpmath.workdps(50):
        before, best, after = (
            mp_log_rate(beta, dim, ell, True) for ell in (mode - 1, mode, mode + 1)
        )
        assert best > before and best > after


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("beta", [3.0, 20.0, 60.0])
def test_noisy_dominant_mode_against_a_full_scan(beta, normalized):
    degree = np.arange(1, 200)
    scale = 1 / ive(0, beta) if normalized else math.exp(beta)
    drift = ive(degree, beta) * scale / beta
    for kappa in np.array([0.9, 1.01, 1.2, 2.0, 10.0]) / drift[0]:
        scan = degree**2 * (drift - 1 / kappa)
        assert dominant_mode(beta, 2, normalized=normalized, kappa=kappa) == 1 + np.argmax(scan)
        expected = pytest.approx(scan.max(), rel=1e-9)
        assert max_rate(beta, 2, normalized=normalized, kappa=kappa) == expected


def test_noisy_dominant_mode_where_usa_overflows():
    assert dominant_mode(1e6, 2, normalized=False, kappa=1.0) == 1414


def test_switch_points():
    # Field report §2a, and equality of the two rates in 50 digits.
    circle = [1.04446, 3.16543, 6.21130, 10.2285, 15.2363, 21.2405, 28.2430, 36.2446]
    np.testing.assert_allclose(switch_points(2, 8), circle, rtol=6e-6)
    sphere = [1.81616, 4.42529, 7.96238, 12.4774, 17.9849]
    np.testing.assert_allclose(switch_points(3, 5), sphere, rtol=6e-6)
    assert switch_points(8, 1)[0] == pytest.approx(5.251, abs=5e-4)
    for dim in (2, 3, 8, 128):
        for k, beta in enumerate(switch_points(dim, 4), start=1):
            with mpmath.workdps(50):
                gap = mp_log_rate(beta, dim, k, True) - mp_log_rate(beta, dim, k + 1, True)
                assert abs(gap) < 1e-13
            assert dominant_mode(beta * (1 - 1e-9), dim) == k
            assert dominant_mode(beta * (1 + 1e-9), dim) == k + 1


def test_switch_point_limits():
    # k ≫ d: ½[k(k+d−1) + (d−1)/2]; d → ∞: β_1/d → 2/3 with a correction of order 1/d.
    assert switch_points(2, 400)[-1] == pytest.approx((400 * 401 + 0.5) / 2, abs=1e-5)
    assert switch_points(4096, 1)[0] / 4096 == pytest.approx(2 / 3, abs=1 / 4096)


def test_largest_softmax_rate_tends_to_two_over_e():
    # λ ≈ (L/β)e^{−L/2β} has its maximum 2/e at L = 2β; corrections are O(1/β).
    for dim in (2, 3, 8):
        assert max_rate(1e6, dim) == pytest.approx(2 / math.e, abs=1e-5)


def test_exit_time():
    # Field report §2a: SA, β = 5, n = 10³ and 2·10⁴.
    rate = max_rate(5.0, 2)
    assert exit_time(1000, rate) == pytest.approx(5.06, abs=5e-3)
    assert exit_time(20_000, rate) == pytest.approx(7.25, abs=5e-3)
    assert exit_time(1000, -0.1) == math.inf


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: growth_rates(1.0, 1, 3), "dim"),
        (lambda: growth_rates(1.0, 2, 0), "modes"),
        (lambda: growth_rates(1.0, 2, 3, sign=2), "sign"),
        (lambda: growth_rates(1.0, 2, 3, kappa=0.0), "kappa"),
        (lambda: growth_rates(np.inf, 2, 3), "beta"),
        (lambda: log_growth_rates(-1.0, 2, 3), "beta"),
        (lambda: dominant_mode(-1.0, 2), "beta"),
        (lambda: dominant_mode(1.0, 2, kappa=-1.0), "kappa"),
        (lambda: multihead_rates([1.0, 2.0], [1.0], 2, 3), "weights"),
        (lambda: switch_points(2, 0), "count"),
        (lambda: exit_time(0, 1.0), "tokens"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()


DRAWN = [
    (int(dim), float(beta), bool(clock))
    for dim, beta, clock in zip(
        np.random.default_rng(7).permutation(np.arange(2, 41)),
        10 ** np.random.default_rng(8).uniform(-2, 3, 39),
        np.random.default_rng(9).integers(0, 2, 39),
        strict=True,
    )
]


@pytest.mark.parametrize(("dim", "beta", "normalized"), [*DRAWN, (5, 3.0, False), (5, 3.0, True)])
def test_rates_in_dimensions_drawn_at_random(dim, beta, normalized):
    rates = growth_rates(beta, dim, 12, normalized=normalized)
    with mpmath.workdps(50):
        logs = [mp_log_rate(beta, dim, degree, normalized) for degree in range(1, 13)]
        expected = [mp.exp(log) for log in logs]
        for rate, log, right in zip(rates, logs, expected, strict=True):
            if abs(log) < 700:
                assert rate == pytest.approx(float(right), rel=1e-11)
        chosen = log_rates_at(beta, dim, [1, 5, 12], normalized=normalized)
        np.testing.assert_allclose(chosen, [float(logs[k]) for k in (0, 4, 11)], rtol=1e-11)


@pytest.mark.parametrize("x", [1e8, 1e12, 1e30, 1e300])
@pytest.mark.parametrize("order", [0.0, 0.5, 37.0])
def test_far_ratio_against_the_hankel_series(x, order):
    """log[I_{μ+s}/I_μ] at x ≫ μ²: mpmath's own asymptotic series, to the 60th digit."""
    for shift in (1.0, 1000.0, 0.7 * math.sqrt(x), 3 * math.sqrt(x)):
        with mpmath.workdps(60 + int(math.log10(x))):
            near, far = (mp.log(mp.besseli(mpf(order) + mpf(s), mpf(x))) for s in (0, shift))
            expected = float(far - near)
        assert float(log_far_ratio(order, shift, x)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dim", [2, 3, 7, 1000])
@pytest.mark.parametrize("beta", [1e8, 3.3e9, 1e12])
def test_far_dominant_mode_against_many_digits(beta, dim):
    mode = dominant_mode(beta, dim)
    with mpmath.workdps(40):
        before, best, after = (mp_log_rate(beta, dim, mode + j, True) for j in (-1, 0, 1))
    assert best > before and best >= after
    assert max_rate(beta, dim) == pytest.approx(float(mp.exp(best)), rel=1e-10)


def test_dominant_mode_is_continuous_where_its_formulas_change():
    for dim in (2, 3, 64):
        for beta in (1e8, 1e24):
            below, above = (dominant_mode(beta * (1 + sign * 1e-14), dim) for sign in (-1, 1))
            assert abs(above - below) <= 1 + 1e-13 * above
    # k(k+d−1) + (d−1)/2 = 2β_k, exactly solvable: β in the middle between two switches.
    k = 10**20
    assert dominant_mode(float(k * k // 2), 2) == pytest.approx(k, rel=1e-15)
    assert dominant_mode(1e300, 2) == pytest.approx(math.sqrt(2e300), rel=1e-14)


@pytest.mark.parametrize("share", [1.0000001, 1.001, 1.5, 20.0])
def test_far_mode_with_noise_is_that_of_the_list(share):
    # Just below and just above the switch of formulas, in a dimension where ℓ* is short.
    near, far = 0.999999e8, 1.000001e8
    for dim in (2, 3, 100):
        modes = [dominant_mode(beta, dim, kappa=share * beta) for beta in (near, far)]
        assert abs(modes[0] - modes[1]) <= 1 + 1e-5 * modes[0]


def test_scale_free_limit_with_noise():
    # β → ∞ on the circle: λ(x) = 2x²(e^{−x²} − c), x = ℓ/√(2β) and c = β/κ; for c = 1/2 the
    # maximum solves e^{−x²}(1 − x²) = 1/2.
    with mpmath.workdps(30):
        x = mp.findroot(lambda x: mp.exp(-x * x) * (1 - x * x) - mpf(1) / 2, 0.5)
        rate = float(2 * x * x * (mp.exp(-x * x) - mpf(1) / 2))
    assert dominant_mode(1e300, 2, kappa=2e300) == pytest.approx(float(x) * 2e300**0.5, rel=1e-9)
    assert max_rate(1e300, 2, kappa=2e300) == pytest.approx(rate, rel=1e-12)


def test_log_exit_time():
    assert log_exit_time(1000, math.log(0.7)) == pytest.approx(math.log(exit_time(1000, 0.7)))
    assert log_exit_time(1, 5.0) == -math.inf
    with pytest.raises(ValueError, match="tokens must be >= 1"):
        log_exit_time(0, 1.0)
