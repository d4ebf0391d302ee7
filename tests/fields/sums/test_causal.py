"""Causal attention in O(n) against the full masked matrix."""

from __future__ import annotations

import numpy as np
import pytest

import metastable as ms
from metastable.fields.sums.causal import CausalSum
from tests import oracles


def scene(dim, tokens=700):
    rng = np.random.default_rng(dim)
    x, w = oracles.unit(rng.normal(size=(tokens, dim))), rng.uniform(0.1, 1.0, tokens)
    times = rng.permutation(tokens // 5).repeat(5).astype(float)  # five tokens share each time
    return x, w / w.sum(), times


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("dim", [2, 3])
def test_velocity(dim, normalized):
    x, w, times = scene(dim)
    field = ms.SelfAttention(6.0, value=-2.0, normalized=normalized, causal=True)
    sum = CausalSum.reaching(6.0, dim, 1e-13)
    got = field.velocity(ms.Points(x, w, times), sum=sum)
    expected = oracles.project(
        x,
        oracles.attention(
            x, w, 6.0, value=-2.0, normalized=normalized, bias=oracles.causal_bias(times, times)
        ),
    )
    assert np.max(np.abs(got - expected)) < 1e-10 * np.max(np.abs(expected))


def test_the_first_token_sees_itself_alone():
    x, w, _ = scene(2)
    v = ms.SelfAttention(6.0, causal=True).velocity(ms.Points(x, w), sum=CausalSum.reaching(6.0, 2))
    assert np.linalg.norm(v[0]) < 1e-12


def test_a_crowd_of_one_time_is_never_silent():
    x, w, _ = scene(2)
    field, sum = ms.SelfAttention(6.0, causal=True), CausalSum.reaching(6.0, 2)
    assert np.isnan(field.velocity(ms.Points(x, w, np.zeros(700)), sum=sum)).all()


def test_refusals():
    x, w, _ = scene(2)
    sum = CausalSum.reaching(6.0, 2)
    for field in (
        ms.SelfAttention(6.0),
        ms.SelfAttention(6.0, causal=True, position=ms.Alibi(1.0)),
    ):
        with pytest.raises(ValueError, match="causal mask alone"):
            field.velocity(ms.Points(x, w), sum=sum)
    turned = ms.SelfAttention(6.0, query=[[0.0, 1.0], [1.0, 0.0]], causal=True)
    assert np.isnan(turned.velocity(ms.Points(x, w), sum=sum)).all()
    with pytest.raises(ValueError, match="dim must be from 2 to 8"):
        CausalSum(9, 10)
