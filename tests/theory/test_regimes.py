"""Which theorem answers, and its derived rate against simulated collapses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from metastable.theory.regimes import single_cluster_theorem


def name(tokens, dim, beta, **kwargs):
    theorem = single_cluster_theorem(beta, dim, tokens=tokens, **kwargs)
    return theorem and theorem.name


ROTATION = np.array([[0.0, -1.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("expected", "args", "kwargs"),
    [
        ("high dimension", (8, 8, 3.0), {}),
        ("high dimension", (8, 9, 3.0), {"query": np.ones((9, 9))}),
        ("high dimension", (8, 9, -3.0), {}),
        ("hemisphere", (100, 3, 3.0), {"hemisphere": True, "key": np.diag([1.0, 2, 3])}),
        ("hemisphere", (100, 2, 3.0), {"hemisphere": True, "normalized": False}),
        ("sphere", (100, 3, 3.0), {}),
        ("sphere", (100, 3, 3.0), {"normalized": False}),
        ("sphere", (4, 4, 3.0), {"hemisphere": False}),
        (None, (100, 3, -0.1), {}),
        (None, (100, 3, 3.0), {"query": np.diag([1.0, 2, 3])}),
        (None, (100, 3, 3.0), {"value": -np.eye(3)}),
        ("circle", (100, 2, 50.0), {}),
        ("circle", (100, 2, -0.16), {"value": np.eye(2)}),
        (None, (100, 2, -0.17), {}),
        ("causal", (100, 2, -5.0), {"causal": True, "query": ROTATION}),
        (None, (100, 2, 1.0), {"causal": True, "value": ROTATION}),
        (None, (100, 2, 1.0), {"causal": True, "normalized": False}),
    ],
)
def test_theorem_chosen(expected, args, kwargs):
    assert name(*args, **kwargs) == expected


@pytest.mark.parametrize(
    ("causal", "normalized", "skew"),
    [(False, True, False), (False, True, True), (False, False, False), (True, True, True)],
)
def test_rate_is_the_late_rate_of_a_simulation(causal, normalized, skew):
    n, d, beta = 5, 5, 0.7
    rng = np.random.default_rng(5)
    start = rng.normal(size=(n, d)) + 0.8 * np.eye(d)[0]
    start /= np.linalg.norm(start, axis=1, keepdims=True)
    query = rng.normal(size=(d, d)) / 2 if skew else np.eye(d)

    def velocity(_, flat):
        x = flat.reshape(n, d)
        kernel = np.exp(beta * (x @ query.T) @ x.T)
        if causal:
            kernel = np.tril(kernel)
        a = kernel @ x / (kernel.sum(1, keepdims=True) if normalized else n)
        return (a - np.sum(a * x, 1, keepdims=True) * x).ravel()

    theorem = single_cluster_theorem(
        beta, d, tokens=n, query=query if skew else None, causal=causal, normalized=normalized
    )
    assert theorem is not None and theorem.rate is not None
    times = np.array([12.0, 15.0]) / theorem.rate
    run = solve_ivp(velocity, (0, times[1]), start.ravel(), "DOP853", times, rtol=1e-12, atol=1e-14)
    frames = run.y.T.reshape(-1, n, d)
    # between two tokens: the final point itself is not known to 14 digits
    spread = [np.linalg.norm(f[1:] - f[0], axis=1).max() for f in frames]
    rate = math.log(spread[0] / spread[1]) / (times[1] - times[0])
    assert rate == pytest.approx(theorem.rate, rel=0.01)
    if causal:
        assert np.allclose(frames[-1], start[0], atol=1e-2)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="dim"):
        single_cluster_theorem(1.0, 1, tokens=3)
