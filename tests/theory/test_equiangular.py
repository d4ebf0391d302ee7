"""γ_β(t) and the phase curve against closed forms in exponential integrals and against tokens."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from metastable.theory.equiangular import (
    concentration_bound,
    equiangular_cosine,
    equiangular_rate,
    log_phase_curve,
    phase_curve,
)


def exact_time(beta, n, gamma, *, normalized=True):
    """The same integral by partial fractions: Ei and E_1 at 40 digits, no quadrature."""
    with mp.workdps(40):
        b, g = mp.mpf(beta), mp.mpf(gamma)
        logs = (mp.log1p((n - 1) * g) - mp.log1p(-g)) / n
        if b == 0:
            return n * logs / 2
        x = b / (n - 1)
        near = mp.ei(b) - mp.ei(b * (1 - g))
        far = mp.exp(b + x) * (mp.e1(x) - mp.e1(x + b * g))
        peak = (near + far) / n  # ∫ e^{β(1−γ)}/((1−γ)((n−1)γ+1)) dγ
        return (peak + (n - 1) * logs) / 2 if normalized else n * mp.exp(-b) * peak / 2


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize(("beta", "n"), [(0.0, 2), (1.0, 32), (4.0, 5), (9.0, 64), (3.0, 10**6)])
def test_cosine_inverts_the_exact_time(beta, n, normalized):
    gammas = np.array([1e-9, 1e-4, 0.05, 0.4, 0.9, 0.9999])
    times = [float(exact_time(beta, n, g, normalized=normalized)) for g in gammas]
    found = equiangular_cosine(times, beta, n, normalized=normalized)
    # The last digit of the time itself moves γ by γ̇·t·ε, which no method can undo.
    speed = equiangular_rate(gammas, beta, n, normalized=normalized)
    limit = 1e-12 + 8 * np.finfo(float).eps * np.array(times) * speed
    assert np.all(np.abs(found - gammas) < limit)


@pytest.mark.parametrize("normalized", [True, False])
def test_cosine_is_the_angle_of_simulated_orthogonal_tokens(normalized):
    n, d, beta = 4, 5, 1.5

    def velocity(_, flat):
        x = flat.reshape(n, d)
        kernel = np.exp(beta * x @ x.T)
        a = kernel @ x / (kernel.sum(1, keepdims=True) if normalized else n)
        return (a - np.sum(a * x, 1, keepdims=True) * x).ravel()

    times = np.array([0.0, 0.3, 1.0, 2.0, 4.0])
    run = solve_ivp(velocity, (0, 4), np.eye(n, d).ravel(), "DOP853", times, rtol=1e-12, atol=1e-13)
    frames = run.y.T.reshape(-1, n, d)
    expected = equiangular_cosine(times, beta, n, normalized=normalized)
    for frame, gamma in zip(frames, expected, strict=True):
        cosines = (frame @ frame.T)[np.triu_indices(n, 1)]
        assert np.allclose(cosines, gamma, atol=1e-9)


# Published-style table of the phase curve, δ = 1e−3, computed independently for this project.
TABLE = {
    2: [3.800, 4.271, 5.163, 10.831, 39.163, 466.7],
    32: [5.186, 5.270, 5.458, 6.954, 15.995, 178.73],
    128: [5.879, 5.909, 5.979, 6.570, 10.353, 82.59],
    1024: [6.919, 6.925, 6.938, 7.057, 7.861, 24.05],
}


@pytest.mark.parametrize("n", TABLE)
def test_phase_curve_table(n):
    found = phase_curve([0, 1, 2, 4, 6, 9], n, 1e-3)
    assert np.allclose(found, TABLE[n], rtol=2e-4, atol=5e-4)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize(
    ("beta", "n", "delta"),
    [(0, 2, 1e-3), (30, 3, 1e-6), (300, 32, 1e-3), (1000, 2, 1e-3), (1000, 4096, 0.5)],
)
def test_log_phase_curve_keeps_its_digits_at_large_beta(beta, n, delta, normalized):
    with mp.workdps(40):
        exact = mp.log(exact_time(beta, n, 1 - mp.mpf(delta), normalized=normalized))
        found = log_phase_curve(beta, n, delta, normalized=normalized)
        assert abs(mp.mpf(float(found)) - exact) < 1e-13 * max(1, abs(exact))


def test_cosine_at_the_ends():
    assert equiangular_cosine(0.0, 5.0, 7) == 0
    assert equiangular_cosine(np.inf, 5.0, 7) == 1
    # β = 1000: nothing moves in a time of 1e300, at the speed 2/(e^β+n−1)
    assert equiangular_cosine(1e300, 1000.0, 4) == pytest.approx(
        2 * math.exp(math.log(1e300) - 1000), rel=1e-11
    )
    assert phase_curve(1000.0, 4) == np.inf


def test_late_rates():
    # 1 − γ decays at rate 2 (SA) and 2e^β (USA)
    for normalized, rate in [(True, 2.0), (False, 2 * math.e)]:
        start = exact_time(1, 8, 0.999, normalized=normalized)
        times = float(start) + np.array([0.0, 0.5])
        gap = 1 - equiangular_cosine(times, 1.0, 8, normalized=normalized)
        assert np.log(gap[0] / gap[1]) / 0.5 == pytest.approx(rate, rel=3e-3)


def test_concentration_bound_is_vacuous_until_dimension_is_astronomical():
    assert concentration_bound(0.0, 1.0, dim=10**50, tokens=2).vacuous
    d = 2 * 8**64  # (2n²)^64 for n = 2, doubled
    bound = concentration_bound(0.0, 1.0, dim=d, tokens=2)
    assert not bound.vacuous
    assert bound.probability == pytest.approx(1 - 2 ** (-1 / 64), rel=1e-9)
    assert bound.log_bound == pytest.approx(math.log(2 * math.sqrt(math.log(d) / d)), rel=1e-12)
    # the exponent is 10·max(1, β)·n·t, and the tail takes over when it is smaller
    later = concentration_bound(3.0, 2.5, dim=d, tokens=2)
    assert later.log_bound - bound.log_bound == pytest.approx(10 * 2.5 * 2 * 3)
    assert concentration_bound(
        3.0, 2.5, dim=d, tokens=2, tail=(1.0, 2.0)
    ).log_bound == pytest.approx(min(later.log_bound, -6.0))


@pytest.mark.parametrize(
    "call",
    [
        lambda: equiangular_cosine(-1.0, 1.0, 4),
        lambda: equiangular_cosine(1.0, -1.0, 4),
        lambda: phase_curve(1.0, 1),
        lambda: phase_curve(1.0, 4, 1.5),
        lambda: concentration_bound(1.0, 1.0, dim=1, tokens=4),
    ],
)
def test_bad_arguments_are_named(call):
    with pytest.raises(ValueError, match="must"):
        call()
