"""One frame of tokens in R, R² or R³: points, their convex hull, parallel hyperplanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from scipy.spatial import ConvexHull, QhullError

from metastable.measures import Points
from metastable.observe.geometry import hull
from metastable.report.style import CATEGORIES, INK

__all__ = ["Planes", "draw_cloud", "hull_edges", "view_from"]

Planes = tuple[Any, Sequence[float]]  # a functional φ and levels c of {z: φ(z) = c}


def view_from(turn: float, tilt: float = 0.45) -> np.ndarray:
    """Rows right and up, (2, 3), of an orthographic view of R³ from `turn` radians around it."""
    right = np.array([-np.sin(turn), np.cos(turn), 0.0])
    towards = np.array([np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)])
    return np.array([right, np.cross(towards, right)])


def draw_cloud(
    ax: Axes,
    points: np.ndarray,
    colours: Any,
    reach: float,
    *,
    view: np.ndarray | None = None,
    planes: Planes | None = None,
) -> None:
    """Tokens (n, d), d ≤ 3, in a frame of half-width `reach`; R³ needs a `view` (2, 3)."""
    points = np.asarray(points)
    dim = points.shape[1]
    flat = np.eye(2, dim) if view is None else view
    shown = points @ flat.T
    functional, levels = planes if planes is not None else (np.zeros(dim), ())
    for colour, level in zip(CATEGORIES[2:], levels, strict=False):
        corners = _plane(np.asarray(functional, float), level, 2 * reach) @ flat.T
        if dim == 3:
            ax.add_collection(PolyCollection([corners], facecolors=colour, alpha=0.18, zorder=0))
        else:
            ax.plot(*corners.T, color=colour, lw=1.2, ls="--", zorder=0)
    edges = hull_edges(points)
    if len(edges):
        lines = edges @ flat.T
        ax.add_collection(LineCollection(list(lines), colors=INK, linewidths=0.8, alpha=0.6))
    ax.scatter(*shown.T, s=22, c=colours, lw=0, alpha=0.85, zorder=3)
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach) if dim > 1 else (-0.1, 0.1))
    if dim == 1:
        ax.set(xlabel="$z$", yticks=[])
    else:
        ax.set_aspect("equal")
        names = ("$z_1$", "$z_2$") if dim == 2 else ("", "")
        ax.set(xlabel=names[0], ylabel=names[1])
    if dim == 3:
        ax.set_axis_off()


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


def _plane(functional: np.ndarray, level: float, reach: float) -> np.ndarray:
    """A segment (2, d) or a square (4, d) of the hyperplane φ(z) = c around its nearest point."""
    centre = level * functional / (functional @ functional)
    across = np.linalg.svd(functional[None])[2][1:]
    if len(across) == 1:
        return np.array([centre - reach * across[0], centre + reach * across[0]])
    signs = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    return centre + 0.35 * reach * signs @ across
