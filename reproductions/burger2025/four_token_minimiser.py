"""Four repelling tokens settle where two hyperbolic tangents balance."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.observe import energy
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

ENTRY = Entry(
    title="Four repelling tokens settle where two hyperbolic tangents balance",
    places=["Figure 4 (four_part_system.py, tanh_min0.0005.csv)"],
    claim=(
        "Four tokens (±p, ±q) on the circle that descend the energy of D = diag(1, δ) end with "
        "tanh(p²)/tanh(δq²) = δ at β = 1."
    ),
    method=(
        "Runs of unnormalised attention with V = −D from a square for several δ and β; the end "
        "against the balance tanh(βp²) = δ tanh(βδq²), and its energy cosh(βp²)cosh(βδq²)."
    ),
    subject="existence",
    basis="code",
    limits=(
        "Symmetric starts only, as in the figure; the authors' note of a failure at coarse steps "
        "is not repeated. β other than 1 is our extension."
    ),
    planted="SelfAttention.beta * 1.1",
    settings={"deltas": [0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0], "betas": [1.0, 2.0]},
    fast={"deltas": [0.5, 2.0, 5.0], "betas": [1.0]},
)


def four_token_minimiser(*, deltas: list[float], betas: list[float]) -> Finding:
    """The ratio of tangents at the end of the descent."""
    rows, measured, expected = [], {}, {}
    for beta in betas:
        ratios, worst = [], 0.0
        for delta in deltas:
            matrix = np.diag([1.0, delta])
            field = SelfAttention(beta, query=matrix, value=-matrix, normalized=False)
            turn = np.array([1, 3, 5, 7]) * np.pi / 4
            square = Points(np.column_stack([np.cos(turn), np.sin(turn)]))
            end = flow(square, field, 60.0 / min(1.0, delta**2), frames=2).frames[-1]
            p, q = (np.asarray(end.points) ** 2).mean(axis=0)
            ratios.append(float(np.tanh(beta * p) / np.tanh(beta * delta * q)))
            balance = lambda u, d=delta, b=beta: np.tanh(b * u) - d * np.tanh(b * d * (1 - u))
            best: Any = brentq(balance, 0, 1)
            level = np.cosh(beta * best) * np.cosh(beta * delta * (1 - best)) / (2 * beta)
            got = float(energy(end, beta, matrix=matrix))
            worst = max(worst, abs(got / level - 1))
        # The stepper's tolerance is 1e−6 and the end attracts.
        off = float(np.max(np.abs(np.array(ratios) / np.array(deltas) - 1)))
        rows.append(judge(f"β = {beta:g}: largest relative error of the ratio of tangents, which "
                          "should be δ", "Figure 4", 0.0, off, absolute=1e-4))  # fmt: skip
        rows.append(judge(f"β = {beta:g}: largest relative error of the energy", "derived", 0.0,
                          worst, absolute=1e-7))  # fmt: skip
        measured[f"β = {beta:g}"] = (deltas, ratios)
    line = np.linspace(min(deltas), max(deltas), 50)
    expected["ratio = δ"] = (line, line)
    figure = plot_lines(
        measured, "δ", "tanh(βp²)/tanh(βδq²) at the end",
        "Four tokens that repel each other by D = diag(1, δ).", theory=expected,
    )  # fmt: skip
    return Finding(rows, {"ratio": figure})
