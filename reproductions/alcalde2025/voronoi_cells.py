"""Tokens go straight to the vertex of their Voronoi cell."""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree

from metastable.core.figure import Axis, Cloud
from metastable.core.verdict import judge
from metastable.fields import Rescaled, SelfAttention
from metastable.flows import Hardmax, flow
from metastable.measures import Points
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Tokens go straight to the vertex of their Voronoi cell",
    places=["arXiv:2508.09628, abstract", "public scripts, cells"],
    claim=(
        "At β = ∞ with B > 0 and vertices of equal length ⟨Bv, v⟩, vertices rest, the hull is cut "
        "into the Voronoi cells of the vertices, every other token stays in its cell and moves on "
        "a straight line to its vertex, exponentially fast."
    ),
    method=(
        "Hardmax runs from event to event among random vertices on an ellipse ⟨Bv, v⟩ = 1 and "
        "random tokens inside: who ends where against the nearest vertex of SciPy's tree in the "
        "metric of B, and positions against v + e^{−t}(z_0 − v)."
    ),
    subject="clusters",
    basis="code",
    limits=(
        "Dimensions 2 and 3, continuous time. Vertices of unequal length are the entry "
        "moving_vertices."
    ),
    planted="SelfAttention.query = None",
    settings={"dims": [2, 3], "vertices": 7, "inside": 60, "seeds": 6, "horizon": 4.0},
    fast={"seeds": 2},
)


def voronoi_cells(
    *, dims: list[int], vertices: int, inside: int, seeds: int, horizon: float
) -> Finding:
    """Rest, cells and straight lines in hardmax runs."""
    moved = line = 0.0
    wrong = total = 0
    shown = None
    for dim in dims:
        for seed in range(seeds):
            random = np.random.default_rng([dim, seed])
            root = np.eye(dim) + 0.15 * random.standard_normal((dim, dim))
            form = root.T @ root
            round_ = random.standard_normal((vertices, dim))
            round_ /= np.linalg.norm(round_, axis=1, keepdims=True)
            corners = round_ @ np.linalg.inv(root).T
            shares = random.dirichlet(np.full(vertices, 0.7), inside)
            start = np.concatenate([corners, shares @ corners])
            field = Rescaled(SelfAttention(1.0, query=form))
            times = np.linspace(0, horizon, 9)
            run = flow(Points(start, on_sphere=False), field, horizon, frames=times,
                       stepper=Hardmax(radius=1e-9))  # fmt: skip
            kept = [f for f in run.frames if f.count == len(start)]
            moved = max(moved, *(np.abs(f.points[:vertices] - corners).max() for f in kept))
            # Nearest in the metric of B is nearest on the round sphere of y = Rv.
            cell = KDTree(round_).query(start @ root.T)[1]
            shift = np.exp(-times[: len(kept)])[:, None, None]
            exact = corners[cell] + shift * (start - corners[cell])
            found = np.array([f.points for f in kept])
            line = max(line, np.abs(found - exact).max())
            ends = KDTree(corners @ root.T).query(found[-1] @ root.T)[1]
            wrong += int(np.sum(ends != cell))
            total += len(start)
            if shown is None:
                middle = found[1]
                shown = Cloud(
                    np.concatenate([middle, corners]), space="plane",
                    groups=np.concatenate([cell, np.full(vertices, -1)]),
                    segments=np.stack([start[vertices:], middle[vertices:]], axis=1),
                    x=Axis("$x_1$"), y=Axis("$x_2$"),
                    caption=f"Tokens at t = {times[1]:g} (SA clock) with the way they "
                    "came, colored by the vertex nearest at the start; gray: vertices.",
                )  # fmt: skip
    rows = [
        holds("tokens that end nearest to another vertex than at the start", "abstract; scripts",
              wrong == 0, f"0 of {total}", f"{wrong} of {total}"),
        judge("vertices: largest motion", "abstract", 0.0, float(moved), absolute=1e-12),
        judge("all tokens against v + e^{−t}(z_0 − v): largest error", "abstract; rate derived",
              0.0, float(line), absolute=1e-7),
    ]  # fmt: skip
    assert shown is not None
    return Finding(rows, {"cells": shown})
