"""Clusters on the circle, by neighbours in order of angle, against SciPy's single linkage."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage

import metastable as ms
from metastable.observe.clusters import components


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 60), st.floats(0.01, 3.0), st.floats(0.0, 6.3), st.integers(0, 10**6))
def test_clusters_on_the_circle_are_single_linkage(count, angle, turn, seed):
    """`turn` moves a cluster across the cut of the angle at π; some tokens are repeated."""
    rng = np.random.default_rng(seed)
    angles = turn + rng.choice([0.3, 6.0]) * rng.normal(size=count)
    angles = angles[rng.integers(0, count, count)]
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    reach = 2 * np.sin(min(angle, np.pi) / 2)
    expected = fcluster(linkage(x), reach, "distance") if count > 1 else np.ones(1)
    measure = ms.Points(x)
    labels = ms.clusters(measure, angle=angle).labels
    assert (np.equal.outer(labels, labels) == np.equal.outer(expected, expected)).all()
    general = components(np.asarray(measure.points), reach)
    assert (np.equal.outer(labels, labels) == np.equal.outer(general, general)).all()


def test_tokens_without_mass_belong_to_no_cluster():
    x = [[1.0, 0.0], [np.cos(0.1), np.sin(0.1)], [0.0, 1.0], [-1.0, 0.0]]
    found = ms.clusters(ms.Points(x, weights=[1, 0, 1, 2]))
    assert found.count == 3 and found.labels[1] == -1 and found.labels[3] == 0


def test_an_evenly_filled_circle_is_one_cluster_or_all_apart():
    """Neighbours of a polygon of n tokens are 2π/n apart, also across the cut."""
    for n in (7, 100):
        polygon = ms.polygon(n)
        assert ms.clusters(polygon, angle=2 * np.pi / n * 1.001).count == 1
        assert ms.clusters(polygon, angle=2 * np.pi / n * 0.999).count == n
