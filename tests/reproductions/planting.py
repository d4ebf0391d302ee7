"""Errors to plant in a solver, and whether an entry notices them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx

import metastable as ms
from metastable.core.numerics import jax
from metastable.reproduce.finding import Finding

RIGHT = {kind: kind.drift for kind in (ms.SelfAttention, ms.Rescaled)}


def hotter(self, measure, at, t, sum):
    """β off by 30 %."""
    warm = eqx.tree_at(lambda f: f.beta, self, 1.3 * self.beta)
    return RIGHT[ms.SelfAttention](warm, measure, at, t, sum)


def hurried(self, measure, at, t, sum):
    """A clock off by 30 %."""
    return 1.3 * RIGHT[type(self)](self, measure, at, t, sum)


def backwards(self, measure, at, t, sum):
    return -RIGHT[type(self)](self, measure, at, t, sum)


def leaning(self, measure, at, t, sum):
    """The first token pulls a little more than its weight."""
    return RIGHT[type(self)](self, measure, at, t, sum) + 0.1 * measure.points[:1]


def verdicts(
    entry: Callable[[], Finding], wrong: Any, monkeypatch: Any, kind: type = ms.SelfAttention
) -> tuple[bool, bool]:
    """Whether an entry comes out as known: without the error, and with it."""
    before = entry().as_known("agree")
    monkeypatch.setattr(kind, "drift", wrong)
    jax.clear_caches()  # compiled code would not hear of it
    try:
        return before, entry().as_known("agree")
    finally:
        jax.clear_caches()
