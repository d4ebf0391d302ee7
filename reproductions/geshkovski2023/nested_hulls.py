"""Convex hulls shrink."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from metastable.measures import gaussian_points
from metastable.observe import hull, hull_contains
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._pure_attention import positive_query, pure_run

ENTRY = Entry(
    title="Convex hulls shrink",
    places=["Lemma in the proof of Theorem 2", "section on two timescales, first phase"],
    claim=(
        "With V = I the convex hull of the rescaled tokens at a later time lies inside the "
        "hull at an earlier time: the distance of the tokens to any half-space without tokens "
        "grows."
    ),
    method=(
        "Check each frame's hull against the one before, and the distance to half-spaces "
        "beyond the tokens, over prompts with QᵀK = I and random QᵀK > 0."
    ),
    subject="clusters",
    basis="text",
    limits="Forty prompts of 20 tokens in the plane up to t = 12, V = I.",
    planted="hull_contains.tolerance = -1.0",
    settings={"tokens": 20, "draws": 40, "horizon": 12.0},
    fast={"draws": 8},
)


def nested_hulls(*, tokens: int, draws: int, horizon: float) -> Finding:
    """Hulls of later times inside those of earlier times; distances to half-spaces grow."""
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
    figure = plot_lines(
        dict(list(curves.items())[:6]),
        "time t (SA clock)",
        "area of the convex hull of z",
        f"Area of the hull of {tokens} rescaled tokens in the plane, for {min(6, draws)} prompts.",
        lines=True,
    )
    return Finding(rows, {"areas": figure})
