"""Lipschitz bounds against Jacobians at random and worst-case tokens."""

from __future__ import annotations

import math

import numpy as np
import pytest

from metastable.theory.smoothness import (
    mean_field_lipschitz,
    propagation_of_chaos,
    token_lipschitz,
)


def jacobian_norm(x, beta, score, value):
    """Spectral norm of attention's Jacobian by complex steps (no cancellation)."""
    n, d = x.shape
    columns = []
    for k in range(n * d):
        z = x.astype(complex)
        z.flat[k] += 1e-30j
        logits = beta * z @ score @ z.T
        kernel = np.exp(logits - logits.real.max(1, keepdims=True))
        columns.append((kernel @ z @ value.T / kernel.sum(1, keepdims=True)).imag.ravel() / 1e-30)
    return np.linalg.norm(np.array(columns), 2)


def test_random_jacobians_stay_below():
    rng = np.random.default_rng(2)
    for _ in range(40):
        n, d = int(rng.integers(1, 9)), int(rng.integers(1, 4))
        beta, radius = rng.uniform(-3, 3), rng.uniform(0.5, 2)
        score, value = rng.normal(size=(2, d, d))
        x = rng.normal(size=(n, d))
        x *= radius / np.linalg.norm(x, axis=1, keepdims=True)
        norms = dict(
            score_norm=float(np.linalg.norm(score, 2)), value_norm=float(np.linalg.norm(value, 2))
        )
        slope = jacobian_norm(x, beta, score, value)
        assert slope <= token_lipschitz(radius, beta, tokens=n, **norms)
        assert slope <= mean_field_lipschitz(radius, beta, **norms)


@pytest.mark.parametrize("n", [4, 16, 64])
def test_square_root_of_n_is_reached(n):
    # every token attends to the single longest one, so moving it moves all outputs
    x = np.array([[3.0]] + [[1.0]] * (n - 1))
    slope = jacobian_norm(x, 4.0, np.eye(1), np.eye(1))
    assert 0.95 * math.sqrt(n) < slope <= token_lipschitz(3.0, 4.0, tokens=n)


def test_forms_of_the_bound():
    # √n while n < e^{2b}, then the mean-field value, which no n exceeds
    assert token_lipschitz(1.0, 2.0, tokens=25) == pytest.approx(5 * 3 + 2)
    assert token_lipschitz(1.0, 2.0, tokens=10**9) == pytest.approx(mean_field_lipschitz(1.0, 2.0))
    assert token_lipschitz(1.0, 2.0, tokens=1, value_norm=0.5) == pytest.approx(0.5 * 5)
    assert mean_field_lipschitz(1.0, 1e4) == math.inf
    # Cauchy–Schwarz over the three terms of the derivative gives a cruder form
    for n, b in [(1, 0.1), (50, 1.0), (1000, 30.0)]:
        assert token_lipschitz(1.0, b, tokens=n) <= math.sqrt(3 * (b * b * (n + 1) + n))


@pytest.mark.parametrize(
    ("dim", "exponent", "logarithm"), [(2, -1 / 2, False), (3, -1 / 2, True), (6, -1 / 5, False)]
)
def test_chaos_exponents(dim, exponent, logarithm):
    rate = propagation_of_chaos(dim)
    assert rate.token_exponent == -0.5
    assert rate.wasserstein_exponent == pytest.approx(exponent)
    assert rate.logarithm == logarithm
    assert ("log n" in rate.statement) == logarithm


def test_tokens_follow_the_mean_field_at_rate_one_half():
    # one step of attention on independent copies: E‖v[μ^n](x) − v[μ](x)‖ ∝ n^{−1/2}
    rng = np.random.default_rng(4)
    beta = 1.0
    errors = []
    for n in (50, 800):
        theta = rng.uniform(0, 2 * np.pi, size=(2000, n))
        weights = np.exp(beta * np.cos(theta))
        pull = (weights * np.sin(theta)).sum(1) / weights.sum(1)  # 0 for the uniform law
        errors.append(np.abs(pull).mean())
    assert math.log(errors[0] / errors[1]) / math.log(16) == pytest.approx(0.5, abs=0.03)


def test_bad_arguments_are_named():
    for call in (
        lambda: token_lipschitz(1.0, 1.0, tokens=0),
        lambda: mean_field_lipschitz(0.0, 1.0),
        lambda: propagation_of_chaos(1),
    ):
        with pytest.raises(ValueError, match="must"):
            call()
