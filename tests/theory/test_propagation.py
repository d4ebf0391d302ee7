"""Overlap maps against quadrature, closed forms and brute-force samples."""

from __future__ import annotations

import dataclasses
import math

import mpmath
import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.special import erf

from metastable.theory.propagation import (
    RandomBlock,
    attention_map,
    finite_width,
    gradient_norms,
    perceptron_map,
    perceptron_slopes,
    propagate,
)
from metastable.theory.softmax import frozen_share, overlap_table, softmax_overlaps, softmax_spread
from metastable.theory.trainability import (
    collapse,
    correlation_depth,
    fixed_point,
    residual_scale_for_depth,
    trainability_diagram,
)


def rows(logits):
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("a", [0.3, 2.0])
def test_two_tokens_by_mpmath(a):
    """n = 2: a weight is the sigmoid of a Gaussian of variance 2a², 1 − A = 2 E σ(1 − σ)."""
    density = lambda x: mpmath.npdf(x, 0, a * mpmath.sqrt(2))
    product = lambda x: 1 / (mpmath.exp(x) + 2 + mpmath.exp(-x))
    flat = 2 * mpmath.quad(lambda x: density(x) * product(x), [-12 * a, 0, 12 * a])
    assert softmax_overlaps(a * a, 0.4, 2)[0] == pytest.approx(float(1 - flat), abs=1e-9)
    # B by two Gaussians x, y of correlation 0.4, w = σ(a√2 x).
    sigmoid = lambda z: 1 / (1 + math.exp(-a * math.sqrt(2) * z))
    both = lambda x, y: sigmoid(x) * sigmoid(y) + sigmoid(-x) * sigmoid(-y)
    bell = lambda x, y: math.exp(-(x * x + y * y - 0.8 * x * y) / (2 * 0.84))
    mean, _ = dblquad(
        lambda x, y: both(x, y) * bell(x, y) / (2 * math.pi * math.sqrt(0.84)), -8, 8, -8, 8
    )
    total, lost = softmax_overlaps(a * a, 0.4, 2)
    assert total - lost == pytest.approx(mean, abs=1e-7)


@pytest.mark.parametrize(("a", "rho", "n"), [(0.5, 0.7, 20), (2.0, 0.3, 128), (6.0, 0.9, 128)])
def test_softmax_moments_by_samples(a, rho, n):
    """Monte Carlo, 20 000 pairs of rows, seed 0; four standard errors."""
    rng = np.random.default_rng(0)
    shared, one, other = rng.standard_normal((3, 20_000, n))
    w, v = (rows(a * (math.sqrt(rho) * shared + math.sqrt(1 - rho) * x)) for x in (one, other))
    squares = (w**2).sum(1)
    samples = {
        "A": squares,
        "A − B": squares - (w * v).sum(1),
        "spread": squares - 2 * (w**3).sum(1) + squares**2,
    }
    expected = (*softmax_overlaps(a * a, rho, n), softmax_spread(a * a, n))
    for (name, values), value in zip(samples.items(), expected, strict=True):
        error = values.std() / math.sqrt(len(values))
        assert abs(values.mean() - value) < 4 * error, name


def test_softmax_limits():
    assert softmax_overlaps(0.0, 0.5, 128) == (1 / 128, 0.0)
    total, lost = softmax_overlaps(4.0, 1.0, 50)  # the same row twice: B = A
    assert abs(lost) < 1e-10 < total
    below, above = (softmax_overlaps(k * 2e-4, 0.5, 128)[1] / k for k in (0.4999, 0.5001))
    assert below == pytest.approx(above, rel=1e-3)  # the small-variance branch joins
    table = overlap_table(2.0, 64)[0](0.37)
    assert table == pytest.approx(softmax_overlaps(4 * 0.37, 0.63, 64)[0], abs=1e-9)


def test_frozen_share_is_the_limit_of_many_tokens():
    errors = []
    for n in (10**2, 10**4, 10**6):
        variance = 8 * math.log(n)  # twice the freezing point in a
        errors.append(abs(softmax_overlaps(variance, 0.0, n)[0] - frozen_share(variance, n)))
    assert errors[0] > errors[1] > errors[2] and errors[2] < 0.05
    assert frozen_share(1.9 * math.log(100), 100) == 0.0


@pytest.mark.parametrize(("q", "p", "beta"), [(1.0, 0.4, 1.5), (1.7, 0.3, 0.8)])
def test_attention_on_its_gaussian_logits(q, p, beta):
    """Logits of covariance β² Q_ik Q_jl, drawn as β L G Lᵀ with Q = L Lᵀ; 40 000 draws, seed 1."""
    n, draws = 6, 40_000
    gram = np.full((n, n), p) + (q - p) * np.eye(n)
    root = np.linalg.cholesky(gram)
    logits = beta * root @ np.random.default_rng(1).standard_normal((draws, n, n)) @ root.T
    w = rows(logits)
    overlaps = 0.9**2 * w @ gram @ w.transpose(0, 2, 1)
    square = np.trace(overlaps, axis1=1, axis2=2) / n
    pair = (overlaps.sum((1, 2)) - n * square) / (n * (n - 1))
    block = RandomBlock(tokens=n, placement="none", beta=beta, value=0.9)
    found = attention_map(block, q, q - p)
    for value, samples in zip(found, (square, square - pair), strict=True):
        assert abs(samples.mean() - value) < 4 * samples.std() / math.sqrt(draws)


def test_relu_is_the_arc_cosine_kernel():
    """Cho and Saul: E φφ' = (sin θ + (π − θ) cos θ)/(2π) for unit variances."""
    for rho in (0.0, 0.3, 0.95):
        theta = math.acos(rho)
        kernel = (math.sin(theta) + (math.pi - theta) * rho) / (2 * math.pi)
        q, gap = perceptron_map(RandomBlock(weight=1.3), 2.0, 2.0 * (1 - rho))
        assert (q, q - gap) == pytest.approx((1.3**4, 1.3**4 * 2 * kernel), rel=1e-12)
    tiny = perceptron_map(RandomBlock(weight=1.0), 1.0, 1e-10)[1]
    assert tiny == pytest.approx(0.5e-10, rel=1e-4)  # no cancellation near collapse


def test_smooth_activations_by_quadrature():
    formulas = {
        "tanh": (np.tanh, lambda h: 1 / np.cosh(h) ** 2),
        "gelu": (
            lambda h: h * (1 + erf(h / math.sqrt(2))) / 2,
            lambda h: (
                (1 + erf(h / math.sqrt(2))) / 2 + h * np.exp(-h * h / 2) / math.sqrt(2 * math.pi)
            ),
        ),
    }
    rho, s, q = 0.6, 1.4**2, 0.8
    grid = np.linspace(-9, 9, 801)
    x, y = np.meshgrid(grid, grid)
    density = np.exp(-(x * x + y * y - 2 * rho * x * y) / (2 * (1 - rho**2)))
    density /= density.sum()
    h, k = math.sqrt(s * q) * x, math.sqrt(s * q) * y
    for name, (f, slope) in formulas.items():
        block = RandomBlock(weight=1.4, activation=name)
        square, gap = perceptron_map(block, q, q * (1 - rho))
        assert square == pytest.approx(s * np.sum(density * f(h) ** 2), rel=1e-6)
        assert square - gap == pytest.approx(s * np.sum(density * f(h) * f(k)), rel=1e-6)
        both = perceptron_slopes(block, q, q * (1 - rho))
        expected = [s * s * np.sum(density * slope(h) * slope(z)) for z in (h, k)]
        assert both == pytest.approx(expected, rel=1e-6)
    linear = RandomBlock(weight=1.4, activation="linear")
    assert perceptron_map(linear, 1.0, 0.3) == pytest.approx((1.4**4, 0.3 * 1.4**4))


def test_post_norm_collapses_exponentially():
    block = RandomBlock(placement="post", attention=0.5, mlp=0.0, value=1.2)
    x = 1 - propagate(block, 60, correlation=0.2).correlation
    law = collapse(block)
    assert law.kind == "exponential" and law.rate == pytest.approx(math.log(1 + 0.25 * 1.44))
    assert math.log(x[-2] / x[-1]) == pytest.approx(law.rate, rel=1e-6)
    both = dataclasses.replace(block, mlp=0.6, activation="tanh", weight=0.9)
    x = 1 - propagate(both, 40, correlation=0.2).correlation
    assert math.log(x[-2] / x[-1]) == pytest.approx(collapse(both).rate, rel=1e-4)


@pytest.mark.parametrize("placement", ["pre", "peri"])
def test_pre_and_peri_norm_collapse_by_a_power(placement):
    # linear perceptron: no higher orders, so the power is clean
    block = RandomBlock(placement=placement, weight=0.8, activation="linear")
    x = 1 - propagate(block, 800, correlation=0.9).correlation
    law = collapse(block)
    slope = -math.log(x[800] / x[400]) / math.log(2)
    expected = 0.5 if placement == "peri" else 1 / (1 + 0.8**4)
    assert law.kind == "power" and law.rate == pytest.approx(expected)
    assert slope == pytest.approx(law.rate, rel=0.02)


def test_pure_attention_collapses_cubically():
    block = RandomBlock(placement="post", skip=0.0, mlp=0.0, beta=2.0, tokens=16)
    x = 1 - propagate(block, 3, correlation=0.9).correlation
    assert collapse(block).rate == pytest.approx(4 * 15 / 256)
    assert x[2] / x[1] ** 3 == pytest.approx(4 * 15 / 256, rel=0.01)


def test_depths_and_scales():
    assert correlation_depth(0.8 * np.exp(-np.arange(20) / 7.3)) == pytest.approx(7.3)
    assert correlation_depth([1.0, 0.9]) == math.inf
    for placement in ("pre", "post", "peri"):
        block = RandomBlock(placement=placement)
        scale = residual_scale_for_depth(30, block, correlation=0.2)
        path = propagate(block.scaled(scale), 40, correlation=0.2)
        assert correlation_depth(path.gap / path.square) == pytest.approx(30, rel=1e-3)


def test_chaotic_perceptron_holds_tokens_apart():
    block = RandomBlock(placement="post", attention=0.0, weight=3.0, activation="tanh")
    fixed = fixed_point(block)
    assert 0 <= fixed < 0.9
    assert propagate(block, 200, correlation=0.9).correlation[-1] == pytest.approx(fixed, abs=1e-6)
    with pytest.raises(ValueError, match="depth must be reached"):
        residual_scale_for_depth(10, dataclasses.replace(block, mlp=1e-9))


def test_finite_width_is_of_order_one_over_d():
    block = RandomBlock(placement="peri", attention=0.3, mlp=0.3)
    limit = propagate(block, 12, correlation=0.2).correlation
    off = [d * (finite_width(block, d, 12, correlation=0.2)[0] - limit) for d in (2000, 8000)]
    assert np.allclose(off[0], off[1], rtol=0.02, atol=2e-3) and off[0][-1] < -0.1
    _, spread = finite_width(block, 400, 0, correlation=0.2)
    # ρ = p/(p + g) with p ∝ χ²_d: deviation ρ(1 − ρ)√(2/d) to leading order
    assert spread[0] == pytest.approx(0.16 * math.sqrt(2 / 400), rel=0.01)


def test_gradients_of_linear_stacks():
    """A linear perceptron multiplies squares by σ_w⁴, so gradients follow by hand."""
    block = RandomBlock(placement="none", attention=0.0, activation="linear", weight=1.1, mlp=0.5)
    found = gradient_norms(block, 5)
    assert found == pytest.approx((1 + 0.25 * 1.1**4) ** np.arange(5, -1, -1.0))
    post = gradient_norms(dataclasses.replace(block, placement="post"), 5)
    assert post == pytest.approx(np.ones(6))  # norm takes off what the stack puts on


def test_trainability_diagram():
    diagram = trainability_diagram(RandomBlock(), 24, [0.05, 1.0], [1.0, 8.0], correlation=0.2)
    assert diagram.trainable().tolist() == [[True, False], [False, False]]
    assert diagram.shares[0, 1] > 0.5 > diagram.shares[0, 0]
    assert diagram.remaining[1, 0] < 1 / math.e < diagram.remaining[0, 0]


@pytest.mark.parametrize(
    "wrong", [{"tokens": 1}, {"placement": "x"}, {"beta": -1.0}, {"activation": "x"},
              {"attention": 0.0, "mlp": 0.0}],
)  # fmt: skip
def test_refusals(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RandomBlock(**wrong)
