"""Pure attention in R^d: limit shapes, ranks and rates over many random draws.

Source: arXiv:2305.05465, Theorems 2.1, 3.1, 4.1, 5.1 and C.5; rates derived for this project.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.systems.test_pure_attention import (
    check_decay,
    check_line,
    check_polytope,
    check_subspace,
    hyperplane_distances,
)

pytestmark = pytest.mark.claim


@pytest.mark.parametrize("dim", [2, 3])
def test_polytope(dim):
    for seed in range(20):
        check_polytope(dim, seed)


@pytest.mark.parametrize("dim", [2, 3])
def test_hyperplanes(dim):
    assert hyperplane_distances(dim, draws=50, seed=dim, ratio=0.5).max() < 1e-3


@pytest.mark.parametrize("dim", [2, 3])
def test_hyperplanes_without_a_gap(dim):
    # Some tokens turn after λ_1 T = 10 where |λ_2| is close to λ_1: most draws, not all.
    distances = hyperplane_distances(dim, draws=50, seed=10 + dim, ratio=1.0)
    assert np.mean(distances < 1e-3) >= 0.9


def test_polytope_times_subspace():
    check_subspace(draws=20, seed=5)


def test_boolean_limit_on_the_line():
    check_line(starts=50)


def test_repelled_tokens_fall_like_the_root_of_time():
    check_decay(seeds=10, horizon=1e5)
