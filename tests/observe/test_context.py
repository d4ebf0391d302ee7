"""Sampled attention rows against full matrices, and against the law of the critical window."""

from __future__ import annotations

import numpy as np
import pytest

import metastable as ms
from metastable.observe.context import attention_rows
from metastable.theory.context import critical_beta, expected_gap_count, window_law


def brute(x, weights, beta, query, key, own, gaps):
    """Row statistics from the n × n matrix, by loops."""
    score = (x @ query.T) @ (x @ key.T).T
    out = []
    for i, row in enumerate(score):
        seen = np.array([j for j in range(len(x)) if weights[j] > 0 and (own or j != i)])
        w = weights[seen] * np.exp(beta * (row[seen] - row[seen].max()))
        w /= w.sum()
        counts = [np.sum(row[seen] >= row[seen].max() - gap) - 1 for gap in gaps]
        out.append([np.sum(w**2), w.max(), -np.sum(w * np.log(w)), *counts])
    return np.array(out)


@pytest.mark.parametrize("own", [True, False])
def test_rows_are_those_of_the_matrix(own):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(40, 3))
    measure = ms.Points(x / np.linalg.norm(x, axis=1, keepdims=True), rng.uniform(0.1, 1, 40))
    query, key = rng.normal(size=(2, 4, 3))
    gaps = [0.1, 1.0]
    sample = attention_rows(measure, 2.5, query, key, rows=40, own=own, gaps=gaps, seed=5)
    points, weights = np.asarray(measure.points), np.asarray(measure.weights)
    expected = brute(points, weights, 2.5, query, key, own, gaps)
    expected = expected[np.random.default_rng(5).permutation(40)]
    got = np.column_stack([sample.participation, sample.largest, sample.entropy, sample.gap_counts])
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(sample.mean["gap_counts"], expected[:, 3:].mean(0))
    assert sample.error["largest"] == pytest.approx(expected[:, 1].std() / np.sqrt(39))


def test_tokens_without_mass_are_neither_seen_nor_first():
    points = ms.orthogonal(3, 3).points
    sample = attention_rows(ms.Points(points, [1.0, 1.0, 0.0]), 1.0, rows=3)
    assert np.sort(sample.participation) == pytest.approx(
        np.sort(brute(np.asarray(points), np.array([0.5, 0.5, 0]), 1.0, np.eye(3), np.eye(3), True,
                      [])[:, 0])
    )  # fmt: skip


@pytest.mark.parametrize(("dim", "scale"), [(3, 0.25), (3, 1.0), (4, 1.0)])
def test_uniform_tokens_follow_the_law_of_the_window(dim, scale):
    n = 20_000
    gap = 4 / critical_beta(dim, n)
    measure = ms.uniform(tokens=n, dim=dim, seed=1)
    sample = attention_rows(measure, critical_beta(dim, n, scale), rows=500, gaps=[gap])
    law = window_law(scale, dim)
    for name, expected in law._asdict().items():
        assert abs(sample.mean[name] - expected) < 4 * sample.error[name], name
    counted, error = sample.mean["gap_counts"][0], sample.error["gap_counts"][0]
    assert abs(counted - expected_gap_count(gap, dim, n)) < 4 * error


def test_other_measures_are_refused():
    with pytest.raises(ValueError, match="attention_rows is defined for Points"):
        attention_rows(ms.Gaussian([0.0], [[1.0]]), 1.0)
