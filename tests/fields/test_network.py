"""Kuramoto on graphs against brute force on the adjacency matrix, and its named graphs."""

from __future__ import annotations

import networkx
import numpy as np
import pytest

import metastable as ms
from metastable.fields.network import named_edges
from tests import oracles
from tests.fields.cases import arrays, error, velocity, weighted

EDGES = [[0, 3], [2, 1], [3, 2], [0, 5]]


def adjacency(edges, n):
    a = np.zeros((n, n))
    for i, j in edges:
        a[i, j] = a[j, i] = 1
    return a


@pytest.mark.parametrize("dim", [2, 3])
def test_velocity_is_the_sum_over_neighbours(dim):
    m = weighted(6, dim)
    x, w = arrays(m)
    expected = oracles.project(x, 1.7 * (adjacency(EDGES, 6) * w) @ x)
    assert error(velocity(ms.KuramotoNetwork(EDGES, 1.7), m), expected) < 1e-14


def test_the_complete_graph_is_kuramoto():
    m = weighted(9, 2)
    omega = np.random.default_rng(1).normal(size=9)
    plain = np.asarray(velocity(ms.Kuramoto(1.7, omega), m))
    named = ms.KuramotoNetwork("complete", 1.7, omega)
    listed = ms.KuramotoNetwork(named_edges("complete", 9), 1.7, omega)
    assert error(velocity(named, m), plain) < 1e-15
    assert error(velocity(listed, m), plain) < 1e-14


@pytest.mark.parametrize(
    ("name", "reach", "graph"),
    [
        ("complete", 1, networkx.complete_graph(7)),
        ("path", 1, networkx.path_graph(7)),
        ("star", 1, networkx.star_graph(6)),
        ("ring", 1, networkx.cycle_graph(7)),
        ("ring", 2, networkx.circulant_graph(7, [1, 2])),
        ("ring", 5, networkx.complete_graph(7)),
    ],
)
def test_named_graphs_are_those_of_networkx(name, reach, graph):
    edges = {tuple(sorted(edge)) for edge in graph.edges}
    assert {tuple(edge) for edge in named_edges(name, 7, reach).tolist()} == edges


def test_a_twisted_ring_stays_twisted():
    """θ_i = 2πi/n rests on the ring, and attracts for n > 4: cos(2π/n) > 0."""
    angles = 2 * np.pi * np.arange(8) / 8
    angles = angles + 0.05 * np.random.default_rng(2).normal(size=8)
    start = ms.Points(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    run = ms.flow(start, ms.KuramotoNetwork("ring", 8.0), 60.0, frames=2, progress=False)
    steps = np.diff(np.unwrap(np.asarray(run.frames[-1].angles, float)))
    assert np.abs(np.subtract(steps, np.pi / 4)).max() < 1e-8


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ("grid", "edges must be pairs or one of complete, ring, path, star; got grid"),
        ([], r"distinct pairs.*got \[\]"),
        ([[0, 0]], r"different tokens.*\[0, 0\]"),
        ([[0, 1], [1, 0]], "distinct pairs"),
        ([[0, 1.5]], "distinct pairs"),
        ([[0, 1, 2]], "distinct pairs"),
        ([[-1, 2]], r"got \[-1, 2\]"),
    ],
)
def test_bad_graphs_are_refused(edges, message):
    with pytest.raises(ValueError, match=message):
        ms.KuramotoNetwork(edges)


def test_what_does_not_fit_the_tokens_is_refused():
    with pytest.raises(ValueError, match="edges must join tokens 0 to 2; got token 5"):
        ms.KuramotoNetwork(EDGES).velocity(ms.polygon(3))
    with pytest.raises(ValueError, match="joins its own tokens only"):
        ms.KuramotoNetwork("ring").velocity(ms.polygon(3), at=np.eye(2))
    with pytest.raises(ValueError, match=r"frequencies.*dim 3"):
        ms.KuramotoNetwork("ring", 1.0, [1.0, 2.0, 3.0, 4.0]).velocity(ms.simplex(3))
