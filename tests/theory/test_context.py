"""One layer on equicorrelated tokens against the vectors themselves, and its long-context limit."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from metastable.theory.context import (
    accumulation_scale,
    cap_constant,
    context_regime,
    critical_beta,
    critical_scaling,
    expected_gap_count,
    layer_correlation,
    row_law,
    window_law,
)


@pytest.mark.parametrize(("rho", "gamma", "n"), [(0.3, 1.0, 7), (0.5, 2.0, 50), (0.9, 4.0, 20)])
def test_finite_n_is_the_layer_itself(rho, gamma, n):
    gram = np.full((n, n), rho) + (1 - rho) * np.eye(n)
    x = np.linalg.cholesky(gram)  # n unit rows with inner products ρ
    kernel = np.exp(gamma * math.log(n) * x @ x.T)
    y = kernel @ x / kernel.sum(1, keepdims=True)
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    cosines = (y @ y.T)[np.triu_indices(n, 1)]
    assert np.allclose(cosines, layer_correlation(rho, gamma, n), atol=1e-13)


@pytest.mark.parametrize("rho", [0.1, 0.5, 0.8])
def test_three_regimes_are_the_limit(rho):
    critical = critical_scaling(rho)
    for factor in (0.5, 1.0, 1.5):
        limit = layer_correlation(rho, factor * critical)
        far = layer_correlation(rho, factor * critical, tokens=1e60)
        assert far == pytest.approx(limit, abs=1e-12)
    assert layer_correlation(rho, critical) == pytest.approx(4 * rho / (1 + 3 * rho))
    assert layer_correlation(rho, 0.9 * critical) == 1
    assert layer_correlation(rho, 1.1 * critical) == rho


def test_bad_arguments_are_named():
    for call in (
        lambda: critical_scaling(1.0),
        lambda: layer_correlation(0.5, -1.0),
        lambda: layer_correlation(0.5, 1.0, tokens=1),
        lambda: window_law(0.0, 3),
        lambda: window_law(1.0, 1),
        lambda: critical_beta(1, 10),
        lambda: expected_gap_count(2.1, 3, 10),
        lambda: accumulation_scale([0.0], [2.0]),
    ):
        with pytest.raises(ValueError, match="must"):
            call()


def law_on_the_sphere(scale):
    """E Σw², E max w and entropy on S², where the inner integrals are elementary (mpmath)."""
    rate = 1 / (2 * mpmath.mpf(scale))
    ein = lambda v: mpmath.euler + mpmath.log(v) + mpmath.e1(v)  # ∫_0^1 (1−e^{−vz})dz/z
    damp = lambda v: mpmath.exp(-v - rate * ein(v))
    squares = lambda v: (1 - mpmath.exp(-v) * (1 + v)) / v**2  # ∫_0^1 z e^{−vz}dz
    logs = lambda v: (mpmath.log(v) + mpmath.euler + mpmath.e1(v)) / v  # −∫_0^1 log z e^{−vz}dz
    integral = lambda f: float(mpmath.quad(f, [0, 0.1, 1, 4, 15, 60]))
    entropy = lambda v: mpmath.exp(-v) * (1 - mpmath.exp(-rate * ein(v))) / v
    return (
        integral(lambda v: v * damp(v) * (1 + rate * squares(v))),
        integral(damp),
        integral(lambda v: entropy(v) + damp(v) * rate * logs(v)),
    )


@pytest.mark.parametrize("scale", [0.2, 0.5, 3.0])
def test_window_law_on_the_sphere_is_that_of_mpmath(scale):
    assert window_law(scale, 3) == pytest.approx(law_on_the_sphere(scale), rel=1e-9)


def poisson(scale, dim, own, draws=4000, arrivals=600):
    rng = np.random.default_rng([dim, own])
    gamma = np.cumsum(rng.exponential(size=(draws, arrivals)), axis=1)
    constant = math.gamma(dim / 2) / (2 * math.sqrt(math.pi) * math.gamma((dim + 1) / 2))
    logits = -scale / 2 * (gamma / constant) ** (2 / (dim - 1))
    logits = np.concatenate([np.zeros((draws, 1)), logits], axis=1)[:, 0 if own else 1 :]
    w = np.exp(logits - logits.max(1, keepdims=True))
    w /= w.sum(1, keepdims=True)
    entropy = -np.sum(w * np.log(np.where(w > 0, w, 1)), axis=1)
    each = np.stack([np.sum(w * w, 1), w.max(1), entropy])
    return each.mean(1), each.std(1) / math.sqrt(draws)


@pytest.mark.parametrize(("scale", "dim"), [(0.5, 2), (1.0, 4), (3.0, 6)])
@pytest.mark.parametrize("own", [True, False])
def test_window_law_is_that_of_poisson_draws(scale, dim, own):
    mean, error = poisson(scale, dim, own)  # seeded; 4 standard errors
    assert np.all(np.abs(np.array(window_law(scale, dim, own=own)) - mean) < 4 * error)


def test_the_token_itself_matters_everywhere_but_on_the_sphere():
    for scale in (0.05, 1.0):
        law, without = window_law(scale, 3), window_law(scale, 3, own=False)
        assert law == pytest.approx(without, rel=1e-8)
    assert window_law(1.0, 4).largest > 1.2 * window_law(1.0, 4, own=False).largest


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_below_and_above_the_window(dim):
    a, small = (dim - 1) / 2, 1e-5
    local = (small / 2) ** a / (2**a * cap_constant(dim) * math.gamma(a + 1))  # E Σz²/(E Σz)²
    assert window_law(small, dim).participation == pytest.approx(local, rel=5e-3)
    assert window_law(1e8, dim).largest == pytest.approx(1.0, abs=1e-4)
    assert critical_beta(dim, 1e4, 2.0) == pytest.approx(2.0 * 1e4 ** (1 / a))


@pytest.mark.parametrize("dim", [2, 3, 4, 9])
def test_gap_counts_are_caps(dim):
    density = lambda s: (1 - s * s) ** ((dim - 3) / mpmath.mpf(2))
    share = mpmath.quad(density, [0.7, 0.9, 1]) / mpmath.quad(density, [-1, 0, 1])
    assert expected_gap_count(0.3, dim, 101) == pytest.approx(100 * float(share), rel=1e-9)
    near = 1e8 * cap_constant(dim) * (2 * 1e-5) ** ((dim - 1) / 2)
    assert expected_gap_count(1e-5, dim, 1e8) == pytest.approx(near, rel=1e-4)


def test_accumulation_scale_gives_the_published_laws():
    n, rho = 1e6, 0.3
    one_gap = accumulation_scale([1 - rho], [n])
    assert one_gap == pytest.approx(critical_scaling(rho) * math.log(n))
    gap = np.linspace(1e-3, 6, 2000)
    top = math.sqrt(2 * math.log(n))
    gaussian = accumulation_scale(gap, np.exp(gap * top - gap**2 / 2))
    assert gaussian == pytest.approx(top, rel=1e-3)
    assert accumulation_scale([1 / math.log(n)], [n]) == pytest.approx(math.log(n) ** 2)
    gap = np.geomspace(1e-8, 1, 4000)
    on_sphere = accumulation_scale(gap, n * gap / 2)  # max of log(ng/2)/g at ng/2 = e
    assert on_sphere == pytest.approx(n / (2 * math.e), rel=1e-3)


@pytest.mark.parametrize(("beta", "tokens"), [(0.7, 3), (30.0, 20), (2e4, 10_000)])
def test_row_law_on_the_sphere_is_that_of_mpmath(beta, tokens):
    # On S² the inner product is uniform: moments of ζ under e^{−vζ} are ∫ dz/z over [e^{−2β}, 1].
    width, others = 2 * mpmath.mpf(beta), tokens - 1
    low = mpmath.exp(-width)
    damp = lambda v: (mpmath.e1(v * low) - mpmath.e1(v)) / width
    power = lambda v, k: mpmath.gammainc(k, v * low, v) / v**k / width  # E ζ^k e^{−vζ}
    one = lambda v: mpmath.exp(-v) * damp(v) ** (others - 1)
    places = [0, 0.01 / tokens, 0.1 / tokens, 1 / tokens, 10 / tokens, 0.1, 1, 4, 15, 60]
    places = sorted({float(place) for place in places})
    integral = lambda f: float(mpmath.quad(f, places))
    law = row_law(beta, 3, tokens)
    largest = integral(lambda v: one(v) * damp(v))
    squares = integral(lambda v: v * one(v) * (damp(v) + others * power(v, 2)))
    assert law.largest == pytest.approx(largest, rel=1e-9)
    assert law.participation == pytest.approx(squares, rel=1e-9)


@pytest.mark.parametrize(("beta", "dim", "tokens"), [(3.0, 2, 5), (4.0, 5, 50), (12.0, 40, 30)])
def test_row_law_is_that_of_random_rows(beta, dim, tokens):
    rng, draws = np.random.default_rng(dim), 20_000
    x = rng.normal(size=(draws, tokens - 1, dim))
    w = np.exp(beta * x[..., 0] / np.linalg.norm(x, axis=2))
    w = np.concatenate([np.full((draws, 1), math.exp(beta)), w], axis=1)
    w /= w.sum(axis=1, keepdims=True)
    each = np.stack([np.sum(w * w, 1), w.max(1), -np.sum(w * np.log(w), 1)])
    law = row_law(beta, dim, tokens)
    mean, spread = each.mean(1), each.std(1)
    assert np.all(np.abs(np.array(law[:3]) - mean) < 4 * spread / math.sqrt(draws))
    assert law[3:] == pytest.approx(spread[:2], rel=0.05)


def test_row_law_has_both_limits():
    assert row_law(0.0, 4, 7)[:3] == pytest.approx((1 / 7, 1 / 7, math.log(7)), rel=1e-12)
    # β fixed: nE Σw² → E e^{2βt}/(E e^{βt})², and E e^{βt} = sinh(β)/β on S².
    mean = lambda b: math.sinh(b) / b
    limit = mean(4.0) / mean(2.0) ** 2
    assert 1e6 * row_law(2.0, 3, 10**6).participation == pytest.approx(limit, rel=1e-4)
    for scale in (0.1, 1.0, 3.0):
        beta = critical_beta(4, 10**6, scale)
        assert row_law(beta, 4, 10**6)[:3] == pytest.approx(window_law(scale, 4), rel=2e-3)
    with pytest.raises(ValueError, match="tokens must be at least 2; got 1"):
        row_law(1.0, 3, 1)
    with pytest.raises(ValueError, match="beta must be finite"):
        row_law(-1.0, 3, 10)


@pytest.mark.parametrize("dim", [2, 3, 4])
def test_regimes_follow_the_growth_of_beta(dim):
    power = 2 / (dim - 1)
    sizes = [10**3, 10**4, 10**5, 10**6]
    of = lambda exponent: [context_regime(n**exponent, dim, n) for n in sizes]
    assert of(power / 2)[1:] == ["mean field"] * 3
    assert of(power) == ["critical"] * 4
    assert of(2 * power)[1:] == ["hard"] * 3
