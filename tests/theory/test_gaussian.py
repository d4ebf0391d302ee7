"""Closed forms for Gaussians, against 50-digit arithmetic, an ODE solver and simulation."""

import math

import mpmath
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from metastable.theory.gaussian import (
    blow_up_time,
    collapsed_shape,
    covariance_at,
    effective_tokens,
    limit_covariance,
    limit_rank,
    logit_variance,
    longest_truncated_step,
    mean_at,
    sample_error,
)
from tests.gaussians import covariance

RANDOM = np.random.default_rng(0)
A, COV, MEAN = RANDOM.standard_normal((3, 3)), covariance(RANDOM, 3), RANDOM.standard_normal(3)


def test_covariance_is_the_inverse_of_an_affine_function_of_time():
    t = 0.7 * blow_up_time(COV, A)
    with mpmath.workdps(50):
        exact = mpmath.inverse(
            mpmath.inverse(mpmath.matrix(COV.tolist()))
            - mpmath.mpf(t) * mpmath.matrix((A + A.T).tolist())
        )
        exact = np.array(exact.tolist(), float)
    assert np.allclose(covariance_at(t, COV, A), exact, rtol=1e-12)


def test_mean_and_covariance_solve_the_ode():
    symmetric = (A + A.T) / 2
    end = 0.6 * blow_up_time(COV, symmetric)

    def right(_, y):
        mean, cov = y[:3], y[3:].reshape(3, 3)
        turned = cov @ symmetric @ cov
        return np.concatenate([mean + cov @ symmetric @ mean, (turned + turned.T).ravel()])

    start = np.concatenate([MEAN, COV.ravel()])
    y = solve_ivp(right, (0, end), start, "DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    assert np.allclose(mean_at(end, MEAN, COV, symmetric), y[:3], rtol=1e-9)
    assert np.allclose(covariance_at(end, COV, symmetric), y[3:].reshape(3, 3), rtol=1e-9)


def test_mean_has_no_trouble_where_a_has_a_kernel():
    flat = np.diag([0.0, 1.0, -1.0])
    found = mean_at(0.3, np.ones(3), np.eye(3), flat)
    # each coordinate alone: e^t (1 − 2ta)^{−1/2}
    assert np.allclose(found, math.exp(0.3) / np.sqrt(1 - 0.6 * np.diag(flat)), rtol=1e-14)


def test_singular_starts_keep_their_range():
    thin = np.outer([1.0, 2.0, 0.0], [1.0, 2.0, 0.0])
    rate = np.array([1.0, 2.0, 0.0]) @ (A + A.T) @ np.array([1.0, 2.0, 0.0])
    expected = 1 / rate if rate > 0 else math.inf
    assert blow_up_time(thin, A) == pytest.approx(expected, rel=1e-12)
    assert np.allclose(covariance_at(-0.1, thin, A), thin / (1 + 0.1 * rate), rtol=1e-12)


def test_limits_are_reached_by_the_closed_form():
    lost = np.diag([-1.0, -2.0, 0.0])
    assert limit_rank(COV, lost) == 1
    assert np.allclose(covariance_at(1e9, COV, lost), limit_covariance(COV, lost), atol=1e-8)
    grow = np.diag([0.5, -1.0, 0.2])
    late = covariance_at((1 - 1e-9) * blow_up_time(COV, grow), COV, grow)
    assert np.allclose(late / np.trace(late), collapsed_shape(COV, grow), atol=1e-7)
    twice = collapsed_shape(np.eye(3), np.diag([1.0, 1.0, 0.0]))
    assert np.allclose(twice, np.diag([0.5, 0.5, 0.0]))
    assert math.isinf(blow_up_time(COV, lost))


def test_longest_step_is_where_the_smallest_eigenvalue_vanishes():
    linear = A @ COV
    step = longest_truncated_step(COV, linear)
    edge = COV + step * (linear @ COV + COV @ linear.T)
    assert abs(np.linalg.eigvalsh(edge)[0]) < 1e-13
    assert math.isinf(longest_truncated_step(COV, np.eye(3)))


@pytest.mark.parametrize("samples", [60, 1000])
def test_sample_errors_have_the_stated_size_and_band(samples):
    random, dim = np.random.default_rng(3), 5
    cov, mean = covariance(random, dim), np.arange(1.0, 6.0)
    law = sample_error(mean, cov, samples)
    x = random.standard_normal((1500, samples, dim)) @ np.linalg.cholesky(cov).T
    centres = x.mean(axis=1)
    means = np.linalg.norm(centres, axis=1) / np.linalg.norm(mean)
    gaps = np.einsum("rni,rnj->rij", x, x) / samples - np.einsum("ri,rj->rij", centres, centres)
    covs = np.linalg.norm(gaps - cov, axis=(1, 2)) / np.linalg.norm(cov)
    assert np.sqrt(np.mean(means**2)) == pytest.approx(law.mean, rel=0.03)
    assert np.sqrt(np.mean(covs**2)) == pytest.approx(law.cov, rel=0.03)
    for errors, (low, high) in ((means, law.mean_band), (covs, law.cov_band)):
        assert np.mean((low < errors) & (errors < high)) == pytest.approx(0.95, abs=0.025)


def test_logit_variance_is_that_of_the_logits():
    random = np.random.default_rng(4)
    x, y = random.standard_normal((2, 3)), random.standard_normal((200_000, 3))
    y = y @ np.linalg.cholesky(COV).T
    assert np.allclose(logit_variance(x, COV, A), np.var(y @ A @ x.T, axis=0), rtol=0.03)


@pytest.mark.parametrize(
    ("variance", "tokens", "tolerance"),
    [(0.5, 20_000, 0.05), (2.0, 20_000, 0.15), (400.0, 2000, 0.3)],
)
def test_effective_tokens_of_normal_logits(variance, tokens, tolerance):
    random = np.random.default_rng(5)
    logits = math.sqrt(variance) * random.standard_normal((200, tokens))
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares = (weights**2).sum(axis=1) / weights.sum(axis=1) ** 2
    assert 1 / np.mean(shares) == pytest.approx(effective_tokens(variance, tokens), rel=tolerance)


def test_effective_tokens_cross_the_freezing_without_a_jump():
    # Monte Carlo with as many samples as make its standard error 2 %.
    random, n = np.random.default_rng(6), 20_000
    for factor in (0.9, 0.99, 1.01, 1.1):
        variance = factor * 2 * math.log(n)
        shares = []
        for _ in range(30):
            logits = math.sqrt(variance) * random.standard_normal((50, n))
            weights = np.exp(logits - logits.max(axis=1, keepdims=True))
            shares.append((weights**2).sum(axis=1) / weights.sum(axis=1) ** 2)
        expected = 1 / np.mean(shares)
        assert effective_tokens(variance, n) == pytest.approx(expected, rel=0.09)
    for edge in (0.5 * math.log(n), 9.0, 2 * math.log(n)):
        below, above = (effective_tokens(edge * (1 + sign * 1e-9), n) for sign in (-1, 1))
        assert below == pytest.approx(above, rel=1e-7)


@pytest.mark.parametrize("variance", [1e-4, 0.3, 4.0, 8.99, 9.01, 50.0, 1e4, 1e10])
def test_effective_tokens_of_a_pair(variance):
    # Σp² = 1 − ½ sech²(D/2) with D normal of variance 2s².
    sd = math.sqrt(2 * variance)
    with mpmath.workdps(25):
        density = lambda z: mpmath.npdf(z) * mpmath.sech(sd * z / 2) ** 2 / 2
        ends = [0, min(6, 1 / sd), min(8, 5 / sd), min(9, 20 / sd), min(10, 60 / sd)]
        expected = float(1 / (1 - 2 * mpmath.quad(density, ends)))
    assert effective_tokens(variance, 2) == pytest.approx(expected, rel=1e-10)


def test_effective_tokens_of_a_crowd():
    # n e^{−s²} below s² = log n/2, with a relative error that falls with n.
    assert effective_tokens(1.0, 1e18) == pytest.approx(1e18 * math.exp(-1), rel=1e-12)
    assert effective_tokens(9.5, 1e18) == pytest.approx(1e18 * math.exp(-9.5), rel=1e-8)
    # Frozen: 1/(1 − √(2 log n)/s) to the logarithmic corrections of the edge.
    edge = math.sqrt(2 * math.log(1e18))
    assert effective_tokens(1e6, 1e18) == pytest.approx(1 / (1 - edge / 1e3), rel=1e-3)
    assert effective_tokens(0.0, 7) == effective_tokens(1e-30, 7) == 7
    assert effective_tokens(5.0, 1) == 1
    with pytest.raises(ValueError, match="tokens must be a number >= 1; got 0"):
        effective_tokens(1.0, 0)


def test_the_mean_outlives_the_exponential():
    # ṁ = (1 + σ²a)m in one dimension: m = m_0 e^t (1 − 2ta σ_0²)^{−1/2}.
    mean, cov, form = np.array([1e-30, 0.0]), np.eye(2), -1e-4 * np.eye(2)
    with mpmath.workdps(30):
        grown = mpmath.exp(740) * mpmath.mpf(1e-30) / mpmath.sqrt(1 + mpmath.mpf(2e-4) * 740)
    assert mean_at(740.0, mean, cov, form)[0] == pytest.approx(float(grown), rel=1e-11)
    assert mean_at(2000.0, mean, cov, form).tolist() == [math.inf, 0.0]


def test_refusals():
    with pytest.raises(ValueError, match="before the blow-up"):
        covariance_at(1.0, np.eye(1), np.eye(1))
    with pytest.raises(ValueError, match="symmetric"):
        mean_at(0.1, MEAN, COV, A)
    with pytest.raises(ValueError, match="no positive direction"):
        limit_rank(COV, np.eye(3))
    with pytest.raises(ValueError, match="positive direction"):
        collapsed_shape(COV, -np.eye(3))
    with pytest.raises(ValueError, match="positive semidefinite"):
        blow_up_time(-np.eye(2), np.eye(2))
    with pytest.raises(ValueError, match="one size"):
        blow_up_time(np.eye(2), np.eye(3))
