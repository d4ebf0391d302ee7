"""Smoothness of attention, propagation of chaos, and the deviation of Theorem 8.

Sources: arXiv:2312.14820; Sznitman (1991), Fournier and Guillin (2015); arXiv:2312.10794, Theorem
6.9.
"""

from __future__ import annotations

import pytest

from tests.systems.test_smoothness import (
    check_chaos,
    check_equiangular_deviation,
    check_lipschitz,
)

pytestmark = pytest.mark.claim


def test_derivative_stays_below_the_bounds_and_grows_like_the_root_of_n():
    check_lipschitz([32, 64, 128, 256, 512])


def test_random_tokens_follow_the_mean_field():
    check_chaos([100, 200, 400, 800], seeds=256, tolerance=0.05)


def test_deviation_from_the_equiangular_curve():
    dims = [64, 128, 256, 512, 1024, 2048, 4096]
    typical, rare = check_equiangular_deviation(dims, pairs_per_dim=20)
    assert abs(typical + 0.5) < 0.02
    assert abs(rare - 1) < 0.1
