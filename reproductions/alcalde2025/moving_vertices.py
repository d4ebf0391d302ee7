"""Not every vertex rests."""

from __future__ import annotations

import numpy as np
from scipy.spatial import ConvexHull

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.fields import Rescaled, SelfAttention
from metastable.flows import Hardmax, flow
from metastable.measures import Points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Not every vertex rests",
    places=["arXiv:2508.09628, abstract", "public scripts, cells"],
    claim="At β = ∞ with B ≥ 0 the vertices of the hull of the tokens are stationary.",
    method=(
        "Hardmax runs with B = I among random points of the plane: from lengths all equal, and "
        "from lengths spread over [1−s, 1]. Share of hull vertices that have moved at a later "
        "time, and of those that are not their own argmax at the start."
    ),
    known="disagree",
    correction=(
        "A vertex v rests if and only if it is its own argmax, ⟨Bv, v⟩ ≥ ⟨Bv, w⟩ for all w. That "
        "is so for vertices of equal ⟨Bv, v⟩; among random lengths a share of the vertices moves."
    ),
    subject="clusters",
    basis="code",
    limits=(
        "The abstract alone names no assumption; the scripts offer one (vertices in their own "
        "cells), and the theorem, not read, may make it. The number of moving vertices depends on "
        "the law of the lengths, chosen here."
    ),
    planted="flow.horizon * 1e-9",
    settings={"points": 12, "spreads": [0.0, 0.1, 0.2, 0.4, 0.6], "draws": 60},
    fast={"spreads": [0.0, 0.2, 0.6], "draws": 15},
)


def moving_vertices(*, points: int, spreads: list[float], draws: int) -> Finding:
    """Shares of hull vertices that move, and that are not their own argmax."""
    moved, led, mistaken = [], [], 0
    for spread in spreads:
        count = gone = other = 0
        for seed in range(draws):
            random = np.random.default_rng(seed)
            angle = random.uniform(0, 2 * np.pi, points)
            length = random.uniform(1 - spread, 1, points)
            x = length[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
            hull = ConvexHull(x).vertices
            field = Rescaled(SelfAttention(1.0))
            run = flow(Points(x, on_sphere=False), field, 0.3, frames=2, stepper=Hardmax())
            end = np.asarray(run.frames[-1].points)
            # A vertex that rests is still among the tokens, even if others were absorbed.
            away = np.linalg.norm(x[hull, None] - end, axis=2).min(axis=1) > 1e-5
            own = np.argmax(x @ x.T, axis=1)[hull] == hull
            count, gone, other = count + len(hull), gone + away.sum(), other + (~own).sum()
            mistaken += int(np.sum(away == own))
        moved.append(gone / count)
        led.append(other / count)
    rows = [
        holds(f"random lengths in [{1 - spreads[-1]:g}, 1]: share of vertices that move",
              "abstract", moved[-1] == 0, "0", f"{moved[-1]:.3f}"),
        judge("equal lengths: share of vertices that move", "scripts", 0.0, float(moved[0]),
              absolute=0.0),
        holds("a vertex moves just where it is not its own argmax: exceptions", "derived",
              mistaken == 0, "0", mistaken),
    ]  # fmt: skip
    figure = plot_lines(
        {"move": (spreads, moved)},
        Axis("spread s of the lengths"),
        "share of hull vertices",
        f"Vertices of the hull of {points} points of lengths in [1−s, 1] that have moved at "
        "t = 0.3 (SA clock); dashed: those that are not their own argmax.",
        theory={"not their own argmax": (spreads, led)},
    )
    return Finding(rows, {"shares": figure})
