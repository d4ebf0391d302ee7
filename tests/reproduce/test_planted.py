"""Errors planted in the solver change the verdicts of entries on tokens of the sphere."""

from __future__ import annotations

import equinox as eqx
import pytest

import metastable as ms
from metastable.numerics import jax
from metastable.reproduce.attention_parts import many_heads, permutations
from metastable.reproduce.energies import (
    energy_monotone,
    unnormalised_gradient,
    weighted_gradient,
)
from metastable.reproduce.single_cluster import orthogonal_tokens

DRIFT = ms.SelfAttention.drift


def hotter(self, measure, at, t, sum):
    """β off by 30 %."""
    return DRIFT(eqx.tree_at(lambda f: f.beta, self, 1.3 * self.beta), measure, at, t, sum)


def leaning(self, measure, at, t, sum):
    """The first token pulls a little more than its weight."""
    return DRIFT(self, measure, at, t, sum) + 0.1 * measure.points[:1]


def hurried(self, measure, at, t, sum):
    """A clock off by 30 %."""
    return 1.3 * DRIFT(self, measure, at, t, sum)


CASES = {
    "equiangular, β": (hotter, lambda: orthogonal_tokens(tokens=4, betas=[3.0], horizon=2.0)),
    "equiangular, clock": (hurried, lambda: orthogonal_tokens(tokens=4, betas=[3.0], horizon=2.0)),
    "energy": (hotter, lambda: energy_monotone(tokens=6, dim=3, beta=3.0, horizon=2.0)),
    "gradient": (hotter, lambda: unnormalised_gradient(tokens=6, dim=3, betas=[2.0])),
    "weighted gradient": (hotter, lambda: weighted_gradient(tokens=6, dim=3, betas=[2.0])),
    "heads": (hotter, lambda: many_heads(tokens=6, dim=4, beta=2.0, heads=2)),
    "permutations": (leaning, lambda: permutations(tokens=6, dim=3, beta=2.0, horizon=1.0)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_planted_error_flips_the_verdict(name, monkeypatch):
    wrong, entry = CASES[name]
    assert entry().as_known("agree")
    monkeypatch.setattr(ms.SelfAttention, "drift", wrong)
    jax.clear_caches()
    try:
        assert not entry().as_known("agree")
    finally:
        jax.clear_caches()
