"""Pure attention with V = I: tokens in the growing frame shrink to a polytope."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
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

__all__ = ["distances_grow", "nested_hulls", "polytope", "positive_query"]


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


def _gradient_error(start: Points, field: SelfAttention) -> float:
    x, step = np.asarray(start.points), 1e-5
    f = lambda z: np.log(np.exp(z @ x.T).sum(axis=1))
    slopes = [(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(x.shape[1])]
    return float(np.abs(np.stack(slopes, axis=1) - np.asarray(field.velocity(start))).max())
