import numpy as np
import pytest

from metastable.measures import Points, gaussian_points, orthogonal, polygon, simplex, uniform
from metastable.observe import (
    effective_rank,
    order_parameter,
    pairwise_similarity,
    residual,
    similarity,
    singular_values,
)


def test_histogram_mean_and_near_from_all_pairs():
    rng = np.random.default_rng(0)
    measure = Points(uniform(60, 3).points, rng.uniform(0, 1, 60))
    values, masses = pairwise_similarity(measure)
    assert values.shape == (60 * 59 // 2,)
    found = similarity(measure, delta=0.05, bins=40)
    assert found.mean == pytest.approx(values @ masses, abs=1e-14)
    assert found.near == pytest.approx(masses[values >= 0.95].sum(), abs=1e-14)
    np.testing.assert_allclose(
        found.histogram, np.histogram(values, found.edges, weights=masses)[0], atol=1e-14
    )


def test_blocks_of_rows():
    measure = uniform(2100, 3, seed=1)
    values, _ = pairwise_similarity(measure)
    found = similarity(measure, bins=50)
    expected = np.histogram(values, found.edges)[0] / values.size
    np.testing.assert_allclose(found.histogram, expected, atol=1e-12)


def test_exact_values():
    assert similarity(simplex(5)).mean == pytest.approx(-1 / 5)
    assert similarity(orthogonal(4, 9)).mean == pytest.approx(0, abs=1e-15)
    assert similarity(Points([[1.0, 0.0]] * 7)).near == pytest.approx(1.0)


def test_original_tokens_of_a_merged_measure():
    # Two clusters of five tokens each: 2·5·4 of the 90 ordered pairs coincide.
    merged, full = Points(np.eye(2)), Points(np.repeat(np.eye(2), 5, axis=0))
    for found in (similarity(merged, tokens=10), similarity(full)):
        assert (found.mean, found.near) == pytest.approx((40 / 90, 40 / 90))


def test_odd_but_legal_measures():
    for measure in (Points([[1.0, 0.0]]), Points(np.eye(2), [1.0, 0.0])):
        assert (similarity(measure).mean, similarity(measure).near) == (1.0, 1.0)
        assert effective_rank(measure) == pytest.approx(1)
        assert residual(measure) == pytest.approx(0, abs=1e-15)
    assert pairwise_similarity(Points([[1.0, 0.0]]))[0].size == 0
    zero = Points(np.zeros((3, 2)), on_sphere=False)
    assert (effective_rank(zero), residual(zero), similarity(zero).mean) == (0.0, 0.0, 0.0)


def test_singular_values_and_effective_rank():
    rng = np.random.default_rng(2)
    measure = Points(rng.normal(size=(12, 4)), rng.uniform(0.1, 1, 12), on_sphere=False)
    x, w = np.asarray(measure.points), np.asarray(measure.weights)
    moments = np.linalg.eigvalsh((x.T * w) @ x)[::-1]
    np.testing.assert_allclose(singular_values(measure) ** 2, moments, rtol=1e-12)
    sigma = np.sqrt(moments)
    p = sigma / sigma.sum()
    assert effective_rank(measure) == pytest.approx(np.exp(-np.sum(p * np.log(p))), rel=1e-12)
    copies = Points(np.repeat(x, 3, axis=0), np.repeat(w, 3), on_sphere=False)
    assert effective_rank(copies) == pytest.approx(effective_rank(measure), rel=1e-12)
    assert effective_rank(polygon(9)) == pytest.approx(2)


def test_residual():
    measure = uniform(30, 5, seed=3)
    r = float(order_parameter(measure))
    assert residual(measure) == pytest.approx(np.sqrt(1 - r**2), rel=1e-13)
    moved = gaussian_points(9, 3)
    x = np.asarray(moved.points)
    expected = np.linalg.norm(x - x.mean(axis=0)) / np.linalg.norm(x)
    assert residual(moved) == pytest.approx(expected, rel=1e-13)
