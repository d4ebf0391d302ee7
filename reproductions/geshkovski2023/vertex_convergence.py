"""Convergence to vertices."""

from __future__ import annotations

import numpy as np

from metastable.measures import Points, gaussian_points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._pure_attention import limit_corners, pure_run

ENTRY = Entry(
    title="Convergence to vertices",
    places=["section on open questions, convergence to vertices", "Theorem 2"],
    claim=(
        "Tokens converge to vertices of the polytope, not only to its boundary, for a set of "
        "initial conditions of positive measure."
    ),
    method=(
        "Run random prompts and random neighbours of each, and count tokens that end at "
        "vertices; then follow a token near the symmetry axis of a square, whose limit is the "
        "middle of a side."
    ),
    subject="clusters",
    basis="text",
    limits=(
        "Thirty prompts of 20 tokens in the plane with two sizes of neighbours; positive "
        "measure is seen by sampling only."
    ),
    planted="pure_run.horizon * 0.1",
    settings={"tokens": 20, "draws": 30, "nudges": [0.0, 0.01, 0.1], "horizon": 12.0},
    fast={"draws": 8},
)


def vertex_convergence(*, tokens: int, draws: int, nudges: list[float], horizon: float) -> Finding:
    """Whether tokens end at vertices, near any prompt; and how unstable other limits are."""
    random = np.random.default_rng(1)
    shares = {size: [] for size in nudges}
    for seed in range(draws):
        base = np.asarray(gaussian_points(tokens, 2, seed=seed).points)
        for size in nudges:
            start = Points(base + size * random.normal(size=base.shape), on_sphere=False)
            run = pure_run(start, horizon, frames=13)
            corners = limit_corners(run.frames[-1])
            apart = np.asarray(run.frames[-1].points)[:, None] - corners
            shares[size].append(np.mean(np.linalg.norm(apart, axis=2).min(axis=1) < 1e-3))
    # A token on the axis of a symmetric prompt must stay on it, and ends in the middle of a side.
    square = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    middle = []
    sizes = [0.0, 1e-12, 1e-9, 1e-6, 1e-3]
    for size in sizes:
        start = Points(np.concatenate([square, [[0.4, size]]]), on_sphere=False)
        run = pure_run(start, 2.5, frames=26)
        middle.append(np.abs(run.points[:, -1, 1]))
    middle = np.array(middle)
    least = min(min(share) for share in shares.values())
    rows = [
        holds(
            "all tokens end at vertices, for an open set of prompts: least share over random "
            f"prompts and their neighbours ({draws} prompts, nudged by {nudges})",
            "section on open questions (convergence to vertices)",
            least == 1,
            "1",
            f"{least:.3f}",
        ),
        holds(
            "the middle of a side is a limit of symmetric prompts only: distance from the axis at "
            "t = 2.5, exact start and one nudged by 1e−3",
            "Theorem 2, limits on the boundary that are no vertices",
            middle[0, -1] < 1e-3 and middle[-1, -1] > 0.3,
            "0 and of order 1",
            f"{middle[0, -1]:.1e} and {middle[-1, -1]:.2f}",
        ),
    ]
    figure = plot_lines(
        {
            f"nudged by {size:g}": (run.times, np.maximum(path, 1e-17))
            for size, path in zip(sizes[1:], middle[1:], strict=True)
        },
        "time t (SA clock)",
        "distance from the axis",
        "A token near the symmetry axis of a square leaves it doubly exponentially: limits inside "
        "a side are exceptional.",
        log="y",
        lines=True,
    )
    return Finding(rows, {"axis": figure}, ["An experiment: nothing is proved here."])
