"""The rank of the attention matrix of pure attention, against the vertices of the limit."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from metastable.comparison.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points, gaussian_points
from metastable.observe import attention, attention_rank
from metastable.reproduce.finding import Finding, holds
from metastable.reproduce.polytopes import positive_query
from metastable.reproduce.rescaled_runs import last_attention, limit_corners, pure_run
from metastable.theory.limits import attention_rank_bound

__all__ = ["rank_corollary", "rank_in_general", "rank_through_time"]

TURN = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])  # generator of a rotation


def rank_corollary(*, tokens: int, dims: list[int], draws: int, horizon: float) -> Finding:
    """rank P* ≤ m over random prompts, and for prompts with a token that tends to 0."""
    from metastable.report.plots import draw_lines

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
    figure = draw_lines(
        where,
        "vertices m of the limit polytope",
        "rank of P at the end",
        f"Rank of the attention matrix of {tokens} tokens against the vertices of their limit.",
        theory={"rank = m": (np.arange(1, most + 1), np.arange(1, most + 1))},
    )
    figure.axes[0].set(xticks=range(1, most + 1), yticks=range(1, most + 1))
    return Finding(rows, {"ranks": figure})


def rank_through_time(*, tokens: int, draws: int, horizon: float) -> Finding:
    """The rank of P(t) from n at the start to the number of vertices at the end."""
    from metastable.report.plots import draw_lines

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
    figure = draw_lines(
        curves,
        "time t (SA clock)",
        "rank of P(t)",
        f"Rank of the attention matrix of {tokens} tokens in the plane (singular values above 1e−6 "
        "of the largest), with the vertices m of each limit.",
        lines=True,
    )
    figure.axes[0].set_yticks(range(0, tokens + 1, 2))
    return Finding(rows, {"rank": figure})


def rank_in_general(*, tokens: int, draws: int, horizon: float) -> Finding:
    """Late ranks of P(t) for V of several kinds, most of them outside the theorems."""
    from metastable.report.plots import draw_bars

    kinds = {
        "V = I": lambda basis: np.eye(3) + 1e-12 * basis,
        "leading λ simple": lambda basis: basis @ np.diag([1.0, 0.6, 0.3]) @ basis.T,
        "I + half turn": lambda basis: basis @ (np.eye(3) + 0.5 * TURN) @ basis.T,
        "I + two turns": lambda basis: basis @ (np.eye(3) + 2.0 * TURN) @ basis.T,
        "V < 0": lambda basis: basis @ np.diag([-1.0, -0.6, -0.3]) @ basis.T,
    }
    ranks: dict[str, np.ndarray] = {}
    for name, make in kinds.items():
        found = []
        for seed in range(draws):
            basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
            start = gaussian_points(tokens, 3, seed=seed)
            run = pure_run(start, horizon, value=make(basis), frames=5)
            found.append(attention_rank(last_attention(run)))
        ranks[name] = np.array(found)
    turning = [
        float(np.median(ranks[name])) for name in ("V = I", "I + half turn", "I + two turns")
    ]
    rows = [
        holds(
            "P(t) comes to a low rank (at most n/2) for V of every kind tried",
            "section on open questions, rank P(t) in general",
            all(r.max() <= tokens / 2 for r in ranks.values()),
            f"at most {tokens // 2}",
            ", ".join(f"{name}: {r.min()} to {r.max()}" for name, r in ranks.items()),
        ),
        holds(
            "it does where the leading eigenvalue is real, positive and simple: at most 3",
            "Theorem 3",
            ranks["leading λ simple"].max() <= 3,
            "at most 3",
            int(ranks["leading λ simple"].max()),
        ),
        holds(
            "a V that turns tokens while they grow keeps more of them leading: median ranks",
            "found here",
            turning[0] < turning[1] < turning[2],
            "grow with the turning rate 0, 0.5, 2",
            ", ".join(f"{one:g}" for one in turning),
        ),
    ]
    edges = [1, 3, 5, 9, 13, 17]
    edges = [edge for edge in edges if edge <= tokens] + [tokens + 1]
    names = [f"{a}" if b == a + 1 else f"{a} to {b - 1}" for a, b in pairwise(edges)]
    figure = draw_bars(
        names,
        {name: (np.histogram(r, edges)[0] / draws).tolist() for name, r in ranks.items()},
        f"rank of P at t = {horizon:g} (SA clock)",
        "share of prompts",
        f"Late rank of the attention matrix of {tokens} tokens in R³, {draws} prompts for each V.",
        size=(5.6, 3.3),
    )
    return Finding(rows, {"ranks": figure}, ["The document asks and proves nothing here."])


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
