"""The rank of P(t) for V of any kind."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from metastable.measures import gaussian_points
from metastable.observe import attention_rank
from metastable.report.figures.plain import plot_bars
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._pure_attention import last_attention, pure_run

ENTRY = Entry(
    title="The rank of P(t) for V of any kind",
    places=["section on open questions, rank P(t) in general"],
    claim=(
        "Convergence to clusters may mean a low rank of P(t) in general, beyond the cases of "
        "the theorems."
    ),
    method=(
        "Run prompts in R³ with V the identity, with a simple leading eigenvalue, with the "
        "identity plus a slow or fast rotation, and negative definite; collect the rank of P "
        "at a late time."
    ),
    known="disagree",
    correction=(
        "The rank is low where the leading eigenvalue is real: at most the vertices for V = "
        "I, at most 3 if it is simple. If V turns the tokens while they grow, or lets them "
        "shrink, P(t) keeps a rank near n at times of many units."
    ),
    subject="clusters",
    basis="text",
    limits=(
        "R³, four kinds of V, 20 tokens, times up to 8; a rank at a late time, not in the limit."
    ),
    planted="attention_rank + 3",
    settings={"tokens": 20, "draws": 30, "horizon": 8.0},
    fast={"draws": 6},
)

TURN = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])  # generator of a rotation


def rank_in_general(*, tokens: int, draws: int, horizon: float) -> Finding:
    """Late ranks of P(t) for V of several kinds, most of them outside the theorems."""
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
    figure = plot_bars(
        names,
        {name: (np.histogram(r, edges)[0] / draws).tolist() for name, r in ranks.items()},
        f"rank of P at t = {horizon:g} (SA clock)",
        "share of prompts",
        f"Late rank of the attention matrix of {tokens} tokens in R³, {draws} prompts for each V.",
        size=(5.6, 3.3),
    )
    return Finding(rows, {"ranks": figure}, ["The document asks and proves nothing here."])
