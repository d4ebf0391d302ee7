"""Hulls that shrink to a polytope."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from metastable.core.verdict import judge
from metastable.observe import hull, hull_contains
from metastable.report.figures.plain import plot_lines
from metastable.report.figures.run import plot_hulls
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._rescaled import rescaled_run

ENTRY = Entry(
    title="Hulls that shrink to a polytope",
    places=["Figure 20"],
    claim=(
        "For V = I the convex hull of the rescaled tokens shrinks and converges to a convex "
        "polytope."
    ),
    method="Runs in R³: every hull inside the one before, with a volume that stays positive.",
    subject="clusters",
    basis="text",
    limits=(
        "Six prompts of 40 tokens in R³ up to t = 12, Q = K = I; the number of vertices is not "
        "part of it."
    ),
    planted="rescaled_run.value * -1.0",
    settings={"tokens": 40, "dim": 3, "horizon": 12.0, "seeds": 6},
    fast={"tokens": 25, "seeds": 2},
)


def shrinking_hulls(*, tokens: int, dim: int, horizon: float, seeds: int) -> Finding:
    """V = I: the convex hull of the rescaled tokens shrinks to a polytope."""
    nested, volumes, corners = 0, {}, []
    for seed in range(seeds):
        run = rescaled_run(np.eye(dim), tokens, horizon, seed)
        hulls = [hull(frame) for frame in run.frames]
        nested += all(hull_contains(a, b.points).all() for a, b in pairwise(hulls))
        volumes[f"seed {seed}"] = (run.times, [shape.volume for shape in hulls])
        corners.append(len(hulls[-1].points))
    flat = rescaled_run(np.eye(2), tokens, horizon)
    rows = [
        judge("share of runs whose hulls are nested", "Figure 20", 1.0, nested / seeds, absolute=0),
        holds("the hull keeps a body: it tends to a polytope, not to a point", "Figure 20",
              all(v[1][-1] > 0.01 * v[1][0] for v in volumes.values()), "positive volume",
              min(v[1][-1] for v in volumes.values())),
    ]  # fmt: skip
    figures = {
        "volumes": plot_lines(
            volumes, "time t", "volume of the hull", lines=True,
            caption=f"{tokens} tokens in R^{dim}, V = I: hulls of z = e^(−t)x.",
        ),
        "hulls": plot_hulls(flat),
    }  # fmt: skip
    return Finding(rows, figures, [f"Corners of the last hulls: {corners}."])
