"""Several heads can forget two places."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import iv

from metastable.core.verdict import judge
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.retrieval import critical_retrieval_time, retrieval_law

ENTRY = Entry(
    title="Several heads can forget two places",
    places=["public code: write_common_m_doublewell_profile and t_crit"],
    claim=(
        "A weighted sum of the profiles of four heads, (weight, β, λ) as in the code, has two "
        "minima of equal depth in the source's position; and one head's critical time falls with "
        "β (λ = 1, 8 words, 20 modes)."
    ),
    method=(
        "Sum the closed form over modes and heads with the code's numbers, minima on a fine grid; "
        "critical times by the slope at s = 1, found by differences of the profile."
    ),
    subject="long context",
    basis="code",
    limits=(
        "Heads are summed as separate chains with signed weights, as the code does: that is no "
        "profile of one chain with several heads, whose kernels do not commute."
    ),
    planted="retrieval_law.strengths * 1.02",
    settings={
        "heads": [
            [1.0, 0.2, 3.0],
            [-27.519314453632965, 0.2, 0.25],
            [-1.5515192155322617, 0.5, 0.25],
            [3.9262326774050965e-06, 3.0, 2.0],
        ],
        "time": 1.5,
        "words": 8.0,
        "modes": 20,
        "betas": [0.5, 1.0, 2.0, 3.0, 4.0],
    },
    fast={"betas": [1.0, 3.0]},
)


def double_well(
    *, heads: list[list[float]], time: float, words: float, modes: int, betas: list[float]
) -> Finding:
    """Minima of the sum, and the time at which one head's slope at the end vanishes."""
    order = np.arange(1, modes + 1)
    weights = np.exp(-0.5 * (math.pi * order / words) ** 2)
    strength = lambda beta, t: order**2 * iv(order, beta) * t
    s = np.linspace(0.02, 0.98, 20001)
    parts = [share * retrieval_law(s, slope, strength(beta, time), weights)
             for share, beta, slope in heads]  # fmt: skip
    total = np.sum(parts, axis=0)
    step = np.diff(total)
    wells = np.flatnonzero((step[:-1] < 0) & (step[1:] >= 0)) + 1
    tops = np.flatnonzero((step[:-1] > 0) & (step[1:] <= 0)) + 1
    depth = total[tops[0]] - total[wells].min() if len(tops) and len(wells) else 0.0
    gap = float(np.ptp(total[wells])) if len(wells) else math.inf
    rows = [
        judge("number of minima of the sum", "public code", 2, len(wells), absolute=0),
        holds("the two depths are equal, in units of the barrier", "public code",
              gap < 1e-3 * depth, "< 0.001", f"{gap / max(depth, 1e-300):.2g}"),
    ]  # fmt: skip
    critical = []
    for beta in betas:
        expected = critical_retrieval_time(1.0, strength(beta, 1.0), weights)
        critical.append(expected)
        # The slope at s = 1 changes sign with t; bisect on differences of the profile itself.
        low, high = 0.1 * expected, 10 * expected
        for _ in range(60):
            middle = math.sqrt(low * high)
            near = retrieval_law([1 - 2e-5, 1 - 1e-5, 1.0], 1.0, strength(beta, middle), weights)
            rising = 3 * near[2] - 4 * near[1] + near[0] > 0
            low, high = (middle, high) if rising else (low, middle)
        rows.append(judge(f"critical time, β = {beta:g}", "public code", expected, low,
                          relative=2e-3))  # fmt: skip
    falling = bool(np.all(np.diff(critical) < 0))
    rows.append(holds("critical times fall with β", "public code", falling, "falling",
                      ", ".join(f"{t:.3f}" for t in critical)))  # fmt: skip
    curves = {"sum of four heads": (s[::100], total[::100] - total.min())}
    figure = plot_lines(
        curves, "position s of the source", "retrieval above its minimum",
        f"t = {time:g} in the clock of the force βe^(β cos)sin.", lines=True,
    )  # fmt: skip
    return Finding(rows, {"wells": figure})
