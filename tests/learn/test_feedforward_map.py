"""A feed-forward layer with wells: its velocity, a torn cluster, a map with known ends."""

import numpy as np
import pytest

from metastable.learn.control.feedforward import map_feedforward, spread_of_cluster, well_layer
from metastable.measures import Points


@pytest.mark.parametrize("wells", [1, 2, 3, 6])
def test_the_layer_pulls_like_the_wave_it_stands_for(wells):
    theta = np.linspace(0, 2 * np.pi, 50, endpoint=False)
    points = np.stack([np.cos(theta), np.sin(theta)], axis=1)
    v = np.asarray(well_layer(0.25, wells).velocity(Points(points)))
    along = v[:, 1] * points[:, 0] - v[:, 0] * points[:, 1]
    assert np.allclose(along, -0.25 * wells * np.sin(wells * theta), atol=0.01 * 0.25 * wells)


@pytest.mark.parametrize("share", [0.5, 1.5])
def test_a_cluster_on_a_hilltop_spreads_at_the_rate_of_theory(share):
    """εm² − 1: held together below εm² = 1, torn apart above."""
    assert spread_of_cluster(share / 9, 3) == pytest.approx(share - 1, abs=0.01)


def test_a_strong_layer_decides_and_a_weak_one_does_not():
    found = map_feedforward([5.0], [1e-6, 0.5], 2, tokens=48, starts=6, progress=False)
    assert found.counts[0, 0] == pytest.approx(found.alone[0])
    assert found.counts[0, 1] == 2 and found.aligned[0, 1] > 0.99
    assert abs(found.aligned[0, 0]) < found.order[0, 0] < 1
