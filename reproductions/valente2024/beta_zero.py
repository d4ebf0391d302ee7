"""β = 0: one cluster from almost every start."""

from __future__ import annotations

import numpy as np
from jaxtyping import Array

from metastable.core.numerics import jax, jnp
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.observe import clusters
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

from ._starts import uniform_starts

ENTRY = Entry(
    title="β = 0: one cluster from almost every start",
    places=["Theorem 11"],
    claim=(
        "At β = 0 almost every start tends to a single point, in every dimension and for "
        "every number of tokens."
    ),
    method="Run many random starts at several sizes and count clusters at the end.",
    subject="existence",
    basis="text",
    limits=(
        "At most 64 tokens, d up to 8, 100 starts a size; the exceptional starts of measure "
        "zero were not sought."
    ),
    planted="SelfAttention.value = -1.0",
    settings={"sizes": [[4, 2], [16, 2], [16, 3], [64, 8]], "starts": 100, "horizon": 200.0},
    fast={"sizes": [[8, 2], [16, 3]], "starts": 20},
)


def beta_zero(*, sizes: list[list[int]], starts: int, horizon: float) -> Finding:
    """β = 0: every random start on every sphere ends in one cluster."""
    field, ends, curves = SelfAttention(0.0), {}, {}
    for tokens, dim in sizes:

        def move(x: Array) -> Array:
            run = flow(Points(x), field, horizon, frames=33, progress=False)
            return jnp.stack([frame.points for frame in run.frames])

        runs = np.asarray(jax.jit(jax.vmap(move))(uniform_starts(starts, tokens, dim)))
        counts = [clusters(Points(run[-1]), angle=1e-3).count for run in runs]
        ends[f"n = {tokens}, d = {dim}"] = np.mean(np.array(counts) == 1)
        mean = np.linalg.norm(runs.mean(axis=2), axis=2)
        times = np.linspace(0, horizon, 33)
        curves[f"n = {tokens}, d = {dim}"] = (times, np.median(1 - mean, axis=0))
    rows = [
        judge(f"share of {starts} starts that end in one cluster, {name}", "Theorem 11", 1.0, share,
              absolute=0.0)
        for name, share in ends.items()
    ]  # fmt: skip
    keep = {name: (t[y > 1e-9], y[y > 1e-9]) for name, (t, y) in curves.items()}
    figure = plot_lines(
        keep, "time t (SA clock)", "1 − ‖mean of all tokens‖", "Median over the random starts.",
        log="y", lines=True,
    )  # fmt: skip
    return Finding(rows, {"order": figure})
