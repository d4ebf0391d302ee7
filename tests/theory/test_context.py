"""One layer on equicorrelated tokens against the vectors themselves, and its long-context limit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from metastable.theory.context import critical_scaling, layer_correlation


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
    ):
        with pytest.raises(ValueError, match="must"):
            call()
