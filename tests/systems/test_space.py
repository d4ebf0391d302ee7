"""Pure attention in R^d with V = I (THEORY §7): nested hulls, growing distances, long times."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.spatial import ConvexHull
from scipy.spatial.distance import pdist

import metastable as ms

START = ms.gaussian_points(20, 2, seed=3)
ATTENTION = ms.SelfAttention(1.0)


@pytest.fixture(scope="module")
def rescaled():
    return ms.flow(START, ms.Rescaled(ATTENTION), horizon=16.0, frames=65)


@pytest.fixture(scope="module")
def plain():
    return ms.flow(START, ATTENTION, horizon=16.0, frames=65)


def test_runs_reach_time_sixteen(rescaled, plain):
    for run in (rescaled, plain):
        assert run.outcome.name == "done" and np.isfinite(run.points).all()
    # x = e^t z; early on both are accurate, later rounding separates the exponents' digits.
    early = plain.times <= 4
    z = plain.points * np.exp(-plain.times)[:, None, None]
    assert np.abs(z - rescaled.points)[early].max() < 1e-6


def test_hulls_of_rescaled_tokens_are_nested(rescaled):
    z = rescaled.points
    for before, after in itertools.pairwise(z):
        faces = ConvexHull(before).equations  # normal·z + offset ≤ 0 inside
        assert (after @ faces[:, :2].T + faces[:, 2]).max() < 1e-8
    assert ConvexHull(z[-1]).volume < 0.999 * ConvexHull(z[0]).volume


def test_plain_tokens_never_come_closer(plain):
    distances = np.stack([pdist(x) for x in plain.points])
    assert (np.diff(distances, axis=0) >= -1e-7 * distances[1:]).all()
    assert distances[-1].min() > distances[0].min()


def test_repelled_tokens_shrink_like_the_inverse_root_of_time():
    # V = −I: all x tend to 0 like t^{−1/2}. One token: ẋ = −x is faster; the power needs several.
    run = ms.flow(START, ms.SelfAttention(1.0, value=-1), horizon=4000.0, frames=[1000.0, 2000.0])
    size = np.linalg.norm(run.points, axis=-1).max(axis=1)
    exponent = np.log(size[-1] / size[-2]) / np.log(2)
    assert exponent == pytest.approx(-0.5, abs=0.01)
