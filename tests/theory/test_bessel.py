"""Modified Bessel functions against 50-digit arithmetic (mpmath) and closed forms."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

from metastable.theory.bessel import (
    bessel_ratio,
    inverse_bessel_ratio,
    log_bessel,
    log_bessel_ratio,
    log_reduced_bessel,
)

# Orders d/2 − 1 + ℓ, on both sides of the change of expansion at μ² + x² = 64².
ORDERS = [0.0, 0.5, 1.0, 3.5, 31.0, 62.5, 63.5, 64.0, 511.0, 2047.0, 4047.0, 12047.0]
ARGUMENTS = [1e-6, 1e-3, 1.0, 10.0, 63.0, 64.5, 100.0, 1e3, 1e4, 1e6]


@pytest.fixture(autouse=True)
def fifty_digits():
    with mpmath.workdps(50):
        yield


def log_oracle(order: float, x: float):
    if order < 5000 or x < 1e5:
        return mp.log(mp.besseli(mpf(order), mpf(x), maxterms=10**6))
    # mpmath would sum 10⁶ power series terms here. Hankel's expansion takes a few hundred, and its
    # largest term, e^{μ²/2x} < 1e33, leaves far more than 50 of 130 digits.
    with mpmath.workdps(130):
        x, square = mpf(x), 4 * mpf(order) ** 2
        term = total = mpf(1)
        k = 0
        while abs(term) > mpf(10) ** -60:
            k += 1
            term *= -(square - (2 * k - 1) ** 2) / (8 * k * x)
            total += term
        return x - mp.log(2 * mp.pi * x) / 2 + mp.log(total)


def assert_log_right(actual, expected, where):
    """1e-12 of the value while it is a normal double, else 1e-14 of the logarithm."""
    error = abs(mpf(float(actual)) - expected)
    bound = 1e-12 if abs(expected) < 708 else 1e-14 * abs(expected)
    assert error <= bound, (where, float(error), float(expected))


@pytest.mark.parametrize("x", ARGUMENTS)
def test_log_bessel_against_mpmath(x):
    actual = log_bessel(ORDERS, x)
    for order, value in zip(ORDERS, actual, strict=True):
        assert_log_right(value, log_oracle(order, x), (order, x))


def test_log_bessel_where_its_terms_cancel():
    # √(μ²+x²) and μ asinh(μ/x) agree at μ/x = 1.50888: I is near one, its parts near e^12000.
    rng = np.random.default_rng(0)
    orders = rng.uniform(2000, 12047, 40)
    x = orders / rng.uniform(1.45, 1.57, 40)
    for order, v, value in zip(orders, x, log_bessel(orders, x), strict=True):
        assert_log_right(value, log_oracle(order, v), (order, v))


@pytest.mark.parametrize("x", ARGUMENTS)
def test_ratios_against_mpmath(x):
    shifts = [0, 1, 3, 200, 2000, 10_000]
    orders = [0.0, 0.5, 31.0, 2047.0]
    logs = log_bessel_ratio(np.array(orders)[:, None], shifts, x)
    ratios = bessel_ratio(np.array(orders)[:, None], shifts, x)
    for i, order in enumerate(orders):
        base = log_oracle(order, x)
        for j, shift in enumerate(shifts):
            expected = log_oracle(order + shift, x) - base
            assert_log_right(logs[i, j], expected, (order, shift, x))
            if abs(expected) < 708:
                assert abs(mpf(float(ratios[i, j])) / mp.exp(expected) - 1) <= 1e-12


def test_one_step_ratio_is_right_to_a_few_units_in_the_last_place():
    rng = np.random.default_rng(1)
    orders = rng.integers(0, 200, 300) / 2
    x = 10 ** rng.uniform(-6, 4, 300)
    for order, v, ratio in zip(orders, x, bessel_ratio(orders, 1, x), strict=True):
        expected = mp.besseli(mpf(order) + 1, mpf(v)) / mp.besseli(mpf(order), mpf(v))
        assert abs(mpf(float(ratio)) / expected - 1) < 1e-15, (order, v)


def test_reduced_bessel_where_power_and_factorial_cancel():
    # μ = 2047, s = x = 10⁴: e^−495 made of Γ(2048) = e^13564, (2/x)^2047 = e^−17435, I = e^3375.
    orders, shifts, xs = [2047.0, 31.0, 0.0], [0, 1, 1000, 10_000], [3.0, 500.0, 1e4]
    for order in orders:
        for x in xs:
            outer = mp.loggamma(mpf(order) + 1) + order * mp.log(2 / mpf(x))
            for shift, value in zip(shifts, log_reduced_bessel(order, shifts, x), strict=True):
                expected = outer + log_oracle(order + shift, x)
                assert_log_right(value, expected, (order, shift, x))


def test_half_integer_closed_form():
    x = np.array([1e-3, 0.5, 5.0, 50.0, 500.0])
    exact = np.sqrt(2 / (np.pi * x)) * np.sinh(x)
    np.testing.assert_allclose(np.exp(log_bessel(0.5, x)), exact, rtol=1e-13)
    x = x[1:]  # the closed form of the ratio cancels for small x
    np.testing.assert_allclose(bessel_ratio(0.5, 1, x), 1 / np.tanh(x) - 1 / x, rtol=1e-14)


def test_zero_argument():
    assert log_bessel([0, 0.5, 2000], 0).tolist() == [0.0, -np.inf, -np.inf]
    assert bessel_ratio([0, 0.5, 2000], 1, 0).tolist() == [0, 0, 0]
    assert log_reduced_bessel(5, [0, 1], 0).tolist() == [0.0, -np.inf]


def test_broadcasting():
    actual = bessel_ratio(np.zeros((2, 1, 1)), np.arange(3), np.array([[1.0], [2.0]]))
    assert actual.shape == (2, 2, 3)
    assert actual[1, 1, 2] == bessel_ratio(0, 2, 2.0)
    assert log_bessel(1, 2.0).shape == ()


@pytest.mark.parametrize("order", [0.0, 0.5, 1.0, 63.5, 2048.0, 12047.0])
@pytest.mark.parametrize("value", [1e-6, 0.01, 0.5, 0.99, 0.9999])
def test_inverse_ratio_against_mpmath(order, value):
    x = inverse_bessel_ratio(order, value)
    if x > 2e4 and order > 100:
        # mpmath needs minutes here; the forward ratio was checked above.
        assert bessel_ratio(order, 1, x) == pytest.approx(value, rel=1e-14)
        return
    forward = mp.exp(log_oracle(order + 1, x) - log_oracle(order, x))
    slope = 1 - forward**2 - (2 * order + 1) / mpf(x) * forward  # exact derivative of the ratio
    # one rounding of the ratio and a few of x
    assert abs(forward - mpf(value)) <= 1e-15 * value + 1e-15 * slope * mpf(x)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: log_bessel(-1, 2.0), "order"),
        (lambda: log_bessel(1, -2.0), "x must"),
        (lambda: log_bessel(1, np.nan), "x must"),
        (lambda: bessel_ratio(1, -1, 2.0), "shift"),
        (lambda: bessel_ratio(1, 0.5, 2.0), "shift"),
        (lambda: inverse_bessel_ratio(1, 1.0), "value"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()


def test_ratios_far_beyond_the_square_root_of_the_largest_double():
    # I_{μ+1}/I_μ = 1 − (2μ+1)/(2x) + …, where the square of x overflows.
    assert bessel_ratio(3.0, 1, 1e300) == 1.0
    assert 1 - bessel_ratio(0.0, 1, 1e10) == pytest.approx(0.5e-10, rel=1e-5)
