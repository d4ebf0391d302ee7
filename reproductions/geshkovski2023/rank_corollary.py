"""The rank of the limit of P."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points, gaussian_points
from metastable.observe import attention, attention_rank
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.limits import attention_rank_bound

from ._pure_attention import last_attention, limit_corners, positive_query, pure_run

ENTRY = Entry(
    title="The rank of the limit of P",
    places=["Corollary of Theorem 2 (rank P* ≤ m)"],
    claim=(
        "The attention matrix has a limit P* whose rank is at most the number m of vertices "
        "of the limit polytope."
    ),
    method=(
        "Compare the rank of P at a late time with the vertices over random prompts; then "
        "take prompts with one token that tends to 0 (found backwards in time, where it is "
        "stable)."
    ),
    known="disagree",
    correction=(
        "A token that tends to 0 keeps a row of its own, as in Theorem 1: three tokens on a "
        "line have two vertices and can have rank 3. The bound m holds when no token tends to "
        "0, which is so for all random prompts."
    ),
    subject="clusters",
    basis="text",
    limits="Prompts of 20 tokens in d = 2 and 3; the exceptional prompts are built on the line.",
    planted="SelfAttention.value = 1.0",
    settings={"tokens": 20, "dims": [2, 3], "draws": 30, "horizon": 14.0},
    fast={"dims": [2], "draws": 10},
)


def rank_corollary(*, tokens: int, dims: list[int], draws: int, horizon: float) -> Finding:
    """rank P* ≤ m over random prompts, and for prompts with a token that tends to 0."""
    ranks, vertices, where = [], [], {}
    for dim in dims:
        for seed in range(draws):
            query = positive_query(dim, seed)
            run = pure_run(gaussian_points(tokens, dim, seed=seed), horizon, query=query)
            vertices.append(attention_rank_bound(limit_corners(run.frames[-1])))
            ranks.append(attention_rank(last_attention(run)))
        shown = slice(len(ranks) - draws, None)
        where[f"random prompts, d = {dim}"] = (vertices[shown], ranks[shown])
    special = np.array([attention_rank(P, 1e-3) for P in prompts_with_centre()])
    corners = np.array([2, 4])
    where["a token tends to 0"] = (corners, special)
    excess = int((np.array(ranks) - vertices).max())
    rows = [
        holds(
            "rank P* ≤ m, the number of vertices, for every prompt",
            "Corollary of Theorem 2",
            excess <= 0 and (special <= corners).all(),
            "rank ≤ vertices",
            f"rank {special.tolist()} with {corners.tolist()} vertices",
            "prompts with one token that tends to 0",
        ),
        holds(
            f"rank P* ≤ m when no token tends to 0: {len(ranks)} random prompts",
            "Corollary of Theorem 2, corrected",
            excess <= 0,
            "rank − vertices ≤ 0",
            f"at most {excess}",
        ),
        judge(
            "a token that tends to 0 adds its own row: largest of rank − m",
            "Theorem 1, whose limit may have rank 3 with 2 ends",
            1,
            int((special - corners).max()),
            absolute=0,
        ),
    ]
    most = max(*vertices, *corners.tolist()) + 1
    figure = plot_lines(
        where,
        Axis("vertices m of the limit polytope", places=range(1, most + 1)),
        Axis("rank of P at the end", places=range(1, most + 1)),
        f"Rank of the attention matrix of {tokens} tokens against the vertices of their limit.",
        theory={"rank = m": (np.arange(1, most + 1), np.arange(1, most + 1))},
    )
    return Finding(rows, {"ranks": figure})


def prompts_with_centre(horizon: float = 4.0) -> list[np.ndarray]:
    """P at a late time of two prompts in the plane whose last token tends to 0.

    The four others end at 2 places of a line, or at 4 places around it. The prompts are found
    backwards in time, where the exceptional token is stable (see `star_row`).
    """
    ends = np.array([[1.0, 0.0], [-0.8, 0.0], [1.0, 0.0], [-0.8, 0.0], [0.0, 0.0]])
    apart = np.array([[0.0, 0.0], [0.0, 0.0], [-0.4, 0.0], [0.4, 0.0], [0.0, 0.0]])
    around = np.array([[1.0, 0.0], [-0.8, 0.0], [0.0, 0.9], [0.0, -0.7], [0.0, 0.0]])
    field = SelfAttention(1.0, value=-1.0)
    found = []
    for last in (np.exp(horizon) * ends + apart, np.exp(horizon) * around):
        # Half a unit back the run has found the orbit; the start itself need not lie on it.
        back = flow(Points(last, on_sphere=False), field, horizon, frames=[0.5])
        found.append(np.asarray(attention(back.frames[1], 1.0)))
    return found
