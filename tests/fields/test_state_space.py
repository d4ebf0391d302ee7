"""State-space layers against brute force, and the first tokens that lead."""

from __future__ import annotations

import numpy as np
import pytest

import metastable as ms
from tests import oracles
from tests.fields.cases import arrays, error, matrices, places, velocity, weighted

S = np.random.default_rng(5).permutation(57).astype(float) // 2  # unsorted, some alike
AWAY = np.array([-1.0, 2.2, 7.0, 7.0, 29.0])
GATE = [0.5, -1.0, 0.3]


def drift(x, w, rows, times, decay, operators, gate):
    query, key, value = operators
    step = np.ones(len(x)) if gate is None else np.log1p(np.exp(x @ np.array(gate) + 0.2))
    taken = np.array([np.sum((w * step)[s >= S]) for s in S])
    at = np.array([np.sum((w * step)[s >= S]) for s in times])
    logits = oracles.apply(query, rows) @ oracles.apply(key, x).T
    fading = np.exp(-decay * np.maximum(at[:, None] - taken, 0)) * w * step
    k = np.where(times[:, None] >= S, fading * logits, 0.0)
    return oracles.project(rows, k @ oracles.apply(value, x))


@pytest.mark.parametrize("gate", [None, GATE])
def test_velocity_is_the_weighted_sum(gate):
    m = weighted(57, 3, times=S)
    x, w = arrays(m)
    operators = matrices(3)
    field = ms.StateSpace(2.5, *operators, gate=gate, bias=0.2)
    for rows, times, at in [(x, S, None), (places(3), AWAY, ms.Points(places(3), times=AWAY))]:
        expected = drift(x, w, rows, times, 2.5, operators, gate)
        assert error(velocity(field, m, at=at), expected) < 1e-12


def test_it_is_the_recurrence_of_a_memory():
    """h_k = e^{−am_k}h_{k−1} + m_k Bx_k ⊗ x_k and y_k = Cx_k·h_k, as a network computes it."""
    m = weighted(20, 3)
    x, w = arrays(m)
    query, key, _ = matrices(3)
    memory, read = np.zeros((4, 3)), []
    for k in range(20):
        memory = np.exp(-1.5 * w[k]) * memory + w[k] * np.outer(key @ x[k], x[k])
        read.append(query @ x[k] @ memory)
    expected = oracles.project(x, np.array(read))
    assert error(velocity(ms.StateSpace(1.5, query, key), m), expected) < 1e-13


def test_without_decay_it_is_linear_attention_that_looks_back():
    m = weighted(12, 3)
    x, w = arrays(m)
    k = np.tril(x @ x.T) * w
    assert error(velocity(ms.StateSpace(0.0), m), oracles.project(x, k @ x)) < 1e-13


def test_the_second_token_follows_the_first():
    start = ms.Points([[1.0, 0.0], [np.cos(2.0), np.sin(2.0)]], weights=[0.3, 0.7])
    run = ms.flow(start, ms.StateSpace(1.2), 12.0, frames=9, progress=False)
    expected = ms.theory.follower_angle(run.times, 2.0, 1.2, masses=(0.3, 0.7))
    seen = np.array([float(frame.angles[1]) for frame in run.frames])
    assert np.abs(seen - expected).max() < 1e-7
    assert seen[-1] > 2.5  # more than a right angle away: to the antipode


def test_what_does_not_fit_is_refused():
    ball = ms.simplex(3)
    with pytest.raises(ValueError, match="decay must be >= 0; got -1"):
        ms.StateSpace(-1.0)
    with pytest.raises(ValueError, match=r"gate must have one entry per axis \(3\); got 2"):
        ms.StateSpace(gate=[1.0, 2.0]).velocity(ball)
    with pytest.raises(ValueError, match="needs their times"):
        ms.StateSpace().velocity(ball, at=np.eye(3))
    with pytest.raises(ValueError, match=r"query and key.*4 and 3"):
        ms.StateSpace(query=np.ones((4, 3))).velocity(ball)
