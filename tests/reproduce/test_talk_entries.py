"""Entries about the talk: errors planted in the solver change verdicts."""

from __future__ import annotations

import equinox as eqx
import pytest

import metastable as ms
from metastable.numerics import jax
from metastable.reproduce.finding import Finding
from metastable.reproduce.real_models import _surrogate
from metastable.reproduce.talk_learning import attention_layers

RIGHT = ms.SelfAttention.drift


def hotter(self, measure, at, t, sum):
    return RIGHT(eqx.tree_at(lambda f: f.beta, self, 1.3 * self.beta), measure, at, t, sum)


def hurried(self, measure, at, t, sum):
    return 1.3 * RIGHT(self, measure, at, t, sum)


ENTRIES = {
    "clock off by 30 %, layers of attention": (
        lambda: attention_layers(tokens=4, beta=3.0, horizon=2.0, depths=[32, 64]),
        hurried,
    ),
    "β off by 30 %, cosines in high dimension": (
        lambda: Finding(_surrogate(4.0, [0.0, 4.0, 12.0])[0], {}),
        hotter,
    ),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_planted_error(name, monkeypatch):
    entry, wrong = ENTRIES[name]
    assert entry().as_known("agree")
    monkeypatch.setattr(ms.SelfAttention, "drift", wrong)
    jax.clear_caches()
    try:
        assert not entry().as_known("agree")
    finally:
        jax.clear_caches()
