"""Rope, Alibi, Window against brute force, and what each of them does to a prompt."""

from __future__ import annotations

import numpy as np
import pytest

import metastable as ms
from tests import oracles
from tests.fields.cases import arrays, error, places, velocity, weighted

S = np.random.default_rng(5).permutation(60).astype(float) / 2  # unsorted, not integers
AWAY = np.array([0.0, 2.2, 7.0, 7.0, 29.0])


def biases(name, row, column):
    gap = np.abs(row[:, None] - column[None, :])
    if name == "alibi":
        return -0.4 * gap
    seen = gap < 3.0
    if name == "window with sinks":
        seen |= column[None, :] < 2
    return np.where(seen, 0.0, -np.inf)


SCHEMES = {
    "alibi": ms.Alibi(slope=0.4),
    "window": ms.Window(width=3.0),
    "window with sinks": ms.Window(width=3.0, sinks=2),
}


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("causal", [False, True])
def test_bias_schemes(name, causal):
    rng = np.random.default_rng(2)
    m = ms.Points(ms.uniform(60, 3).points, rng.uniform(0.1, 1, 60), S)
    x, w = arrays(m)
    at = places(3)
    field = ms.SelfAttention(1.5, causal=causal, position=SCHEMES[name])
    for rows, times, where in [(x, S, None), (at, AWAY, ms.Points(at, times=AWAY))]:
        bias = biases(name, times, S) + (oracles.causal_bias(times, S) if causal else 0.0)
        expected = oracles.project(rows, oracles.attention(x, w, 1.5, at=rows, bias=bias))
        assert error(velocity(field, m, at=where), expected) < 1e-12
        if causal:
            blocks = velocity(field, m, at=where, sum=ms.Dense(block=16))
            assert error(blocks, expected) < 1e-12


@pytest.mark.parametrize("matrices", [False, True])
def test_rope_turns_queries_and_keys(matrices):
    rng = np.random.default_rng(3)
    q, k = rng.normal(size=(2, 6, 4)) if matrices else (None, None)
    m = weighted(60, 4, times=S)
    x, w = arrays(m)
    left, right = oracles.apply(q, x), oracles.apply(k, x)
    turn = np.stack([oracles.rope_matrix(s, left.shape[1], 50.0) for s in S])
    left, right = np.einsum("nab,nb->na", turn, left), np.einsum("nab,nb->na", turn, right)
    p, _ = oracles.weighted_softmax(1.5 * left @ right.T, w)
    field = ms.SelfAttention(1.5, q, k, position=ms.Rope(base=50.0))
    assert error(velocity(field, m), oracles.project(x, p @ x)) < 1e-12


def test_rope_knows_only_differences_of_time():
    m = weighted(60, 4, times=S)
    later = ms.Points(m.points, m.weights, S + 123.0)
    field = ms.SelfAttention(2.0, position=ms.Rope())
    assert error(velocity(field, later), np.asarray(velocity(field, m))) < 1e-12
    plain = np.asarray(velocity(ms.SelfAttention(2.0), m))
    assert np.abs(np.asarray(velocity(field, m)) - plain).max() > 1e-2


def test_several_schemes_act_together():
    m = weighted(60, 4, times=S)
    x, w = arrays(m)
    w = w + 0.01
    m = ms.Points(x, w, S)
    turned = np.stack([oracles.rope_matrix(s, 4, 10000.0) @ y for s, y in zip(S, x, strict=True)])
    bias = biases("alibi", S, S) + biases("window", S, S) + oracles.causal_bias(S, S)
    p, _ = oracles.weighted_softmax(2.0 * turned @ turned.T + bias, w)
    schemes = [ms.Rope(), ms.Alibi(0.4), ms.Window(3.0)]
    field = ms.SelfAttention(2.0, causal=True, position=schemes)
    assert error(velocity(field, m), oracles.project(x, p @ x)) < 1e-12


def test_a_huge_slope_freezes_the_prompt():
    # Every token sees only itself, and P_x x = 0.
    v = velocity(ms.SelfAttention(1.0, position=ms.Alibi(slope=1e4)), ms.uniform(60, 3))
    assert np.abs(np.asarray(v)).max() < 1e-15


def test_a_window_keeps_far_tokens_independent():
    field = ms.SelfAttention(1.0, position=ms.Window(width=4.0))
    times = np.concatenate([np.arange(5.0), 100.0 + np.arange(5.0)])
    x = np.asarray(ms.uniform(10, 3).points)
    other = np.concatenate([x[:5], x[5:][::-1]])
    deep = lambda y: ms.flow(ms.Points(y, times=times), field, 6.0, stepper=ms.Layers()).points
    a, b = deep(x), deep(other)
    assert np.array_equal(a[:, :5], b[:, :5])
    assert np.abs(a[-1, 5:] - b[-1, 5:]).max() > 0.01


@pytest.mark.parametrize("position", ["rope", 3.0, ms.Rope])
def test_a_scheme_that_is_none_is_refused(position):
    with pytest.raises(ValueError, match="position"):
        ms.SelfAttention(1.0, position=position)
