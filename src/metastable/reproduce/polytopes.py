"""Pure attention with V = I: tokens in the growing frame shrink to a polytope."""

from __future__ import annotations

import dataclasses
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from metastable.comparison.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points, gaussian_points
from metastable.observe import hull, hull_contains
from metastable.reproduce.finding import Finding, holds
from metastable.reproduce.rescaled_runs import limit_corners, pure_run, residual_rate
from metastable.theory.limits import limit_geometry, polytope_residual

__all__ = ["distances_grow", "limit_set", "nested_hulls", "polytope"]


def polytope(*, tokens: int, draws: int, horizon: float) -> Finding:
    """Limits on the boundary of a polytope, for QᵀK = I and for random QᵀK > 0."""
    from metastable.report.animation import animate_space
    from metastable.report.hulls import draw_hulls
    from metastable.report.plots import draw_lines

    rates, ends, curves = [], [], {}
    flat: Any = None
    for seed in range(draws):
        query = positive_query(2, seed)
        root: Any = limit_geometry(np.eye(2), query, query).root
        # Past t = 16 the logits, of size e^{2t}, lose the digits that the rate needs.
        run = pure_run(gaussian_points(tokens, 2, seed=seed), horizon, query=query, frames=97)
        flat = run if seed == 0 else flat
        corners = limit_corners(run.frames[-1])
        off = [polytope_residual(z, corners, root).max() for z in run.points]
        rates.append(residual_rate(run.times, run.points, root))
        ends.append(off[-1])
        curves[f"prompt {seed + 1}"] = (run.times, off)
    worst = rates[int(np.abs(np.array(rates) - 1).argmax())]
    rows = [
        holds(
            f"z_i(t) tends to {{‖Az‖² = max_j⟨Az,Av_j⟩}} on the boundary of a polytope, {draws} "
            "prompts",
            "Theorem 2",
            max(ends) < 1e-3,
            "residual → 0",
            f"at most {max(ends):.1e} at t = {horizon:g}",
        ),
        judge(
            "rate r of the residual e^{−rt}, farthest from 1 of all prompts",
            "derived here",
            1.0,
            worst,
            absolute=0.02,
        ),
    ]
    flat = dataclasses.replace(flat, times=flat.times[:40], frames=flat.frames[:40])
    residual = draw_lines(
        dict(list(curves.items())[:6]),
        "time t (SA clock)",
        "largest residual",
        f"Distance of {tokens} tokens from the limit set of their polytope, for {min(6, draws)} "
        "prompts; every second one has a random QᵀK > 0.",
        theory={"$e^{-t}$": (run.times, np.exp(-run.times))},
        log="y",
        lines=True,
    )
    return Finding(
        rows,
        {"hulls": draw_hulls(flat), "residual": residual},
        movies={
            "plane": lambda path, frames: animate_space(flat, path, frames=frames),
        },
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
    return Finding(rows, {"residual": _draw_residual(*kept)})


def nested_hulls(*, tokens: int, draws: int, horizon: float) -> Finding:
    """Hulls of later times inside those of earlier times; distances to half-spaces grow."""
    from metastable.report.plots import draw_lines

    inside, nearer, curves = True, 0.0, {}
    random = np.random.default_rng(0)
    for seed in range(draws):
        query = positive_query(2, seed)
        run = pure_run(gaussian_points(tokens, 2, seed=seed), horizon, query=query)
        hulls = [hull(frame) for frame in run.frames]
        for outer, inner in pairwise(hulls):
            inside &= bool(hull_contains(outer, inner.points).all())
        normals = random.normal(size=(40, 2))
        normals /= np.linalg.norm(normals, axis=1, keepdims=True)
        # α(s) = min_i dist(z_i(s), H) for half-spaces H that begin one unit beyond the tokens.
        alpha = 1 + (run.points[0] @ normals.T).max(axis=0) - (run.points @ normals.T).max(axis=1)
        nearer = min(nearer, float(np.diff(alpha, axis=0).min()))
        curves[f"prompt {seed + 1}"] = (run.times, [one.volume for one in hulls])
    rows = [
        holds(
            f"the convex hull of all z_i only shrinks, {draws} prompts",
            "Lemma in the proof of Theorem 2 (hulls)",
            inside,
            "each hull inside the one before (to 1e−9 of its size)",
            "inside" if inside else "not inside",
        ),
        holds(
            "the distance to a half-space without tokens only grows",
            "proof of that Lemma",
            nearer > -1e-9,
            "never falls",
            f"falls by {-nearer:.1e}",
        ),
        holds(
            "hulls do shrink",
            "same",
            all(area[-1] < 0.95 * area[0] for _, area in curves.values()),
            "area falls",
            f"to {max(a[-1] / a[0] for _, a in curves.values()):.2f} of the first, or less",
        ),
    ]
    figure = draw_lines(
        dict(list(curves.items())[:6]),
        "time t (SA clock)",
        "area of the convex hull of z",
        f"Area of the hull of {tokens} rescaled tokens in the plane, for {min(6, draws)} prompts.",
        lines=True,
    )
    return Finding(rows, {"areas": figure})


def distances_grow(*, tokens: int, dims: list[int], draws: int, horizon: float) -> Finding:
    """Distances of all pairs for Q = K = V = I, and the velocity as a gradient of log Σ e^⟨z,x⟩."""
    from metastable.report.plots import draw_lines

    smallest, gradient, ratio, curves = np.inf, 0.0, np.inf, {}
    field = SelfAttention(1.0)
    for dim in dims:
        for seed in range(draws):
            start = gaussian_points(tokens, dim, seed=seed)
            run = flow(start, field, horizon, frames=25)
            x = run.points
            apart = np.linalg.norm(x[:, :, None] - x[:, None], axis=3)
            pairs = apart[:, *np.triu_indices(tokens, 1)]
            smallest = min(smallest, float((np.diff(pairs, axis=0) / pairs[1:]).min()))
            ratio = min(ratio, float((pairs[-1] / pairs[0]).min()))
            gradient = max(gradient, _gradient_error(start, field))
        curves[f"nearest pair, d = {dim}"] = (run.times, pairs.min(axis=1))
        curves[f"farthest pair, d = {dim}"] = (run.times, pairs.max(axis=1))
    rows = [
        holds(
            "‖x_i − x_j‖ increases for all pairs",
            "Lemma in the proof of Theorem 1 (distances)",
            smallest > -1e-9,
            "never falls (relative change above −1e−9)",
            f"smallest change {smallest:.1e}",
            f"dimensions {dims}, {draws} prompts each",
        ),
        judge(
            "ẋ_i = ∇ log Σ_j e^⟨z,x_j⟩ at x_i (largest difference from central differences)",
            "proof of that Lemma",
            0.0,
            gradient,
            absolute=1e-6,
        ),
        holds(
            "no consensus in R^d: even the nearest pair drifts apart",
            "section on what can be expected",
            ratio > 1,
            "last distance / first > 1",
            f"{ratio:.2f} at least",
        ),
    ]
    figure = draw_lines(
        curves,
        "time t (SA clock)",
        "distance of two tokens x",
        f"Nearest and farthest pair of {tokens} tokens with Q = K = V = I.",
        log="y",
        lines=True,
    )
    return Finding(rows, {"distances": figure})


def positive_query(dim: int, seed: int) -> np.ndarray:
    """A random rotation for even seeds (QᵀK = I with K = Q), else a random Q: QᵀK > 0."""
    random = np.random.default_rng(seed)
    noise = random.normal(size=(dim, dim))
    return np.eye(dim) + 0.3 * noise if seed % 2 else np.linalg.qr(noise)[0]


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


def _gradient_error(start: Points, field: SelfAttention) -> float:
    x, step = np.asarray(start.points), 1e-5
    f = lambda z: np.log(np.exp(z @ x.T).sum(axis=1))
    slopes = [(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(x.shape[1])]
    return float(np.abs(np.stack(slopes, axis=1) - np.asarray(field.velocity(start))).max())


def _draw_residual(corners: np.ndarray, root: np.ndarray, S: np.ndarray, ends: np.ndarray) -> Any:
    from metastable.report.plots import draw_image
    from metastable.report.style import INK, legend

    low, high = corners.min(axis=0), corners.max(axis=0)
    air = 0.08 * (high - low)
    xs, ys = (np.linspace(l, h, 240) for l, h in zip(low - air, high + air, strict=True))
    grid = np.stack(np.meshgrid(xs, ys), axis=2).reshape(-1, 2)
    inside = hull_contains(hull(Points(corners, on_sphere=False)), grid)
    shade = np.where(inside, np.log10(polytope_residual(grid, corners, root) + 1e-12), np.nan)
    figure = draw_image(
        np.maximum(shade, -3).reshape(240, 240),
        (xs[0], xs[-1], ys[0], ys[-1]),
        "$z_1$",
        "$z_2$",
        "log₁₀ residual",
        "How far each point of the limit polytope is from ‖Az‖² = max⟨Az,Av⟩: the residual "
        f"vanishes at {len(S)} points only (rings); crosses are the ends of the tokens.",
    )
    ax = figure.axes[0]
    ax.plot(*S.T, "o", ms=9, mfc="none", mec="#d55e00", mew=1.6, label="limit set S")
    ax.plot(*ends.T, "x", ms=5, color=INK, label="tokens at the end")
    ax.set_aspect("equal")
    legend(ax, loc="upper left", bbox_to_anchor=(0.0, 1.16), ncols=2)
    return figure
