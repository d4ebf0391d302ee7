import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage

from metastable.measures import Points, caps, gaussian_points, orthogonal, planted, polygon, uniform
from metastable.observe import clusters, gram_rank
from metastable.observe.clusters import components


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(2, 60), st.floats(0.02, 1.0), st.integers(0, 10**6))
def test_components_are_single_linkage(dim, count, reach, seed):
    # SciPy's hierarchical clustering is the oracle; some points are repeated.
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1, 1, (count, dim))
    points = points[rng.integers(0, count, count)]
    expected = fcluster(linkage(points), reach, "distance")
    found = components(points, reach)
    assert found[0] == 0 and len(np.unique(found)) == found.max() + 1
    assert (np.equal.outer(found, found) == np.equal.outer(expected, expected)).all()


@pytest.mark.parametrize("dim", [3, 5])
def test_components_at_tiny_distances(dim):
    points = np.repeat(np.asarray(uniform(20, dim).points), 3, axis=0)
    points[1::3] += 1e-9 / np.sqrt(dim)
    points[2::3] += 3e-9 / np.sqrt(dim)
    assert components(points, 1.5e-9).max() + 1 == 40
    assert components(points, 2.5e-9).max() + 1 == 20


def test_gathered_tokens_need_no_list_of_pairs():
    # 2 × 10⁴ tokens in five tight bumps have 4 × 10⁷ close pairs.
    found = clusters(planted(20000, 3, 5, concentration=1e6, seed=1))
    assert found.count == 5
    np.testing.assert_allclose(found.masses, 0.2, rtol=1e-12)


def test_known_caps():
    centres = np.eye(4)[:3]
    measure = caps(40, centres, 0.05, seed=2)
    found = clusters(measure, beta=25.0)
    assert int(found) == 3
    assert (found.labels == np.repeat([0, 1, 2], 40)).all()
    assert (found.radii < 0.1).all() and (found.radii > 0).all()
    np.testing.assert_allclose(found.centres, centres, atol=0.02)


def test_default_threshold():
    pair = lambda gap: Points([[1.0, 0.0], [np.cos(gap), np.sin(gap)]])
    for beta, threshold in ((None, 0.2), (1.0, 0.2), (0.0, 0.2), (100.0, 0.06)):
        assert clusters(pair(threshold * 0.999), beta).count == 1
        assert clusters(pair(threshold * 1.001), beta).count == 2
    assert clusters(polygon(2), angle=3.15).count == 1
    assert clusters(polygon(2), angle=3.14).count == 2


def test_order_masses_and_centres():
    measure = Points([[1, 0, 0], [0, 1, 0], [0, 0.6, 0.8], [0, 0, -1]], [1, 2, 2, 3])
    found = clusters(measure, angle=1.0)
    assert found.labels.tolist() == [2, 0, 0, 1]
    np.testing.assert_allclose(found.masses, [0.5, 0.375, 0.125])
    middle = np.array([0, 1.6, 0.8]) / np.hypot(1.6, 0.8)
    np.testing.assert_allclose(found.centres[0], middle, atol=1e-15)
    assert found.radii[0] == pytest.approx(0.5 * np.arccos(0.6), rel=1e-12)


def test_odd_but_legal_measures():
    assert clusters(Points([[1.0, 0.0]])).count == 1
    ghost = clusters(Points([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], [1, 0, 1]))
    assert ghost.labels.tolist() == [0, -1, 1]
    ring = clusters(polygon(100))
    assert ring.count == 1 and np.linalg.norm(ring.centres[0]) == pytest.approx(1)
    line = clusters(Points([[0.0], [0.1], [5.0]], on_sphere=False))
    assert line.count == 2 and line.radii.max() == pytest.approx(0.05)
    assert repr(ring) == "Clusters(1: masses 1; radii ≤ 3.1)"


def test_gram_rank():
    assert gram_rank(planted(200, 3, 4, 1e7, seed=3), 1e-3) == 4
    assert gram_rank(orthogonal(5, 8)) == 5
    assert gram_rank(Points([[1.0, 0.0]] * 3, [1, 1, 0])) == 1
    # A chain a–b–c with a, c apart: rows 110, 111, 011 have rank 3 where linkage sees one.
    chain = polygon(12).at(polygon(12).points).points[:3]
    assert gram_rank(Points(chain), 1 - np.cos(0.6)) == 3
    assert clusters(Points(chain), angle=0.6).count == 1
    with pytest.raises(ValueError, match="angle must be > 0"):
        clusters(gaussian_points(3, 2), angle=0.0)
