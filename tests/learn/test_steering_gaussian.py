"""Steering a Gaussian: distances against scipy, paths against the geodesic, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import sqrtm

from metastable.learn.gaussian.steering import steer
from metastable.measures.gaussian import Gaussian
from metastable.observe import bures_wasserstein


def random_pair(seed, dim, rank):
    random = np.random.default_rng(seed)
    return [
        Gaussian.from_factor(random.standard_normal(dim), random.standard_normal((dim, rank)))
        for _ in range(2)
    ]


def test_distance_is_bures_formula():
    """Oracle: |m − m′|² + tr(Σ + Σ′ − 2(Σ^½Σ′Σ^½)^½) by scipy's matrix roots."""
    one, other = random_pair(0, 4, 4)
    a, b = np.asarray(one.cov), np.asarray(other.cov)
    root = sqrtm(a)
    square = np.sum((one.mean - other.mean) ** 2) + np.trace(
        a + b - 2 * sqrtm(root @ b @ root).real
    )
    assert bures_wasserstein(one, other) == pytest.approx(np.sqrt(square), rel=1e-10)
    assert bures_wasserstein(other, one) == pytest.approx(np.sqrt(square), rel=1e-10)
    assert bures_wasserstein(one, one) < 1e-14


def test_distance_of_singular_covariances():
    """Two lines through the plane: N(0, uuᵀ) and N(0, vvᵀ) with |⟨u, v⟩| = cos θ."""
    angle = 0.7
    one = Gaussian.from_factor(np.zeros(2), [[1.0], [0.0]])
    other = Gaussian.from_factor(np.zeros(2), [[-np.cos(angle)], [-np.sin(angle)]])
    assert bures_wasserstein(one, other) == pytest.approx(2 * np.sin(angle / 2), rel=1e-12)


def test_a_path_reaches_a_goal_of_lower_rank_and_keeps_the_rank():
    start, goal = random_pair(1, 3, 2)
    found = steer(start, goal, layers=4, steps=60)
    assert found.distances[0] == pytest.approx(bures_wasserstein(start, goal), rel=1e-12)
    assert found.distances[-1] < 1e-6
    assert {frame.rank() for frame in found.run.frames} == {2}
    assert found.action >= bures_wasserstein(start, found.run.frames[-1]) ** 2 * (1 - 1e-12)


def test_what_attention_cannot_do_is_refused():
    start, _ = random_pair(3, 3, 2)
    with pytest.raises(ValueError, match=r"rank of the start.*rank 3 against 3 and 2"):
        steer(start, Gaussian(np.zeros(3), 1.0))
    with pytest.raises(ValueError, match="mean 0 like the start"):
        steer(Gaussian(np.zeros(2), 1.0), Gaussian([1.0, 0.0], 1.0))
