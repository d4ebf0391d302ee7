"""Scores of an item against definitions written out slowly."""

import math
import zlib
from difflib import SequenceMatcher
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metastable.audit import scores

IDS = st.lists(st.integers(0, 3), min_size=1, max_size=12)


@given(IDS, st.lists(st.integers(0, 3), max_size=12))
@settings(max_examples=150, deadline=None)
def test_edit_is_the_recursion(target, output):
    @cache
    def distance(i, j):
        if i == 0 or j == 0:
            return i + j
        same = distance(i - 1, j - 1) + (target[i - 1] != output[j - 1])
        return min(same, distance(i - 1, j) + 1, distance(i, j - 1) + 1)

    longest = max(len(target), len(output))
    assert scores.edit(target, output) * longest == pytest.approx(
        distance(len(target), len(output))
    )


@given(IDS, st.lists(st.integers(0, 3), max_size=12))
@settings(max_examples=150, deadline=None)
def test_common_run_is_the_longest_block(target, output):
    match = SequenceMatcher(None, target, output, autojunk=False).find_longest_match()
    assert scores.common_run(target, output) * len(target) == pytest.approx(match.size)


@given(IDS, st.lists(st.integers(0, 3), max_size=12))
@settings(max_examples=100, deadline=None)
def test_hamming_counts_places(target, output):
    wrong = sum(k >= len(output) or output[k] != one for k, one in enumerate(target))
    assert scores.hamming(target, output) == pytest.approx(wrong / len(target))
    assert scores.exact(target, output) == (output[: len(target)] == target)
    assert scores.hamming(target, target) == scores.edit(target, target) == 0
    assert scores.common_run(target, target) == 1


def test_min_k_takes_the_rarest_fifth():
    logp = np.log(np.linspace(0.1, 0.95, 48))
    assert scores.min_k(logp) == pytest.approx(np.log(np.linspace(0.1, 0.95, 48)[:9]).mean())
    assert scores.min_k([-3.0]) == -3.0  # one token at least


def test_min_k_pp_is_zero_on_average_under_the_models_own_law():
    """Σ_z p(z)(log p(z) − μ)/σ = 0 by definition of μ."""
    p = np.array([0.5, 0.3, 0.2])
    mu = (p * np.log(p)).sum()
    sigma = math.sqrt((p * (np.log(p) - mu) ** 2).sum())
    each = [scores.min_k_pp([math.log(one)], [mu], [sigma], 1.0) for one in p]
    assert np.dot(p, each) == pytest.approx(0, abs=1e-12)
    assert np.dot(p, np.square(each)) == pytest.approx(1)
    assert scores.min_k_pp([0.0], [0.0], [0.0]) == 0.0  # certain of what came


def test_zlib_ratio_is_code_length_over_code_length():
    text = "state of the union " * 5
    bits = 8 * len(zlib.compress(text.encode(), 9, wbits=-15))
    total = 1.3 * len(text) / math.log(2)
    assert scores.zlib_ratio(1.3, text) == pytest.approx(total / bits)


@pytest.mark.parametrize("draws", [1, 10, 10**6])
def test_extractability_is_one_minus_all_misses(draws):
    import mpmath

    with mpmath.workdps(50):
        exact = 1 - (1 - mpmath.exp(-18)) ** draws
    assert scores.extractability([-8.0, -10.0], draws) == pytest.approx(float(exact), rel=1e-12)
    assert scores.extractability([0.0], draws) == 1.0


def test_bad_input_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match="target not empty"):
        scores.hamming([], [1])
    with pytest.raises(ValueError, match="none above 0"):
        scores.nll([0.1])
    with pytest.raises(ValueError, match="share must lie"):
        scores.min_k([-1.0], 0.0)
    with pytest.raises(ValueError, match="one shape"):
        scores.squared_error([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="drop the item"):
        scores.zlib_ratio(1.0, "")
