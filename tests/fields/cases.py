"""The measures the velocity tests share."""

from __future__ import annotations

import itertools

import equinox as eqx
import numpy as np

import metastable as ms
from tests import oracles

SHAPES = list(itertools.product([1, 2, 257], [2, 3, 16]))  # tokens, dimension


def weighted(tokens, dim, seed=0, times=None, on_sphere=True):
    """Tokens with unequal masses, one of them zero when there are several."""
    rng = np.random.default_rng([tokens, dim, seed])
    x = rng.normal(size=(tokens, dim))
    w = rng.uniform(0.1, 1.0, tokens)
    if tokens > 1:
        w[tokens // 2] = 0.0
    return ms.Points(oracles.unit(x) if on_sphere else x, w, times, on_sphere=on_sphere)


def arrays(measure):
    return np.asarray(measure.points), np.asarray(measure.weights)


def places(dim, count=5, seed=9):
    return oracles.unit(np.random.default_rng([dim, seed]).normal(size=(count, dim)))


def matrices(dim, seed=1, inner=4):
    """Query and key into a space of another dimension, and a square value."""
    rng = np.random.default_rng([dim, seed])
    shapes = [(inner, dim), (inner, dim), (dim, dim)]
    return [rng.normal(size=shape) / np.sqrt(dim) for shape in shapes]


def error(got, expected):
    """Largest difference, relative to the largest entry where that exceeds 1."""
    got = np.asarray(got)
    assert got.shape == expected.shape and got.dtype == np.float64
    return np.max(np.abs(got - expected)) / max(1.0, np.max(np.abs(expected)))


@eqx.filter_jit
def velocity(field, measure, at=None, t=0.0, sum=None):
    """The field's velocity in one compilation: many small eager operations compile one by one."""
    return field.velocity(measure, at=at, t=t, sum=sum)
