"""Local maxima of a band-limited function on the circle or the sphere, and their basins.

A maximum of the potential Σ_j w_j e^{β⟨x,x_j⟩} is the definition of a cluster that holds at every
time, also before tokens have collapsed: it needs no gap and no threshold distance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.geometry.harmonics import (
    circle_derivatives,
    sphere_derivatives,
    values_on_circle,
    values_on_sphere,
)

# Far from every cluster a potential is flat to e^{−2β}, and its truncated series ripples there:
# a maximum this close to the minimum, as a share of the range, is rounding noise.
_FLOOR = 1e-9
_BLOCK_NODES = 2**18
_BLOCK_POINTS = 2**12
_CELLS = 4  # of a step along the gradient


@dataclass(frozen=True)
class Maxima:
    """Strict local maxima of a batch of functions, one row per maximum.

    `owner` (p,) is the function's place in the flattened batch, `points` (p, dim) unit vectors,
    `values` (p,), `shares` (p,) the uniform measure of the basin under steepest ascent, and
    `counts` (batch shape) the number of maxima of each function.
    """

    owner: np.ndarray
    points: np.ndarray
    values: np.ndarray
    shares: np.ndarray
    counts: np.ndarray


def find_maxima(coefficients: Any, dim: int) -> Maxima:
    """Strict local maxima of functions given by harmonic coefficients, counted and located.

    A grid with 16 (circle) or 4 (sphere) nodes per shortest half-wave finds the summits, a
    safeguarded Newton ascent carries each to its maximum, and summits that meet are one.
    Maxima within 1e−9 of the minimum, relative to the range, are rounding noise and left out with
    their basins; a constant has none. A maximum and a saddle closer than a cell can be missed: 1 %
    of the maxima of random functions whose power sits at the band's end, 0.1 % for a potential.
    Locations are good to about 1e−10, shares to a grid cell.

    `coefficients` as in `metastable.geometry.harmonics`: (..., K + 1) for dim = 2 and
    (..., (L + 1)²) for dim = 3.

    >>> maxima = find_maxima([1.0, 0.0, 0.25], dim=2)  # 1 + ½ cos 2θ
    >>> int(maxima.counts), maxima.points[:, 0].round(6).tolist()
    (2, [1.0, -1.0])
    """
    if dim not in (2, 3):
        raise ValueError(f"dim must be 2 or 3, got {dim}; maxima are found on these only.")
    coefficients = np.asarray(coefficients)
    rows = coefficients.reshape(-1, coefficients.shape[-1])
    grid = _Circle(rows.shape[1] - 1) if dim == 2 else _Sphere(math.isqrt(rows.shape[1]) - 1)
    owner, points, shares = _summits(rows, grid)
    points, values, is_peak = _ascend(grid.derivatives, rows, owner, points, grid.spacing)
    kept, shares = _distinct(owner, points, shares, is_peak, grid.spacing / 4)
    counts = np.bincount(owner[kept], minlength=len(rows)).reshape(coefficients.shape[:-1])
    return Maxima(owner[kept], points[kept], values[kept], shares[kept], counts)


def sphere_basins(coefficients: np.ndarray, centres: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Which of the maxima `centres` of one function on S² steepest ascent from each point leads to.

    By the grid of `find_maxima`, from the node nearest to the point: good to a cell.
    """
    grid = _Sphere(math.isqrt(len(coefficients)) - 1)
    values = grid.values(coefficients[None])
    # Steps of one cell have eight directions; longer ones follow the gradient.
    leap, step = grid.along_gradient(values[0]), grid.uphill(values)[0]
    summits = _tops(np.where(values[0][leap] > values[0], leap, step)[None])[0]
    ends, which = np.unique(summits[grid.nearest(points)], return_inverse=True)
    return np.argmax(grid.points[ends] @ centres.T, axis=1)[which]


class _Circle:
    """A uniform grid on the circle."""

    derivatives = staticmethod(circle_derivatives)

    def __init__(self, degree: int):
        self.size = 32 * max(degree, 8)
        self.spacing = 2 * np.pi / self.size
        theta = self.spacing * np.arange(self.size)
        self.points = np.stack([np.cos(theta), np.sin(theta)], 1)
        self.areas = np.full(self.size, 1 / self.size)

    def values(self, rows: np.ndarray) -> np.ndarray:
        return values_on_circle(rows, self.size)

    def uphill(self, values: np.ndarray) -> np.ndarray:
        node = np.arange(self.size)
        right, left = np.roll(values, -1, 1), np.roll(values, 1, 1)
        step = np.where(right >= left, 1, -1) * (np.maximum(left, right) > values)
        return (node + step) % self.size


class _Sphere:
    """The latitude–longitude grid of `values_on_sphere`, with one repeated node at each pole."""

    derivatives = staticmethod(sphere_derivatives)

    def __init__(self, degree: int):
        self.size = 4 * max(degree, 8)
        self.spacing = np.pi / self.size
        self.columns = 2 * self.size
        row = np.arange(self.size + 1)
        theta, phi = np.meshgrid(
            self.spacing * row, self.spacing * np.arange(self.columns), indexing="ij"
        )
        self.points = np.stack(
            [np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], -1
        ).reshape(-1, 3)
        edges = np.cos(self.spacing * np.r_[0, row[:-1] + 0.5, self.size])
        self.areas = np.repeat(-np.diff(edges) / (2 * self.columns), self.columns)

    def nearest(self, points: np.ndarray) -> np.ndarray:
        """The node of each point's cell."""
        x, y, z = points.T
        row = np.rint(np.arctan2(np.hypot(x, y), z) / self.spacing).astype(int)
        column = np.rint(np.arctan2(y, x) / self.spacing).astype(int) % self.columns
        return row * self.columns + column

    def values(self, rows: np.ndarray) -> np.ndarray:
        return values_on_sphere(rows, self.size).reshape(len(rows), -1)

    def along_gradient(self, values: np.ndarray) -> np.ndarray:
        """The node some cells up along the gradient; that of a pole is its own."""
        table, x = values.reshape(self.size + 1, self.columns), self.points
        sine = np.maximum(np.hypot(x[:, 0], x[:, 1]), 1e-300)
        south = np.ravel(np.gradient(table, axis=0))
        east = (np.roll(table, -1, 1) - np.roll(table, 1, 1)).ravel() / (2 * sine)
        forward = (
            np.column_stack([x[:, 0] * x[:, 2], x[:, 1] * x[:, 2], -(sine**2)]) / sine[:, None]
        )
        aside = np.column_stack([-x[:, 1], x[:, 0], np.zeros(len(x))]) / sine[:, None]
        slope = south[:, None] * forward + east[:, None] * aside
        slope /= np.maximum(np.linalg.norm(slope, axis=1, keepdims=True), 1e-300)
        nodes = self.nearest(x + _CELLS * self.spacing * slope)
        return np.where(sine > self.spacing / 2, nodes, np.arange(len(x)))

    def uphill(self, values: np.ndarray) -> np.ndarray:
        values = values.reshape(len(values), self.size + 1, self.columns)
        node = np.arange(len(self.points)).reshape(values.shape[1:])
        inner = values[:, 1:-1]
        sine = np.sin(self.spacing * np.arange(1, self.size))[:, None]
        steepest = np.zeros_like(inner)
        target = np.broadcast_to(node, values.shape).copy()
        for down, right in ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)):
            rows = slice(1 + down, self.size + down)
            rise = np.roll(values[:, rows], -right, 2) - inner
            slope = rise / np.hypot(down, right * sine)
            steeper = slope > steepest
            np.copyto(steepest, slope, where=steeper)
            np.copyto(target[:, 1:-1], np.roll(node[rows], -right, 1), where=steeper)
        for pole, ring in ((0, 1), (-1, -2)):
            highest = node[ring][np.argmax(values[:, ring], 1)]
            leaves = values[:, ring].max(1) > values[:, pole, 0]
            target[:, pole] = np.where(leaves, highest, node[pole, 0])[:, None]
        return target.reshape(len(values), -1)


def _summits(rows: np.ndarray, grid: _Circle | _Sphere) -> tuple[np.ndarray, ...]:
    """Nodes above all their neighbours: the function each belongs to, its place, its basin."""
    nodes = len(grid.points)
    block = max(1, _BLOCK_NODES // nodes)
    parts: list[tuple[np.ndarray, ...]] = []
    for start in range(0, len(rows), block):
        values = grid.values(rows[start : start + block])
        low = values.min(1)
        floor = low + _FLOOR * (values.max(1) - low)
        uphill = _tops(grid.uphill(values))
        uphill += nodes * np.arange(len(values))[:, None]
        area = np.bincount(uphill.ravel(), np.tile(grid.areas, len(values)))
        summit = np.flatnonzero(area)
        summit = summit[values.ravel()[summit] > floor[summit // nodes]]
        parts.append((start + summit // nodes, grid.points[summit % nodes], area[summit]))
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def _tops(uphill: np.ndarray) -> np.ndarray:
    """Where the way from node to node ends."""
    while not np.array_equal(further := np.take_along_axis(uphill, uphill, 1), uphill):
        uphill = further
    return uphill


def _ascend(
    derivatives: Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]],
    rows: np.ndarray,
    owner: np.ndarray,
    points: np.ndarray,
    spacing: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Newton ascent from each point: the end points, their values, and whether each is a peak."""
    points, values, is_peak = points.copy(), np.empty(len(points)), np.empty(len(points), bool)
    for start in range(0, len(points), _BLOCK_POINTS):
        part = slice(start, start + _BLOCK_POINTS)
        x, coefficients = points[part], rows[owner[part]]
        radius = np.full(len(x), spacing)
        value, gradient, hessian = derivatives(coefficients, x)
        active = np.arange(len(x))
        while len(active):
            # Along |Hessian|⁻¹ the gradient leads up also where the function is not concave.
            curvature, axes = np.linalg.eigh(_bent(hessian[active], x[active]))
            along = np.einsum("pij,pi->pj", axes, gradient[active])
            step = np.einsum("pij,pj->pi", axes, along / np.maximum(np.abs(curvature), 1e-150))
            wanted = np.linalg.norm(step, axis=1)
            length = np.minimum(wanted, radius[active])
            trial = x[active] + step * (length / np.maximum(wanted, 1e-150))[:, None]
            trial /= np.linalg.norm(trial, axis=1, keepdims=True)
            new = derivatives(coefficients[active], trial)
            # Newton's error is the square of a step this short, and the values tie by rounding.
            last = length < 1e-6
            better = last | (new[0] > value[active])
            radius[active[~better]] = length[~better] / 4
            for old, latest in zip((x, value, gradient, hessian), (trial, *new), strict=True):
                old[active[better]] = latest[better]
            active = active[~last]
        values[part] = value
        is_peak[part] = np.linalg.eigvalsh(_bent(hessian, x))[:, -1] < 0
    return points, values, is_peak


def _distinct(
    owner: np.ndarray, points: np.ndarray, areas: np.ndarray, is_peak: np.ndarray, apart: float
) -> tuple[np.ndarray, np.ndarray]:
    """Which peaks to keep, and the share of each: summits that led to one maximum are one.

    A tie between nodes, or a ridge across the grid, makes several summits of one maximum.
    """
    shares, kept = np.zeros(len(owner)), []
    for mine in np.split(np.arange(len(owner)), np.flatnonzero(np.diff(owner)) + 1):
        distinct: list[int] = []
        for p in mine[is_peak[mine]]:
            gaps = np.linalg.norm(points[distinct] - points[p], axis=1)
            if np.any(gaps < apart):
                shares[distinct[int(np.argmin(gaps))]] += areas[p]
            else:
                shares[p] = areas[p]
                distinct.append(int(p))
        kept += distinct
    return np.array(kept, int), shares


def _bent(hessian: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The Hessian, made concave across the sphere, where the function says nothing."""
    size = np.linalg.norm(hessian, axis=(1, 2), keepdims=True)
    return hessian - size * points[:, :, None] * points[:, None, :]
