"""The rank of P(t) against the vertices."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.measures import gaussian_points
from metastable.observe import attention_rank
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._pure_attention import last_attention, limit_corners, positive_query, pure_run

ENTRY = Entry(
    title="The rank of P(t) against the vertices",
    places=[
        "section on take-aways, rank of the self-attention matrix",
        "Corollary of Theorem 2 (rank P* ≤ m)",
    ],
    claim=(
        "As tokens converge to a cluster geometry the rank of P(t) falls, which would reduce "
        "the quadratic cost of attention at every layer."
    ),
    method=(
        "Follow the rank of P(t) over prompts in the plane from the start to a late time, "
        "count vertices, and measure how much attention lies outside as many columns as there "
        "are vertices."
    ),
    subject="clusters",
    basis="text",
    limits="Twenty prompts of 20 tokens in the plane up to t = 12, with QᵀK = I or random.",
    planted="pure_run.horizon * 0.1",
    settings={"tokens": 20, "draws": 20, "horizon": 12.0},
    fast={"draws": 6},
)


def rank_through_time(*, tokens: int, draws: int, horizon: float) -> Finding:
    """The rank of P(t) from n at the start to the number of vertices at the end."""
    curves, ends, firsts, errors = {}, [], [], []
    for seed in range(draws):
        query = positive_query(2, seed)
        start = gaussian_points(tokens, 2, seed=seed)
        run = pure_run(start, horizon, query=query, frames=49)
        ranks = [attention_rank(last_attention(run, k)) for k in range(len(run.times))]
        corners = limit_corners(run.frames[-1])
        firsts.append(ranks[0])
        ends.append(ranks[-1] - len(corners))
        P = last_attention(run)
        # As many columns as there are vertices carry the whole matrix.
        columns = np.argsort(-P.sum(axis=0))[: len(corners)]
        errors.append(float(np.abs(np.delete(P, columns, axis=1)).sum(axis=1).max()))
        if seed < 6:
            curves[f"prompt {seed + 1} (m = {len(corners)})"] = (run.times, ranks)
    rows = [
        holds(
            "P(t) ends with at most as many dimensions as the polytope has vertices",
            "section on take-aways, rank of P(t)",
            max(ends) <= 0 and min(firsts) > tokens / 3,
            "falls from near n to m or less",
            f"from {min(firsts)} or more to m {max(ends):+d} at most",
        ),
        judge(
            "so n × m numbers do instead of n²: attention outside the m heaviest columns",
            "section on take-aways, complexity O(n²)",
            0.0,
            max(errors),
            absolute=1e-6,
        ),
    ]
    figure = plot_lines(
        curves,
        "time t (SA clock)",
        Axis("rank of P(t)", places=range(0, tokens + 1, 2)),
        f"Rank of the attention matrix of {tokens} tokens in the plane (singular values above 1e−6 "
        "of the largest), with the vertices m of each limit.",
        lines=True,
    )
    return Finding(rows, {"rank": figure})
