"""The limit set of the polytope is discrete."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from metastable.core.figure import Map, Series
from metastable.core.verdict import judge
from metastable.measures import Points, gaussian_points
from metastable.observe import hull, hull_contains
from metastable.report.figures.plain import plot_image
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.limits import limit_geometry, polytope_residual

from ._pure_attention import limit_corners, positive_query, pure_run

ENTRY = Entry(
    title="The limit set of the polytope is discrete",
    places=["Theorem 2", "Theorem 2, the set S"],
    claim=(
        "The set S of points of the polytope K with ‖Ax‖² = max_j⟨Ax, Av_j⟩ is discrete, "
        "contains the vertices, lies in the boundary of K together with 0, and contains all "
        "limits."
    ),
    method=(
        "Enumerate S exactly, as feet of perpendiculars from the origin to the faces, and "
        "measure the distance of the tokens' ends and of all points of small residual from "
        "it."
    ),
    subject="clusters",
    basis="text",
    limits=(
        "Forty prompts of 20 tokens in the plane; the enumeration is exact there, higher "
        "dimensions were not tried."
    ),
    implies=("polytope",),
    planted="pure_run.horizon * 0.3",
    settings={"tokens": 20, "draws": 40, "horizon": 14.0},
    fast={"draws": 8},
)


def limit_set(*, tokens: int, draws: int, horizon: float) -> Finding:
    """The limit set S of each polytope, enumerated face by face, and where tokens end in it."""
    distances, sizes, missing, outside = [], [], 0, 0
    kept: Any = None
    for seed in range(draws):
        query = positive_query(2, seed)
        root: Any = limit_geometry(np.eye(2), query, query).root
        run = pure_run(gaussian_points(tokens, 2, seed=seed), horizon, query=query)
        corners = limit_corners(run.frames[-1])
        S = enumerate_limits(corners, root)
        near = lambda points, S=S: np.linalg.norm(points[:, None] - S, axis=2).min(axis=1)
        distances.append(near(np.asarray(run.frames[-1].points)).max())
        missing += int((near(corners) > 1e-4).sum())
        beyond = S[np.linalg.norm(S, axis=1) > 1e-6] * (1 + 1e-3)
        outside += int(hull_contains(hull(Points(corners, on_sphere=False)), beyond).sum())
        sizes.append(len(S))
        # A segment makes a poor picture: show the polytope with the most corners.
        if kept is None or len(corners) > len(kept[0]):
            kept = corners, root, S, np.asarray(run.frames[-1].points)
    corners, root, S, _ = kept
    loose, tight = (sublevel_reach(corners, root, S, level) for level in (1e-2, 1e-3))
    rows = [
        holds(
            f"limits lie in S, a finite set that holds all vertices and lies in ∂K ∪ {{0}}; "
            f"{draws} prompts",
            "Theorem 2",
            max(distances) < 1e-3 and missing == 0 and outside == 0,
            "distance 0, no vertex missing, no point inside",
            f"distance {max(distances):.1e}, {missing} missing, {outside} inside",
            f"{min(sizes)} to {max(sizes)} points",
        ),
        judge(
            "S is discrete: points of K with a ten times smaller residual are so much nearer to it",
            "Theorem 2; derived here",
            10.0,
            loose / tight,
            relative=0.35,
        ),
    ]
    return Finding(rows, {"residual": _residual_map(*kept)})


def enumerate_limits(corners: np.ndarray, root: np.ndarray) -> np.ndarray:
    """All x of a polytope with ‖Ax‖² = max_j ⟨Ax,Av_j⟩.

    For x = Σλ_jv_j the left side is a mean of the ⟨Ax,Av_j⟩ with λ_j > 0, so it is their maximum
    only if they are equal: x is the foot of the perpendicular (in the metric A) from 0 to the span
    of these vertices. Finitely many subsets give finitely many x. Derived here.
    """
    y = corners @ root.T
    scale = np.abs(y).max()
    found = []
    for size in range(1, corners.shape[1] + 2):
        for subset in map(list, combinations(range(len(y)), size)):
            base, edges = y[subset[0]], y[subset[1:]] - y[subset[0]]
            share = np.linalg.lstsq(edges.T, -base, rcond=None)[0] if len(edges) else np.empty(0)
            weights = np.concatenate([[1 - share.sum()], share])
            foot = weights @ y[subset]
            rest = abs(foot @ foot - (y @ foot).max())
            if weights.min() > -1e-9 and rest < 1e-6 * scale**2:
                found.append(weights @ corners[subset])
    kept: list[np.ndarray] = []
    for point in found:
        if all(np.linalg.norm(point - other) > 1e-6 * scale for other in kept):
            kept.append(point)
    return np.array(kept)


def sublevel_reach(
    corners: np.ndarray, root: np.ndarray, limits: np.ndarray, level: float
) -> float:
    """Largest distance from S among points of K whose residual is below a level."""
    random = np.random.default_rng(0)
    around = [limits[random.integers(len(limits), size=40_000)]]
    around[0] = around[0] + 6 * level * random.normal(size=around[0].shape)
    wide = random.dirichlet(np.ones(len(corners)), 40_000) @ corners
    points = np.concatenate([*around, wide])
    points = points[hull_contains(hull(Points(corners, on_sphere=False)), points)]
    low = points[polytope_residual(points, corners, root) < level]
    return float(np.linalg.norm(low[:, None] - limits, axis=2).min(axis=1).max())


def _residual_map(corners: np.ndarray, root: np.ndarray, S: np.ndarray, ends: np.ndarray) -> Map:
    low, high = corners.min(axis=0), corners.max(axis=0)
    air = 0.08 * (high - low)
    xs, ys = (np.linspace(l, h, 240) for l, h in zip(low - air, high + air, strict=True))
    grid = np.stack(np.meshgrid(xs, ys), axis=2).reshape(-1, 2)
    inside = hull_contains(hull(Points(corners, on_sphere=False)), grid)
    shade = np.where(inside, np.log10(polytope_residual(grid, corners, root) + 1e-12), np.nan)
    return plot_image(
        np.maximum(shade, -3).reshape(240, 240),
        (xs[0], xs[-1], ys[0], ys[-1]),
        "$z_1$",
        "$z_2$",
        "log₁₀ residual",
        "How far each point of the limit polytope is from ‖Az‖² = max⟨Az,Av⟩: the residual "
        f"vanishes at {len(S)} points only (rings); crosses are the ends of the tokens.",
        dots=[
            Series("limit set S", *S.T, role="theory", style="points", marker="ring"),
            Series("tokens at the end", *ends.T, style="points", marker="cross"),
        ],
        equal=True,
    )
