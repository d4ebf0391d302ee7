"""Causal attention: the first token leads, and the future does not act on the past."""

from __future__ import annotations

import numpy as np
import pytest

import metastable as ms

START = ms.uniform(6, 3, seed=4)
MATRIX = np.random.default_rng(1).normal(size=(3, 3))


def test_every_token_converges_to_the_first():
    # arXiv:2411.04990: with V = I, any Q and K, all tokens tend to x_1(0), which never moves.
    field = ms.SelfAttention(1.0, query=MATRIX, causal=True)
    run = ms.flow(START, field, horizon=120.0, frames=3)
    first = np.asarray(START.points[0])
    assert np.abs(run.points[:, 0] - first).max() < 1e-12
    assert np.abs(run.points[-1] - first).max() < 1e-6


MOVES = {
    "velocity": lambda m, f: np.asarray(f.velocity(m)),
    "layers": lambda m, f: ms.flow(m, f, 4.0, stepper=ms.Layers(0.5)).points[-1],
    "flow": lambda m, f: ms.flow(m, f, 2.0, frames=2, stepper=ms.Fixed(0.05)).points[-1],
}


@pytest.mark.parametrize("how", MOVES)
def test_the_future_does_not_act_on_the_past(how):
    field = ms.SelfAttention(2.0, query=MATRIX, causal=True)
    x = np.asarray(START.points)
    whole = MOVES[how](START, field)[:4]
    other = ms.Points(np.concatenate([x[:4], x[4:][::-1]]))  # another continuation
    assert np.array_equal(MOVES[how](other, field)[:4], whole)
    assert np.abs(MOVES[how](ms.Points(x[:4]), field) - whole).max() < 1e-12


def test_unnormalised_attention_sums_over_the_past_only():
    # A prompt cut after 4 of 6 tokens gives each token 6/4 of its mass; V = 4/6 undoes that.
    field = ms.SelfAttention(2.0, MATRIX, causal=True, normalized=False)
    short = ms.SelfAttention(2.0, MATRIX, value=4 / 6, causal=True, normalized=False)
    expected = np.asarray(field.velocity(START))[:4]
    got = np.asarray(short.velocity(ms.Points(START.points[:4])))
    assert np.abs(got - expected).max() < 1e-12 * np.abs(expected).max()
