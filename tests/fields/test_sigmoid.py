"""Sigmoid attention and softmax with a sink: brute force, and the limits that are known fields."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

import metastable as ms
from metastable.fields.sums import choose_sum
from tests import oracles
from tests.fields.cases import arrays, error, matrices, places, velocity, weighted

TIMES = np.random.default_rng(5).permutation(57).astype(float)


def test_sigmoid_velocity_is_the_weighted_sum():
    m, at = weighted(57, 3), places(3)
    x, w = arrays(m)
    query, key, value = matrices(3)
    field = ms.SigmoidAttention(2.0, -0.7, query, key, value)
    for rows, where in ((x, None), (at, at)):
        logits = 2.0 * oracles.apply(query, rows) @ oracles.apply(key, x).T - 0.7
        expected = oracles.project(rows, (expit(logits) * w) @ oracles.apply(value, x))
        assert error(velocity(field, m, at=where), expected) < 1e-12


def test_limits_of_sigmoid_attention():
    m = weighted(57, 3)
    kuramoto = np.asarray(velocity(ms.Kuramoto(expit(0.4)), m))
    assert error(velocity(ms.SigmoidAttention(0.0, 0.4), m), kuramoto) < 1e-14
    usa = np.asarray(velocity(ms.SelfAttention(2.0, normalized=False), m))
    rare = np.asarray(velocity(ms.SigmoidAttention(2.0, -20.0), m)) * np.exp(20.0)
    assert np.abs(rare - usa).max() < 1e-7  # relative e^{β+b} = 1.5e−8
    x, w = arrays(m)
    seen = np.where(x @ x.T > 0.3, w, 0.0) @ x  # confidence within ⟨x,y⟩ > h = 0.3
    sharp = velocity(ms.SigmoidAttention(1e6, -0.3e6), m)
    assert error(sharp, oracles.project(x, seen)) < 1e-12


@pytest.mark.parametrize("causal", [True, False])
def test_sink_velocity_has_one_more_term_below(causal):
    m, at = weighted(57, 3, times=TIMES), places(3)
    x, w = arrays(m)
    query, key, value = matrices(3)
    field = ms.SinkAttention(1.5, 0.8, query, key, value, causal)
    for rows, times, where in (
        (x, TIMES, None),
        (at, TIMES[:5], ms.Points(at, times=TIMES[:5])),
    ):
        logits = 1.5 * oracles.apply(query, rows) @ oracles.apply(key, x).T
        seen = (times[:, None] >= TIMES) | (not causal)
        k = np.where(seen, np.exp(logits), 0.0) * w
        pull = k @ oracles.apply(value, x) / (np.exp(0.8) + k.sum(1))[:, None]
        assert error(velocity(field, m, at=where), oracles.project(rows, pull)) < 1e-12


def test_limits_of_the_sink():
    m = weighted(57, 3)
    softmax = np.asarray(velocity(ms.SelfAttention(2.0), m))
    assert error(velocity(ms.SinkAttention(2.0, -60.0), m), softmax) < 1e-13
    usa = np.asarray(velocity(ms.SelfAttention(2.0, normalized=False), m))
    late = np.asarray(velocity(ms.SinkAttention(2.0, 30.0), m)) * np.exp(30.0)
    assert np.abs(late - usa).max() < 1e-10  # relative e^{β−s}


def test_each_token_has_its_own_clock_under_a_sink():
    m = weighted(57, 3)
    x, w = arrays(m)
    mass = np.exp(2.0 * x @ x.T) @ w
    slowed = (mass / (mass + np.exp(1.3)))[:, None] * np.asarray(velocity(ms.SelfAttention(2.0), m))
    assert error(velocity(ms.SinkAttention(2.0, 1.3), m), slowed) < 1e-13


def test_many_tokens_take_a_fast_sum_under_a_sink():
    m, field = ms.uniform(tokens=3000, dim=2, seed=2), ms.SinkAttention(9.0, 4.0)
    assert choose_sum(m, field).name.startswith("harmonic")
    assert error(field.velocity(m), np.asarray(field.velocity(m, sum=ms.Dense()))) < 1e-9


def test_equiangular_tokens_wait_in_both_clocks():
    start, field = ms.orthogonal(tokens=4, dim=4), ms.SinkAttention(2.0, 1.0)
    run = ms.flow(start, field, 9.0, frames=10, progress=False)
    seen = [float(frame.points[0] @ frame.points[1]) for frame in run.frames]
    assert np.abs(np.array(seen) - ms.theory.sink_cosine(run.times, 2.0, 4, 1.0)).max() < 1e-8


@pytest.mark.parametrize("make", [ms.SigmoidAttention, ms.SinkAttention])
def test_bad_numbers_are_refused(make):
    with pytest.raises(ValueError, match=r"beta must be >= 0; got -1"):
        make(-1.0)
    with pytest.raises(ValueError, match=r"(bias|sink).*nan"):
        make(1.0, np.nan)
    with pytest.raises(ValueError, match=r"query and key.*4 and 3"):
        make(1.0, query=np.ones((4, 3))).velocity(ms.simplex(3))
