"""Connected components of the graph that joins points closer than a distance."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from metastable.observe.pairs import BLOCK


def components(points: np.ndarray, distance: float) -> np.ndarray:
    """Labels 0, 1, … of the components of {‖x_i − x_j‖ ≤ distance}, exact, in order of first point.

    A list of all close pairs would hold n² entries once tokens have gathered, so neither way below
    makes one.
    """
    labels = _by_boxes(points, distance) if points.shape[1] <= 3 else _by_rows(points, distance)
    _, first, labels = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[labels]


def _by_boxes(points: np.ndarray, distance: float) -> np.ndarray:
    """Boxes of diagonal `distance` are joined inside; only nearby pairs of boxes are compared."""
    side = distance / np.sqrt(points.shape[1])
    boxes, box = np.unique(np.floor(points / side), axis=0, return_inverse=True)
    box = box.reshape(-1)
    members = np.split(np.argsort(box, kind="stable"), np.cumsum(np.bincount(box))[:-1])
    pairs = KDTree(boxes * side).query_pairs(2 * distance * (1 + 1e-9), output_type="ndarray")
    parent = np.arange(len(boxes))

    def root(a: int) -> int:
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        return a

    # Closest boxes first: most later pairs are then joined already and cost nothing.
    apart = np.sum((boxes[pairs[:, 0]] - boxes[pairs[:, 1]]) ** 2, axis=1)
    for a, b in pairs[np.argsort(apart, kind="stable")]:
        one, two = root(a), root(b)
        if one != two and _touch(points[members[a]], points[members[b]], distance):
            parent[two] = one
    return np.array([root(a) for a in range(len(boxes))])[box]


def _touch(x: np.ndarray, y: np.ndarray, distance: float) -> bool:
    if len(x) * len(y) <= 2**14:
        return bool(cdist(x, y).min() <= distance)
    nearest, _ = KDTree(x).query(y, distance_upper_bound=np.nextafter(distance, np.inf))
    return bool(np.min(nearest) <= distance)


def _by_rows(points: np.ndarray, distance: float) -> np.ndarray:
    """A block of rows at a time: close pairs whose labels still differ join their labels."""
    squares = np.sum(points**2, axis=1)
    # ‖x‖² + ‖y‖² − 2⟨x,y⟩ is fast but blind below the square root of the rounding error.
    fine = distance**2 < 1e-10 * squares.max()
    labels = np.arange(len(points))
    step = max(1, BLOCK // len(points))
    for start in range(0, len(points), step):
        block, rest = slice(start, start + step), slice(start, None)
        if fine:
            gaps = cdist(points[block], points[rest], "sqeuclidean")
        else:
            gaps = squares[block, None] + squares[rest] - 2 * points[block] @ points[rest].T
        rows, columns = np.nonzero((gaps <= distance**2) & (labels[block, None] != labels[rest]))
        if rows.size:
            links = labels[block][rows], labels[rest][columns]
            graph = coo_array((np.ones(rows.size, bool), links), (len(points), len(points)))
            labels = connected_components(graph, directed=False)[1][labels]
    return labels
