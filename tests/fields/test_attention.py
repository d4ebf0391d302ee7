"""Attention velocities against brute force (tests/oracles.py), to 1e−12."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

import metastable as ms
from tests import oracles
from tests.fields.cases import SHAPES, arrays, error, matrices, places, velocity, weighted

BLOCKS = [ms.Dense(), ms.Dense(block=64)]  # 257 tokens: one block, and five with a short last one


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize(("tokens", "dim"), SHAPES)
def test_identity_attention(tokens, dim, normalized):
    m, at = weighted(tokens, dim), places(dim)
    field = ms.SelfAttention(beta=2.5, normalized=normalized)
    x, w = arrays(m)
    own = oracles.project(x, oracles.attention(x, w, 2.5, normalized=normalized))
    away = oracles.project(at, oracles.attention(x, w, 2.5, normalized=normalized, at=at))
    for sum in BLOCKS[: 1 if tokens < 64 else 2]:
        assert error(velocity(field, m, sum=sum), own) < 1e-12
        assert error(velocity(field, m, at=at, sum=sum), away) < 1e-12


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize(("tokens", "dim"), SHAPES)
def test_attention_with_matrices(tokens, dim, normalized):
    m, (q, k, v) = weighted(tokens, dim), matrices(dim)
    field = ms.SelfAttention(1.7, q, k, v, normalized=normalized)
    x, w = arrays(m)
    own = oracles.project(x, oracles.attention(x, w, 1.7, q, k, v, normalized))
    for sum in BLOCKS[: 1 if tokens < 64 else 2]:
        assert error(velocity(field, m, sum=sum), own) < 1e-12
    if tokens == 257:
        at = places(dim)
        away = oracles.project(at, oracles.attention(x, w, 1.7, q, k, v, normalized, at=at))
        assert error(velocity(field, m, at=at), away) < 1e-12


def test_tokens_in_space_are_not_projected():
    m, (q, k, v) = weighted(257, 3, on_sphere=False), matrices(3)
    x, w = arrays(m)
    for args in [(None, None, None), (q, k, v), (None, None, -1.0), (2.0, None, v)]:
        expected = oracles.attention(x, w, 0.8, *args)
        assert error(velocity(ms.SelfAttention(0.8, *args), m), expected) < 1e-12


def test_numbers_and_multiples_of_the_identity_are_one_thing():
    m = weighted(257, 3)
    x, w = arrays(m)
    expected = oracles.project(x, oracles.attention(x, w, 2.0, -1.0, 0.5, -3.0))
    for build in (lambda c: c, lambda c: c * np.eye(3)):
        field = ms.SelfAttention(2.0, build(-1.0), build(0.5), build(-3.0))
        assert error(velocity(field, m), expected) < 1e-12
        assert field.isotropic
    assert ms.SelfAttention(2.0, np.eye(3)).query is None
    assert repr(ms.SelfAttention(9.0, value=-np.eye(3))) == "SelfAttention(beta=9, value=-1)"


@pytest.mark.parametrize("beta", [1e3, 1e6])
def test_huge_inverse_temperature_does_not_overflow(beta):
    m = ms.uniform(64, 3, seed=2)
    x = np.asarray(m.points)
    logits = beta * x @ x.T
    p = np.exp(logits - logsumexp(logits, axis=1)[:, None])
    assert error(velocity(ms.SelfAttention(beta), m), oracles.project(x, p @ x)) < 1e-12
    # The general path, which keeps a running maximum, must agree.
    general = ms.SelfAttention(beta, query=2.0, key=0.5)
    assert error(velocity(general, m), oracles.project(x, p @ x)) < 1e-12


def test_unnormalised_attention_holds_its_digits_up_to_the_range_of_doubles():
    m = ms.uniform(64, 3, seed=2)
    x, w = arrays(m)
    expected = oracles.project(x, oracles.attention(x, w, 600.0, normalized=False))
    got = np.asarray(velocity(ms.SelfAttention(600.0, normalized=False), m))
    assert np.abs(got / np.exp(600.0) - expected / np.exp(600.0)).max() < 1e-12


def test_a_token_without_mass_follows_the_others_at_any_temperature():
    m = ms.Points([[1.0, 0.0], oracles.unit(np.array([-1.0, 0.1]))], weights=[1, 0])
    x, w = arrays(m)
    expected = oracles.project(x, oracles.attention(x, w, 400.0))
    assert error(velocity(ms.SelfAttention(400.0), m), expected) < 1e-12


TIMES = {
    "order": lambda n: None,
    "shuffled": lambda n: np.random.default_rng(0).permutation(n).astype(float),
    "ties": lambda n: np.sort(np.arange(n) // 2 % 7).astype(float),
}


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize(("tokens", "dim"), [(1, 2), (2, 3), (257, 16)])
def test_causal_attention_sees_no_later_token(tokens, dim, times):
    stamps = TIMES[times](tokens)
    m, (q, k, v) = weighted(tokens, dim, times=stamps), matrices(dim)
    m = ms.Points(m.points, np.asarray(m.weights) + 0.01, stamps)  # a first token needs mass
    x, w = arrays(m)
    s = np.arange(tokens, dtype=float) if stamps is None else stamps
    at, at_times = places(dim), s[0] + np.array([0.0, 0.5, 3.0, 3.0, 400.0])
    at_times = np.maximum(at_times, s.min())
    for normalized in (True, False):
        field = ms.SelfAttention(1.3, q, k, v, normalized=normalized, causal=True)
        args = (x, w, 1.3, q, k, v, normalized)
        own = oracles.attention(*args, bias=oracles.causal_bias(s, s))
        assert error(velocity(field, m), oracles.project(x, own)) < 1e-12
        away = oracles.attention(*args, at=at, bias=oracles.causal_bias(at_times, s))
        got = velocity(field, m, at=ms.Points(at, times=at_times))
        assert error(got, oracles.project(at, away)) < 1e-12


def test_causal_attention_in_blocks_is_the_same():
    m = ms.Points(ms.uniform(257, 3).points, times=1.0 + TIMES["shuffled"](257))
    field = ms.SelfAttention(4.0, causal=True)
    assert error(velocity(field, m, sum=ms.Dense(block=64)), np.asarray(velocity(field, m))) < 1e-13


def test_a_place_before_every_token_feels_nothing():
    early = ms.Points([[0.0, 1.0]], times=[-1.0])
    for normalized in (True, False):
        field = ms.SelfAttention(1.0, normalized=normalized, causal=True)
        assert np.array_equal(velocity(field, ms.polygon(3), at=early), [[0.0, 0.0]])


def test_l2_attention_is_softmax_of_minus_half_the_squared_distance():
    m, (q, k, v) = weighted(257, 3), matrices(3)
    x, w = arrays(m)
    for args in [(None, None, None), (q, k, v)]:
        left, right = oracles.apply(args[0], x), oracles.apply(args[1], x)
        squares = ((left[:, None] - right[None]) ** 2).sum(-1)
        p, _ = oracles.weighted_softmax(-0.5 * 3.0 * squares, w)
        expected = oracles.project(x, p @ oracles.apply(args[2], x))
        assert error(velocity(ms.L2Attention(3.0, *args), m), expected) < 1e-12
    causal = velocity(ms.L2Attention(3.0, q, k, causal=True), ms.uniform(4, 3))
    x = np.asarray(ms.uniform(4, 3).points)
    squares = (((x @ q.T)[:, None] - (x @ k.T)[None]) ** 2).sum(-1)
    mask = oracles.causal_bias(np.arange(4), np.arange(4))
    p, _ = oracles.weighted_softmax(-1.5 * squares + mask, np.full(4, 0.25))
    assert error(causal, oracles.project(x, p @ x)) < 1e-12


def test_l2_attention_on_the_sphere_is_softmax_attention():
    m = weighted(257, 3)
    expected = np.asarray(velocity(ms.SelfAttention(5.0), m))
    assert error(velocity(ms.L2Attention(5.0), m), expected) < 1e-12
    # In R^d it is not: the norms of the keys count.
    free = weighted(257, 3, on_sphere=False)
    gap = np.asarray(velocity(ms.SelfAttention(5.0), free) - velocity(ms.L2Attention(5.0), free))
    assert np.abs(gap).max() > 0.1


@pytest.mark.parametrize(("tokens", "dim"), [(1, 2), (2, 3), (257, 3)])
def test_sinkhorn_attention(tokens, dim):
    m, (q, k, v) = weighted(tokens, dim), matrices(dim)
    x, w = arrays(m)
    field = ms.SinkhornAttention(1.5, q, k, v)
    coupling = oracles.sinkhorn_coupling(1.5 * (x @ q.T) @ (x @ k.T).T, w)
    assert np.abs(coupling.sum(1) - w).max() < 1e-14 and np.abs(coupling.sum(0) - w).max() < 1e-14
    live = w > 0
    expected = oracles.project(x[live], (coupling[live] / w[live, None]) @ x @ v.T)
    for sum in BLOCKS[: 1 if tokens < 64 else 2]:
        assert error(np.asarray(velocity(field, m, sum=sum))[live], expected) < 1e-12


def test_sinkhorn_couplings_are_doubly_stochastic_and_fix_the_polygon():
    # In R^d the velocity is Σ_j π_ij x_j / w_i, so columns that sum to w_j keep the mean of all
    # tokens; on the polygon the equal row sums leave a vector along x_i.
    m = weighted(64, 3, on_sphere=False)
    x, w = arrays(m)
    v = np.asarray(velocity(ms.SinkhornAttention(2.0), m))
    assert np.abs(w @ v - w @ x).max() < 1e-12
    ring = ms.polygon(7)
    assert np.abs(np.asarray(velocity(ms.SinkhornAttention(6.0), ring))).max() < 1e-13


def test_multi_head_adds_heads_through_their_outputs():
    rng = np.random.default_rng(3)
    d, dv = 3, 5
    m = weighted(257, d)
    x, w = arrays(m)
    q, k, _ = matrices(d)
    v, out, square = rng.normal(size=(dv, d)), rng.normal(size=(d, dv)), rng.normal(size=(d, d))
    heads = [
        ms.SelfAttention(1.0, q, k, v),
        ms.SelfAttention(4.0, normalized=False),
        ms.SelfAttention(2.0, causal=True, value=-1),
    ]
    s = np.arange(257.0)
    expected = oracles.project(
        x,
        oracles.attention(x, w, 1.0, q, k, v) @ out.T
        + 0.5 * oracles.attention(x, w, 4.0, normalized=False)
        + oracles.attention(x, w, 2.0, value=-1, bias=oracles.causal_bias(s, s)) @ square.T,
    )
    field = ms.MultiHead(heads, [out, 0.5, square])
    assert error(velocity(field, m), expected) < 1e-12
    assert error(velocity(field, m, sum=ms.Dense(block=64)), expected) < 1e-12
    assert field.clock == "SA+USA"


def test_equal_heads_without_outputs_add_up():
    m = weighted(2, 3)
    one = np.asarray(velocity(ms.SelfAttention(2.0), m))
    assert error(ms.MultiHead([ms.SelfAttention(2.0)] * 3).velocity(m), 3 * one) < 1e-14
    assert error((ms.SelfAttention(2.0) + ms.SelfAttention(2.0)).velocity(m), 2 * one) < 1e-14
