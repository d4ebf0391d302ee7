"""Euler bound and field constants against finite differences and a stack of layers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from metastable.theory.discretization import (
    euler_error_bound,
    velocity_bound,
    velocity_lipschitz,
)


def field(x, beta, query, key, value, normalized):
    kernel = np.exp(beta * (x @ query.T) @ (x @ key.T).T)
    a = kernel @ x @ value.T / (kernel.sum(1, keepdims=True) if normalized else len(x))
    return a - np.sum(a * x, 1, keepdims=True) * x


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("normalized", [True, False])
def test_constants_bound_the_field(normalized):
    rng = np.random.default_rng(0)
    steepest = 0.0
    for beta in (-1.5, 0.0, 0.8, 4.0):
        for _ in range(60):
            n, d = int(rng.integers(2, 7)), int(rng.integers(2, 4))
            query, key, value = rng.normal(size=(3, d, d))
            args = (beta, query, key, value, normalized)
            kwargs = dict(query=query, key=key, value=value, normalized=normalized)
            # half of the starts are nearly clustered in two, where attention is steepest
            x = rng.normal(size=(n, d))
            if rng.random() < 0.5:
                x = np.sign(rng.normal(size=(n, 1))) * np.eye(d)[0] + 0.2 * x
            x = unit(x)
            v = field(x, *args)
            assert np.linalg.norm(v, axis=1).max() <= velocity_bound(beta, **kwargs)
            h = 1e-6 * unit(rng.normal(size=(n, d)))
            slope = np.linalg.norm(field(x + h, *args) - v, axis=1).max() / 1e-6
            ratio = slope / velocity_lipschitz(beta, **kwargs)
            steepest = max(steepest, ratio)
            assert ratio <= 1
    assert steepest > 0.03  # a bound, not an arbitrary large number


def test_identity_constants():
    assert velocity_bound(7.0) == 1
    assert velocity_lipschitz(7.0) == 17
    assert velocity_lipschitz(2.0, normalized=False) == pytest.approx(7 * math.exp(2))
    assert velocity_lipschitz(2.0, query=np.diag([3.0, 1.0])) == pytest.approx(15)
    assert velocity_lipschitz(2.0, key=np.diag([3.0, 1.0])) == pytest.approx(15)
    assert velocity_bound(1e4, normalized=False) == math.inf
    assert velocity_bound(2.0, value=np.diag([3.0, 1.0])) == 3


def test_layers_stay_within_the_bound_and_are_first_order():
    n, d, beta, horizon = 6, 3, 0.5, 0.8
    eye = np.eye(d)
    start = unit(np.random.default_rng(1).normal(size=(n, d)))
    velocity = lambda x: field(x, beta, eye, eye, eye, True)
    errors = []
    for layers in (20, 40):
        step = horizon / layers
        times = step * np.arange(layers + 1)
        run = solve_ivp(
            lambda t, y: velocity(y.reshape(n, d)).ravel(),
            (0, times[-1]),
            start.ravel(),
            "DOP853",
            times,
            rtol=1e-11,
            atol=1e-12,
        )
        exact = run.y.T.reshape(-1, n, d)
        x, worst = start, 0.0
        for k in range(1, layers + 1):
            x = unit(x + step * velocity(x))
            worst = max(worst, np.linalg.norm(x - exact[k], axis=1).max())
        bound = euler_error_bound(step, horizon, velocity_lipschitz(beta), velocity_bound(beta))
        assert 0 < worst <= bound < 2
        errors.append(worst)
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.05)


def test_bound_values():
    # exact for ẋ = x: the bound with L = M = 1 is (ε/2)(e^T − 1)
    assert euler_error_bound(0.1, 2.0, 1.0, 1.0) == pytest.approx(0.05 * (math.e**2 - 1))
    assert euler_error_bound(0.1, 2.0, 0.0, 1.0) == 0
    assert euler_error_bound(0.1, 1e3, 5.0, 1.0) == math.inf
    for bad in ((0.0, 1.0, 1.0, 1.0), (0.1, -1.0, 1.0, 1.0), (0.1, 1.0, -1.0, 1.0)):
        with pytest.raises(ValueError, match="must"):
            euler_error_bound(*bad)
