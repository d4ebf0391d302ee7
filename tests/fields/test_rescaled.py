"""Pure attention in R^d in the frame z = e^{−tV}x."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

import metastable as ms
from tests import oracles
from tests.fields.cases import arrays, error, places, velocity, weighted

RNG = np.random.default_rng(8)
Q, K = RNG.normal(size=(2, 4, 3)) / 2
V = RNG.normal(size=(3, 3)) / 2
CASES = {
    "identity": (None, None, None),
    "numbers": (2.0, None, -0.5),
    "matrices": (Q, K, V),
    "matrix value, scalar query": (-1.0, None, V),
    "matrix query, scalar value": (Q, K, 2.0),
}


@pytest.mark.parametrize("name", CASES)
def test_rescaled_velocity(name):
    q, k, v = CASES[name]
    t, beta = 0.7, 0.9
    m, at = weighted(12, 3, on_sphere=False), 1.5 * places(3)
    z, w = arrays(m)
    value = np.eye(3) * (1.0 if v is None else v) if np.ndim(v) == 0 else v
    growth = expm(t * value)
    field = ms.Rescaled(ms.SelfAttention(beta, q, k, v))
    for rows, where in [(z, None), (at, at)]:
        left, right = oracles.apply(q, rows @ growth.T), oracles.apply(k, z @ growth.T)
        p, _ = oracles.weighted_softmax(beta * left @ right.T, w)
        assert error(velocity(field, m, at=where, t=t), (p @ z - rows) @ value.T) < 1e-12


def test_rescaled_flow_is_the_plain_flow_seen_from_its_own_growth():
    attention = ms.SelfAttention(0.5, Q, K, V)
    field = ms.Rescaled(attention)
    m = weighted(12, 3, on_sphere=False)
    steps = ms.Fixed(0.01)  # order 5: error about 1e−10
    plain = ms.flow(m, attention, horizon=2.0, frames=5, stepper=steps)
    rescaled = ms.flow(m, field, horizon=2.0, frames=5, stepper=steps)
    for t, x, z in zip(plain.times, plain.points, rescaled.frames, strict=True):
        assert np.abs(x @ expm(-t * V).T - np.asarray(z.points)).max() < 1e-8
        assert np.abs(np.asarray(field.tokens(z, t).points) - x).max() < 1e-8
