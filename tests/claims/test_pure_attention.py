"""Pure attention in R^d: limit shapes, ranks and rates over many random draws.

Source: arXiv:2305.05465, Theorems 2.1, 3.1, 4.1, 5.1 and C.5; rates from THEORY §7.
"""

from __future__ import annotations

import pytest

from tests.systems.test_pure_attention import (
    check_decay,
    check_hyperplanes,
    check_line,
    check_polytope,
    check_subspace,
)

pytestmark = pytest.mark.claim


@pytest.mark.parametrize("dim", [2, 3])
def test_polytope(dim):
    for seed in range(20):
        check_polytope(dim, seed)


@pytest.mark.parametrize("dim", [2, 3])
def test_hyperplanes(dim):
    check_hyperplanes(dim, draws=50, seed=dim)


def test_polytope_times_subspace():
    check_subspace(draws=20, seed=5)


def test_boolean_limit_on_the_line():
    check_line(starts=50)


def test_repelled_tokens_fall_like_the_root_of_time():
    check_decay(seeds=10, horizon=1e5)
