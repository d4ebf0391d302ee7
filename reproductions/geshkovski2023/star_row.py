"""The row of stars."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.observe import attention_rank
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="The row of stars",
    places=["Theorem 1", "proof of Theorem 1, the three harder points"],
    claim=(
        "All but one particle tend to infinity; if an interior one stays bounded, its row of "
        "the limit matrix is the row of stars, neither e_1 nor e_n."
    ),
    method=(
        "Such a token is unstable forwards and stable backwards, so run pure attention "
        "backwards (V = -I) from a late configuration, and compare the row with the balance "
        "of forces at the bounded token."
    ),
    subject="clusters",
    basis="text",
    limits="One configuration of eight tokens on the line, run backwards from t = 4.5.",
    contradicts=("rank_corollary",),
    planted="SelfAttention.beta * 1.3",
    settings={"left": 2, "right": 5, "ends": [-1.0, 0.7], "horizon": 4.5},
)


def star_row(*, left: int, right: int, ends: list[float], horizon: float) -> Finding:
    """The exceptional prompt: an interior token that stays bounded, and its row of P*.

    Such a token is unstable beyond all floating point forwards in time (like e^{e^{2t}}), and as
    stable backwards: with V = −I pure attention runs back from a late configuration to a prompt.
    """
    a, b = ends
    late = np.concatenate([np.full(left, a), [0.0], np.full(right, b)])
    apart = np.concatenate([0.4 * np.arange(left), [0.0], -0.3 * np.arange(right)[::-1]])
    last = np.exp(horizon) * late + apart
    back = flow(
        Points(last[:, None], on_sphere=False), SelfAttention(1.0, value=-1.0), horizon, frames=46
    )
    times, x = horizon - back.times[::-1], back.points[::-1, :, 0]
    # The last half unit belongs to the start of the backward run, which is not yet on the orbit.
    kept = times <= horizon - 0.5
    times, x = times[kept], x[kept]
    logits = x[:, :, None] * x[:, None, :]
    P = np.exp(logits - logsumexp(logits, axis=2, keepdims=True))
    # Bounded means Σ_j P_j z_j = 0 with P_j ∝ e^{c z_j}: one equation for c.
    c = np.log(-left * a / (right * b)) / (b - a)
    expected = np.exp(c * late) / np.exp(c * late).sum()
    star = P[:, left]
    others = np.delete(np.arange(len(late)), left)
    ended = np.where(x[-1, others] > 0, len(late) - 1, 0)
    boolean = np.abs(P[-1, others] - np.eye(len(late))[ended]).max()
    rows = [
        holds(
            "all but one particle tend to ±∞; a bounded interior one keeps a row that is neither "
            "e_1 nor e_n",
            "Theorem 1, the row of stars, and the three remarks of its proof",
            star[-1].max() < 0.9 and boolean < 1e-3 and abs(x[-1, left]) < 0.2,
            "one bounded token, its row not Boolean, the others Boolean",
            f"|x| = {abs(x[-1, left]):.1e}, largest entry {star[-1].max():.3f}, others to "
            f"{boolean:.0e}",
        ),
        judge(
            "its row: weights ∝ e^{c z_j} with Σ_j P_j z_j = 0 (largest difference)",
            "derived here",
            0.0,
            float(np.abs(star[-1] - expected).max()),
            absolute=0.003,
        ),
        judge(
            "rank of P*",
            "Theorem 1",
            3,
            attention_rank(P[-1], 1e-3),
            absolute=0,
            reason="two kinds of Boolean rows and the row of stars",
        ),
    ]
    shown = {"to the left end": 0, "to itself": left, "to the right end": len(late) - 1}
    figure = plot_lines(
        {name: (times, star[:, j]) for name, j in shown.items()},
        "time t (SA clock)",
        "attention $P_{ij}(t)$",
        f"Row of stars: the bounded one of {len(late)} tokens looks at a token of each end and at "
        "itself; dashed, the limit from the balance of forces.",
        theory={f"limit {name}": (times, 0 * times + expected[j]) for name, j in shown.items()},
        lines=True,
    )
    return Finding(rows, {"row": figure})
