"""Neural collapse: each number against its definition by brute force, and at full collapse."""

from __future__ import annotations

import numpy as np
import pytest

from metastable.observe.neural_collapse import (
    centre_disagreement,
    class_means,
    neural_collapse,
    simplex_gap,
    within_class_variability,
)

RNG = np.random.default_rng(0)
K = 4
LABELS = np.repeat(np.arange(K), 25)


def corners():
    """A regular simplex of four corners in R^6, turned at random."""
    simplex = np.pad(np.eye(K) - 1 / K, [(0, 0), (0, 2)])
    return simplex @ np.linalg.qr(RNG.standard_normal((6, 6)))[0]


def test_collapsed_classes_score_zero_and_their_scale_does_not_matter():
    means = corners()
    for scale in (1.0, 1e-3):
        features = scale * means[LABELS] + 3.0
        found = neural_collapse(features, LABELS, 7.0 * means, -21.0 * means.sum(1))
        assert np.allclose(found, 0, atol=1e-10)  # the offset costs digits of the small means


def test_variability_is_the_trace_of_the_definition():
    """Oracle: tr(Σ_W Σ_B⁺)/k with both covariances written out and NumPy's pseudo-inverse."""
    features = RNG.standard_normal((100, 6)) + 2 * corners()[LABELS]
    means = np.stack([features[LABELS == c].mean(0) for c in range(K)])
    inside = features - means[LABELS]
    within = inside.T @ inside / 100
    centred = means - means.mean(0)
    between = centred.T @ centred / K
    expected = np.trace(within @ np.linalg.pinv(between, rcond=1e-10)) / K
    assert within_class_variability(features, LABELS) == pytest.approx(expected, rel=1e-10)


def test_two_opposite_pairs_are_no_simplex():
    """Means ±e_1, ±e_2: by hand, G = [[1,−1],[−1,1]] ⊕ same, ‖G‖ = √8, and the cosine with G*."""
    means = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    cosine = (4 * 0.75 + 4 * 0.25) / (np.sqrt(8) * np.sqrt(3))
    assert simplex_gap(means) == pytest.approx(np.sqrt(2 - 2 * cosine), rel=1e-12)


def test_answers_beside_the_nearest_mean_are_counted():
    features = np.array([[0.0], [0.2], [1.0], [1.2]])
    labels = np.array([0, 0, 1, 1])
    assert centre_disagreement(features, labels, np.array([0, 1, 1, 1])) == 0.25
    assert np.allclose(class_means(features, labels), [[-0.5], [0.5]])
