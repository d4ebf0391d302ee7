"""The harmonic sum in d = 4, …, 8: powers of ⟨x,y⟩ by monomials, and their coefficients."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from numpy.polynomial import chebyshev

import metastable as ms
from metastable.core.numerics import jax, jnp
from metastable.fields.sums import monomials
from metastable.fields.sums.causal import CausalSum
from metastable.fields.sums.harmonic import HarmonicSum
from metastable.fields.sums.powers import power_coefficients, swelling
from metastable.fields.sums.zonal import degree_for
from tests import oracles
from tests.fields.sums.test_fast_sums import brute, evaluate, scene


def chebyshev_terms(beta, count):
    """Coefficients of e^{β(s−1)} in T_k, at 50 digits: e^{−β}I_k(β), twice for k > 0."""
    with mpmath.workdps(50):
        scale = mpmath.exp(-mpmath.mpf(beta))
        return [(2 if k else 1) * scale * mpmath.besseli(k, beta) for k in range(count)]


@pytest.mark.parametrize(("beta", "degree"), [(0.0, 3), (0.7, 9), (9.0, 20), (25.0, 34)])
def test_coefficients_of_powers_against_bessel_functions_at_50_digits(beta, degree):
    terms, expected = chebyshev_terms(beta, degree + 1), [mpmath.mpf(0)] * (degree + 1)
    with mpmath.workdps(50):
        for k, term in enumerate(terms):
            for power, whole in enumerate(chebyshev.cheb2poly([0] * k + [1])):
                expected[power] += term * int(whole)
        size = float(sum(abs(a) for a in expected))
        expected = np.array([float(a) for a in expected])
    got = np.asarray(power_coefficients(jnp.asarray(beta), degree))
    assert np.abs(got - expected).sum() < 1e-14 * size
    assert abs(swelling(beta, degree) - size) < 1e-12 * size


@pytest.mark.parametrize("tolerance", [1e-4, 1e-9, 1e-13])
@pytest.mark.parametrize("beta", [0.5, 9.0])
def test_degree_is_the_least_that_reaches_the_tolerance(beta, tolerance):
    terms, degree = chebyshev_terms(beta, 80), degree_for(beta, 4, tolerance)
    assert sum(terms[degree + 1 :]) <= tolerance / 2 < sum(terms[degree:])
    assert degree_for(beta, 5, tolerance) == degree


def test_degree_grows_where_signs_would_cost_digits():
    least = degree_for(30.0, 2, 1e-12)
    assert (
        swelling(30.0, least) * 2.2e-16 > 1e-13 > swelling(30.0, degree_for(30.0, 4, 1e-12)) * 2e-16
    )
    assert degree_for(30.0, 4, 1e-12) > least
    with pytest.raises(ValueError, match="degree must be at most 48 in dimension 4"):
        HarmonicSum.reaching(60.0, 4, 1e-12)
    with pytest.raises(ValueError, match="degree must be at most 14 in dimension 8"):
        HarmonicSum.reaching(9.0, 8, 1e-6)


@pytest.mark.parametrize("dim", [4, 5, 6, 7, 8])
def test_every_power_of_the_inner_product(dim):
    """Σ_j q_j ⟨x_i,y_j⟩^k for each k ≤ K, from the moments of degrees K and K − 1 alone."""
    degree, rng = 6, np.random.default_rng(dim)
    x, y = oracles.unit(rng.normal(size=(9, dim))), oracles.unit(rng.normal(size=(11, dim)))
    y[0] = np.eye(dim)[-1]
    charges = rng.normal(size=(11, 3))
    gather, smooth, scatter = monomials.features(dim, degree)
    moments = jax.jit(gather)(y, charges)
    back = jax.jit(lambda a: scatter(x, smooth(moments, a)))
    for k in range(degree + 1):
        expected = (x @ y.T) ** k @ charges
        assert np.abs(back(jnp.eye(degree + 1)[k]) - expected).max() < 1e-13


def test_tokens_in_one_place_see_the_whole_series():
    """There all harmonics add up: Σ_{k≤K} of the terms, less than 1 by what is dropped."""
    beta, dim = 9.0, 4
    sum = HarmonicSum.reaching(beta, dim, 1e-6)
    terms = chebyshev_terms(beta, sum.degree + 1)
    x = np.tile(oracles.unit(np.arange(1.0, dim + 1)[None]), (5, 1))
    mass, _ = evaluate(sum, x, np.full(5, 0.2), beta, x, x, own=True)
    assert np.abs(mass - float(np.sum(terms))).max() < float(terms[-1]) / 2


def test_other_places_and_several_blocks():
    x, w = scene(5)
    at, sum = scene(5, seed=1)[0][:17], HarmonicSum(5, degree_for(2.0, 5, 1e-9), 1e-9, block=64)
    mass, moment = evaluate(sum, x, w, 2.0, at, x, own=False)
    expected_mass, expected_moment = brute(x, w, 2.0, at, x)
    assert np.max(np.abs(mass - expected_mass)) < 1e-9
    assert np.max(np.abs(moment - expected_moment)) < 1e-9


@pytest.mark.parametrize("dim", [4, 5])
def test_derivative_in_tokens_and_temperature(dim):
    """Against central differences of the brute-force sum, at tokens on axes among others."""
    x, w = scene(dim)
    x, w = x[100:120], w[100:120] / w[100:120].sum()
    test = np.random.default_rng(3).normal(size=x.shape)
    turn = oracles.project(x, np.random.default_rng(4).normal(size=x.shape))
    sum = HarmonicSum.reaching(0.5, dim, 1e-8)

    def functional(s):
        field = ms.SelfAttention(0.4 + s)
        moved = ms.Points(jnp.asarray(x) + s * turn, w, on_sphere=False).directions()
        return jnp.vdot(test, field.velocity(moved, sum=sum))

    def oracle(s):
        y = oracles.unit(x + s * turn)
        return np.vdot(test, oracles.project(y, oracles.attention(y, w, 0.4 + s)))

    h = 1e-3
    central = (8 * (oracle(h) - oracle(-h)) - (oracle(2 * h) - oracle(-2 * h))) / (12 * h)
    # A derivative of a polynomial of degree K loses at most K² to the tolerance (Markov).
    allowed = 1e-8 * sum.degree**2 * np.abs(test).sum()
    assert abs(jax.jit(jax.grad(functional))(0.0) - central) < allowed < 1e-3 * abs(central)


def test_one_compilation_serves_many_temperatures_and_knows_its_reach():
    sum, w = HarmonicSum.reaching(4.0, 4, 1e-9), scene(4)[1]
    points = np.stack([scene(4, seed)[0] for seed in range(4)])
    betas = np.array([0.0, 1.0, 4.0, 8.0])
    velocity = lambda x, beta: ms.SelfAttention(beta).velocity(ms.Points(x, w), sum=sum)
    got = jax.jit(jax.vmap(velocity))(points, betas)
    for x, beta, v in zip(points[:3], betas, got, strict=False):
        assert np.max(np.abs(v - oracles.project(x, oracles.attention(x, w, beta)))) < 1e-8
    assert np.isnan(got[3]).all()


def test_a_place_that_sees_nothing_is_not_noise():
    x = np.eye(4)[:1]
    # e^{−18} = 1.5e−8 lies below the tolerance: NaN there, exact to it at the token itself.
    sum = HarmonicSum.reaching(9.0, 4, 1e-6)
    mass, moment = evaluate(sum, x, np.ones(1), 9.0, np.stack([x[0], -x[0]]), x, own=False)
    assert abs(mass[0] - 1) < 1e-6 and np.isnan(mass[1]) and np.isnan(moment[1]).all()


def test_single_precision_stays_single():
    x, w = scene(4)
    measure = ms.Points(x, w, dtype=jnp.float32)
    kernel = ms.SelfAttention(9.0).kernel(measure, ms.fields.field.Places(measure.points, None))
    sum = HarmonicSum.reaching(9.0, 4, 1e-5)
    log_mass, mean = jax.jit(lambda kernel, v: sum.attend(kernel, v))(kernel, measure.points)
    assert log_mass.dtype == mean.dtype == jnp.float32
    # The share seen is at least a token's own mass, here 3e−4 and more but for the massless one.
    mass, _ = brute(x, w, 9.0, x, x)
    errors = np.abs(mean - oracles.attention(x, w, 9.0)) * mass[:, None]
    assert np.max(errors) < 2e-5


def test_causal_attention():
    rng = np.random.default_rng(4)
    x, w = oracles.unit(rng.normal(size=(300, 4))), np.full(300, 1 / 300)
    times = rng.permutation(100).repeat(3).astype(float)  # three tokens share each time
    field = ms.SelfAttention(4.0, value=-2.0, causal=True)
    sum = CausalSum(4, degree_for(4.0, 4, 1e-12), 1e-12, block=64)
    got = field.velocity(ms.Points(x, w, times), sum=sum)
    bias = oracles.causal_bias(times, times)
    expected = oracles.project(x, oracles.attention(x, w, 4.0, value=-2.0, bias=bias))
    assert np.max(np.abs(got - expected)) < 1e-9 * np.max(np.abs(expected))
