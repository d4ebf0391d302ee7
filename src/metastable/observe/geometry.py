"""Shapes tokens make: convex hulls, parallel hyperplanes, leaders, a common hemisphere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from metastable.core import checks
from metastable.measures import Points
from metastable.observe.pairs import BLOCK, carrying

# Qhull's facets grow like n^⌊d/2⌋; past this dimension each question is a linear program.
QHULL_DIM = 6


@dataclass(frozen=True, eq=False)
class Hull:
    """Convex hull of the tokens that carry mass; see `hull`."""

    vertices: np.ndarray  # (m,) indices of tokens
    points: np.ndarray  # (m, d) their places
    dim: int  # dimension of the affine span: 0 a point, 1 a segment
    volume: float  # dim-dimensional volume; NaN past dimension 6

    def __repr__(self) -> str:
        return (
            f"Hull({len(self.vertices)} vertices, dimension {self.dim}, volume {self.volume:.4g})"
        )


def hull(measure: Points) -> Hull:
    """Convex hull of the tokens, in the affine subspace that they span.

    For pure attention with V = I and QᵀK > 0 the hulls of z = e^{−t}x are nested and decrease to a
    polytope (arXiv:2305.05465, Theorem 3.1). Duplicate tokens give one vertex, the first of them.
    Qhull up to dimension 6; beyond, one linear program per token, and no volume.

    >>> from metastable.measures import polygon
    >>> hull(polygon(6))
    Hull(6 vertices, dimension 2, volume 2.598)
    """
    checks.defined_for("hull", measure, Points)
    points, _, index = carrying(measure)
    points, first = np.unique(points, axis=0, return_index=True)
    origin, basis = _frame(points)
    flat = (points - origin) @ basis
    dim = flat.shape[1]
    volume = float("nan")
    if dim == 0:
        corners, volume = np.array([0]), 0.0
    elif dim == 1:
        corners = np.array([np.argmin(flat), np.argmax(flat)])
        volume = float(np.ptp(flat))
    elif dim <= QHULL_DIM:
        shape = ConvexHull(flat)
        corners, volume = shape.vertices, float(shape.volume)
    else:
        others = lambda i: np.delete(flat, i, axis=0)
        corners = np.array([i for i in range(len(flat)) if not _inside(others(i), flat[i], 0.0)])
    corners = corners[np.argsort(index[first[corners]])]
    return Hull(index[first[corners]], points[corners], dim, volume)


def hull_contains(shape: Hull, points: Any, tolerance: float = 1e-9) -> np.ndarray:
    """Whether each point (m, d) lies in a hull, or within `tolerance` (of the hull's size) from it.

    Past dimension 6 no tolerance is finer than 1e−7.

    >>> from metastable.measures import polygon
    >>> hull_contains(hull(polygon(4)), [[0.2, 0.2], [0.9, 0.9]]).tolist()
    [True, False]
    """
    points = np.asarray(points, float)
    checks.finite_array("points", points, 2)
    if points.shape[1] != shape.points.shape[1]:
        raise ValueError(
            f"points must have {shape.points.shape[1]} columns, as the hull has; "
            f"got shape {points.shape}."
        )
    origin, basis = _frame(shape.points)
    flat, inner = (points - origin) @ basis, (shape.points - origin) @ basis
    size = np.linalg.norm(shape.points - origin, axis=1).max()
    slack = tolerance * size + 16 * np.finfo(float).eps * np.linalg.norm(shape.points)
    on_span = np.linalg.norm(points - origin - flat @ basis.T, axis=1) <= slack
    dim = basis.shape[1]
    if dim == 0:
        return on_span
    if dim == 1:
        within = (flat[:, 0] >= inner.min() - slack) & (flat[:, 0] <= inner.max() + slack)
    elif dim <= QHULL_DIM:
        facets = ConvexHull(inner).equations
        within = (flat @ facets[:, :-1].T + facets[:, -1] <= slack).all(axis=1)
    else:
        within = np.array([_inside(inner, y, slack) for y in flat])
    return on_span & within


def _frame(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A point and orthonormal columns that span the others from it, rounding errors left out."""
    origin = points[0]
    _, values, rows = np.linalg.svd(points - origin, full_matrices=False)
    noise = 1e-12 * values[0] + 4 * np.finfo(float).eps * np.linalg.norm(points)
    return origin, rows[values > noise].T


def _inside(corners: np.ndarray, point: np.ndarray, slack: float) -> bool:
    """Whether some convex combination of corners meets the point, each coordinate to `slack`."""
    from scipy.optimize import linprog

    count, dim = corners.shape
    # The solver is good to 1e−7 on numbers of order one, and the hull may have collapsed.
    size = np.abs(corners).max()
    corners, point, slack = corners / size, point / size, max(slack / size, 1e-7)
    # Variables: weights and the worst coordinate error, which is minimised.
    error = np.ones((dim, 1))
    upper = np.block([[corners.T, -error], [-corners.T, -error]])
    solved = linprog(
        np.append(np.zeros(count), 1.0),
        A_ub=upper,
        b_ub=np.concatenate([point, -point]),
        A_eq=np.append(np.ones(count), 0.0)[None],
        b_eq=[1.0],
    )
    return bool(solved.fun <= slack)


@dataclass(frozen=True, eq=False)
class Hyperplanes:
    """Levels of a linear functional on the tokens; see `hyperplanes`."""

    levels: np.ndarray  # (k,) increasing, k ≤ 3
    labels: np.ndarray  # (n,) the level each token is nearest to
    spread: float  # largest |φ(z_i) − level|

    @property
    def count(self) -> int:
        return len(self.levels)

    def __repr__(self) -> str:
        levels = ", ".join(f"{value:.4g}" for value in self.levels)
        return f"Hyperplanes(levels {levels}; spread {self.spread:.2g})"


def hyperplanes(
    measure: Points, functional: Any, most: int = 3, tolerance: float = 0.05
) -> Hyperplanes:
    """Parallel hyperplanes {z: φ(z) = c} on which rescaled tokens gather.

    `functional` is φ as a vector (d,), φ(z) = ⟨φ,z⟩: the top eigenvector of Vᵀ for the rescaled
    tokens z = e^{−tV}x, which tend to at most three values {0, a, b} (arXiv:2305.05465,
    Theorem 4.1). The sorted values are cut at their largest gaps into the fewest groups of
    half-width at most `tolerance` times the whole range; when `most` groups are not enough, the
    `spread` of the result says so. Levels are weighted means.

    >>> from metastable.measures import Points
    >>> hyperplanes(Points([[-1.0], [-1.0], [0.01], [2.0]], on_sphere=False), [1.0])
    Hyperplanes(levels -1, 0.01, 2; spread 0)
    """
    checks.defined_for("hyperplanes", measure, Points)
    functional = np.asarray(functional, float)
    if functional.shape != (measure.dim,):
        raise ValueError(
            f"functional must be a vector of length {measure.dim}; got shape {functional.shape}."
        )
    checks.integer("most", most, 1)
    points, weights, _ = carrying(measure)
    values = points @ functional
    order = np.argsort(values)
    ranked, masses = values[order], weights[order]
    gaps = np.argsort(-np.diff(ranked), kind="stable")
    for k in range(1, min(most, len(values)) + 1):
        cuts = np.sort(gaps[: k - 1]) + 1
        groups = np.split(ranked, cuts)
        if max(np.ptp(group) for group in groups) <= 2 * tolerance * np.ptp(ranked):
            break
    levels = np.array(
        [np.average(g, weights=m) for g, m in zip(groups, np.split(masses, cuts), strict=True)]
    )
    distance = np.abs((np.asarray(measure.points) @ functional)[:, None] - levels)
    carried = np.abs(values[:, None] - levels).min(axis=1)
    return Hyperplanes(levels, distance.argmin(axis=1), float(carried.max()))


def leaders(measure: Points, query: Any = None, key: Any = None) -> np.ndarray:
    """The token each token attends to in the limit β → ∞: argmax_j ⟨Qx_i, Kx_j⟩, shape (n,).

    `np.unique` of it are the leaders, the tokens that attract (arXiv:2305.05465). Matrices (p, d),
    None for the identity. Only tokens with mass lead; of equal ones the first.

    >>> from metastable.measures import Points
    >>> leaders(Points([[1.0], [2.0], [-1.0], [-3.0]], on_sphere=False)).tolist()
    [1, 1, 3, 3]
    """
    checks.defined_for("leaders", measure, Points)
    x = np.asarray(measure.points)
    queries = x if query is None else x @ np.asarray(query, float).T
    keys = x if key is None else x @ np.asarray(key, float).T
    _, _, index = carrying(measure)
    step = max(1, BLOCK // len(index))
    blocks = [queries[i : i + step] @ keys[index].T for i in range(0, len(x), step)]
    return index[np.concatenate([block.argmax(axis=1) for block in blocks])]


@dataclass(frozen=True, eq=False)
class Hemisphere:
    """An open hemisphere {x: ⟨x,direction⟩ > 0} around all tokens, if any; see `hemisphere`."""

    exists: bool
    margin: float  # min_i ⟨x_i,direction⟩, the largest possible, or 0
    direction: np.ndarray  # unit vector, or zeros

    def __bool__(self) -> bool:
        return self.exists


def hemisphere(measure: Points) -> Hemisphere:
    """Whether some direction u has ⟨x_i,u⟩ > 0 for all tokens, and the best such direction.

    The margin max_{‖u‖=1} min_i ⟨x_i,u⟩ is the distance from the origin to the convex hull, found
    by nonnegative least squares: min_{λ≥0} ‖Σ λ_i x_i‖² + (Σ λ_i − 1)² is reached on the ray of the
    hull's nearest point. Margins under 1e−9 count as none. In an open hemisphere tokens converge to
    one cluster for every β ≥ 0 with V = I (cone collapse, arXiv:2312.10794); Wendel's formula gives
    its probability for uniform tokens.

    >>> from metastable.measures import orthogonal, polygon
    >>> bool(hemisphere(orthogonal(3, 3))), bool(hemisphere(polygon(3)))
    (True, False)
    """
    from scipy.optimize import nnls

    checks.defined_for("hemisphere", measure, Points)
    points, _, _ = carrying(measure)
    count, dim = points.shape
    system = np.vstack([points.T, np.ones(count)])
    combination, _ = nnls(system, np.append(np.zeros(dim), 1.0))
    nearest = combination @ points
    length = np.linalg.norm(nearest)
    margin = float((points @ nearest).min() / length) if length > 0 else 0.0
    if margin <= 1e-9:
        return Hemisphere(False, 0.0, np.zeros(dim))
    return Hemisphere(True, margin, nearest / length)


def hull_edges(points: np.ndarray) -> np.ndarray:
    """Edges (k, 2, d) of the convex hull; diagonals inside a flat face are left out."""
    shape = hull(Points(points, on_sphere=False))
    if shape.dim < 2:
        return shape.points[None] if shape.dim == 1 else np.empty((0, 2, points.shape[1]))
    corners = shape.points
    if shape.dim < points.shape[1]:  # a flat polygon in space: walk around it
        centred = corners - corners.mean(axis=0)
        plane = centred @ np.linalg.svd(centred)[2][:2].T
        order = np.argsort(np.arctan2(plane[:, 1], plane[:, 0]))
        return np.stack([corners[order], corners[np.roll(order, -1)]], axis=1)
    try:
        facets = ConvexHull(corners)
    except QhullError:  # almost flat: no picture is worth an error
        return np.empty((0, 2, points.shape[1]))
    if points.shape[1] == 2:
        return corners[facets.simplices]
    normals: dict[tuple[int, int], list[np.ndarray]] = {}
    for simplex, equation in zip(facets.simplices, facets.equations, strict=True):
        for a, b in ((0, 1), (1, 2), (0, 2)):
            pair = tuple(sorted((int(simplex[a]), int(simplex[b]))))
            normals.setdefault(pair, []).append(equation[:3])  # pyright: ignore[reportArgumentType]
    sharp = [pair for pair, n in normals.items() if len(n) < 2 or n[0] @ n[1] < 1 - 1e-9]
    return corners[np.array(sharp)]
