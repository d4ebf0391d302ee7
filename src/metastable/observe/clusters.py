"""Clusters by linkage, and by the rank of a thresholded Gram matrix; `kernel` has a third way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metastable.core import checks
from metastable.measures import Density, Gaussian, Points
from metastable.observe.density import maxima
from metastable.observe.pairs import BLOCK, carrying

QUIET = 4096  # tokens that stand for a density when mass is shared out among its maxima


@dataclass(frozen=True, eq=False)
class Clusters:
    """Groups of tokens, the heaviest first; `int(result)` is their number."""

    labels: np.ndarray  # (n,) from 0; −1 for tokens without mass
    centres: np.ndarray  # (k, d)
    masses: np.ndarray  # (k,) sum 1
    radii: np.ndarray  # (k,) largest distance of a member from its centre (angle on the sphere)

    @property
    def count(self) -> int:
        return len(self.masses)

    def __int__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        shown = ", ".join(f"{mass:.3g}" for mass in self.masses[:6])
        more = ", …" if self.count > 6 else ""
        return (
            f"Clusters({self.count}: masses {shown}{more}; radii ≤ {self.radii.max(initial=0):.2g})"
        )


def clusters(
    measure: Points | Density | Gaussian, beta: float | None = None, angle: float | None = None
) -> Clusters:
    """Clusters by linkage: tokens joined by a chain of steps of at most `angle` radians.

    Default threshold: min(0.6/√β, 0.2), a little over half the kernel's width β^{−1/2}, and 0.2
    without β (or β ≤ 9). Tokens of R^d are compared by Euclidean distance at the same threshold.
    Exact; n log n on the circle, near that for d ≤ 3, O(n²d) beyond. A centre is the mean
    direction of the members (the heaviest member if they balance out).

    At the exit from the uniform measure the gaps between tokens mean nothing: a chain joins them
    all. Use `kernel_modes` there.

    Of a `Density` its local maxima (see `peaks`, with `beta` those of the potential), each with the
    mass of the quiet tokens nearest to it; of a `Gaussian` its mean, with radius √tr Σ.

    >>> from metastable.measures import Points
    >>> clusters(Points([[1.0, 0.0], [0.995, 0.0998749], [0.0, -1.0]]))
    Clusters(2: masses 0.667, 0.333; radii ≤ 0.05)
    """
    checks.defined_for("clusters", measure, Points, Density, Gaussian)
    if isinstance(measure, Gaussian):
        spread = np.sqrt(np.sum(np.asarray(measure.factor) ** 2))
        centre = np.asarray(measure.mean)[None]
        return Clusters(np.zeros(0, int), centre, np.ones(1), np.array([spread]))
    if isinstance(measure, Density):
        return _of_density(measure, beta)
    if angle is None:
        angle = 0.2 if beta is None or beta <= 9 else 0.6 / float(np.sqrt(beta))
    checks.positive("angle", angle)
    points, _, index = carrying(measure)
    # The chord belonging to an angle; past π every pair is within reach.
    reach = 2 * np.sin(min(angle, np.pi) / 2) if measure.on_sphere else angle
    labels = np.full(measure.count, -1)
    on_circle = measure.on_sphere and measure.dim == 2
    labels[index] = (_on_circle if on_circle else components)(points, reach)
    return from_labels(measure, labels)


def _of_density(density: Density, beta: float | None) -> Clusters:
    tokens = density.to_points(QUIET)
    places = maxima(density, beta)
    if not len(places):
        return Clusters(np.full(QUIET, -1), np.zeros((0, density.dim)), np.zeros(0), np.zeros(0))
    x = np.asarray(tokens.points)
    if density.axis is not None:  # maxima are heights
        heights = np.clip(x @ np.asarray(density.axis), -1, 1)
        labels = np.abs(np.arccos(heights)[:, None] - np.arccos(places)).argmin(axis=1)
        return from_labels(tokens, np.unique(labels, return_inverse=True)[1])
    return from_labels(tokens, (x @ places.T).argmax(axis=1), places)


def gram_rank(measure: Points, delta: float = 1e-3) -> int:
    """Rank of the matrix 1[⟨x_i,x_j⟩ ≥ 1 − δ], the count used by the published phase diagrams.

    Equals the number of clusters when these are tight (all members within δ of each other) and
    apart; in between it counts overlaps, up to n. Source: code of arXiv:2312.10794. O(n³).

    >>> from metastable.measures import orthogonal
    >>> gram_rank(orthogonal(3, 5))
    3
    """
    checks.defined_for("gram_rank", measure, Points)
    checks.positive("delta", delta)
    points, _, _ = carrying(measure)
    checks.fits_memory(
        f"the Gram matrix of {len(points)} tokens", 4.0 * len(points) ** 2, "use clusters(...)"
    )
    close = points @ points.T >= 1 - delta
    # Equal rows add no rank, and dropping them first makes the collapsed case cheap.
    return int(np.linalg.matrix_rank(np.unique(close, axis=0).astype(float)))


def from_labels(measure: Points, labels: np.ndarray, centres: np.ndarray | None = None) -> Clusters:
    """Masses, centres and radii of labelled tokens, relabelled with the heaviest group first.

    Centres, if given, have one row for each label 0, 1, …, also for a label that no token has.
    """
    points, weights = np.asarray(measure.points), np.asarray(measure.weights)
    member = labels >= 0
    masses = np.bincount(labels[member], weights[member], 0 if centres is None else len(centres))
    order = np.argsort(-masses, kind="stable")
    rank = np.argsort(order, kind="stable")
    labels = np.where(member, rank[labels], -1)
    sizes = np.bincount(labels[member], minlength=len(order))
    groups = np.split(np.argsort(labels, kind="stable")[-sizes.sum() :], np.cumsum(sizes)[:-1])
    if centres is None:
        centres = np.array([_centre(points[g], weights[g], measure.on_sphere) for g in groups])
    else:
        centres = centres[order]
    radii = np.array(
        [
            np.linalg.norm(points[g] - c, axis=1).max(initial=0.0)
            for g, c in zip(groups, centres, strict=True)
        ]
    )
    if measure.on_sphere:
        radii = 2 * np.arcsin(np.minimum(radii / 2, 1))
    return Clusters(labels, centres, masses[order], radii)


def _centre(points: np.ndarray, weights: np.ndarray, on_sphere: bool) -> np.ndarray:
    mean = weights @ points / weights.sum()
    length = np.linalg.norm(mean)
    if not on_sphere:
        return mean
    return mean / length if length > 1e-9 else points[weights.argmax()]


def components(points: np.ndarray, distance: float) -> np.ndarray:
    """Labels 0, 1, … of the components of {‖x_i − x_j‖ ≤ distance}, exact, in order of first point.

    A list of all close pairs would hold n² entries once tokens have gathered, so neither way below
    makes one.
    """
    labels = _by_boxes(points, distance) if points.shape[1] <= 3 else _by_rows(points, distance)
    return _in_order(labels)


def _in_order(labels: np.ndarray) -> np.ndarray:
    """Labels 0, 1, … in order of the first point that has each."""
    _, first, labels = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[labels]


def _on_circle(points: np.ndarray, distance: float) -> np.ndarray:
    """As `components`, for points of the unit circle: a chain breaks where neighbours are apart."""
    order = np.argsort(np.arctan2(points[:, 1], points[:, 0]), kind="stable")
    around = points[order]
    apart = np.linalg.norm(around - np.roll(around, 1, axis=0), axis=1) > distance
    arcs = np.cumsum(apart)
    arcs[arcs == arcs[-1]] = arcs[0] if not apart[0] else arcs[-1]
    labels = np.empty(len(points), int)
    labels[order] = arcs
    return _in_order(labels)


def _by_boxes(points: np.ndarray, distance: float) -> np.ndarray:
    """Boxes of diagonal `distance` are joined inside; only nearby pairs of boxes are compared."""
    from scipy.spatial import KDTree

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
    from scipy.spatial import KDTree
    from scipy.spatial.distance import cdist

    if len(x) * len(y) <= 2**14:
        return bool(cdist(x, y).min() <= distance)
    nearest, _ = KDTree(x).query(y, distance_upper_bound=np.nextafter(distance, np.inf))
    return bool(np.min(nearest) <= distance)


def _by_rows(points: np.ndarray, distance: float) -> np.ndarray:
    """A block of rows at a time: close pairs whose labels still differ join their labels."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial.distance import cdist

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
