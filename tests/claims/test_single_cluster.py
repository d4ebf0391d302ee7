"""The way to one cluster over many random runs, and what is long-lived before it.

Sources: arXiv:2312.10794, arXiv:2405.18273, arXiv:2507.22857, arXiv:2411.04990, arXiv:2410.06833,
arXiv:2510.05554.
"""

from __future__ import annotations

import pytest

from tests.systems.test_single_cluster import (
    CASES,
    check_caps,
    check_centre_counts,
    check_centres_stay,
    check_long_context,
    verdicts,
)

pytestmark = pytest.mark.claim


@pytest.mark.parametrize("name", CASES)
def test_random_runs_end_in_one_cluster(name):
    seen = verdicts(name, runs=100)
    assert seen["contradiction"] == 0
    assert seen["one cluster"] >= 95


@pytest.mark.parametrize("name", ["high dimension", "hemisphere", "sphere", "circle"])
def test_random_unnormalised_runs_end_in_one_cluster(name):
    seen = verdicts(name, runs=100, normalized=False)
    assert seen["contradiction"] == 0
    assert seen["one cluster"] >= 95


def test_counts_of_renyi_centres():
    check_centre_counts(draws=5000)


def test_strong_centres_stay():
    check_centres_stay(seeds=10)


@pytest.mark.parametrize("normalized", [True, False], ids=["SA", "USA"])
@pytest.mark.parametrize("dim", [2, 3])
def test_caps_collapse_and_persist(dim, normalized):
    for seed in range(3):
        check_caps(dim, normalized, seed)


def test_one_layer_of_a_long_context():
    check_long_context([64, 256, 1024, 2048])
