"""When two opposite groups are stable."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.observe.equilibria import equilibrium
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions.altafini2025._states import line_rates, on_a_line

ENTRY = Entry(
    title="When two opposite groups are stable",
    places=["arXiv:2511.11553, abstract"],
    claim=(
        "Two opposite groups on an eigenvector of V can be stable, often on the principal one but "
        "not on it alone."
    ),
    method=(
        "All rates by the Jacobian against a 2 × 2 problem for each other eigenvalue; equal "
        "groups on the principal eigenvector are stable iff λ_1 tanh(β⟨Qu,Ku⟩) > λ_2; the edge in "
        "β; and an eigenvector of a large negative eigenvalue with ⟨Qu,Ku⟩ < 0."
    ),
    subject="clusters",
    basis="report",
    limits=(
        "The conditions are derived here. Beside the principal eigenvector a V with a negative "
        "eigenvalue is needed, so our example may not be the paper's."
    ),
    implies=("several_attractors",),
    planted="SelfAttention.beta * 1.15",
    settings={"values": [2.0, 1.0, 0.4], "groups": [[3, 3], [2, 4]], "betas": [0.3, 0.8, 2.0]},
    fast={"groups": [[2, 3]], "betas": [0.3, 2.0]},
)


def bipartite_condition(*, values: list[float], groups: list, betas: list[float]) -> Finding:
    """Spectra of opposite groups, the edge of their stability, and one off the principal axis."""
    lam = np.array(values)
    axes = np.eye(len(lam))

    def modes(value, k, plus, minus, beta, query=None):
        found = equilibrium(
            on_a_line(axes[k], plus, minus), SelfAttention(beta, query, None, np.diag(value))
        )
        return np.sort(np.real(found.modes))

    rows = []
    for plus, minus in groups:
        for beta in betas:
            worst = max(
                np.abs(
                    modes(lam, k, plus, minus, beta) - line_rates(lam, k, plus, minus, beta)
                ).max()
                for k in range(len(lam))
            )
            rows.append(judge(f"groups {plus} and {minus}, β = {beta:g}: all rates on all "
                              "eigenvectors, largest error", "derived", 0.0, worst,
                              absolute=1e-9))  # fmt: skip
    edge: Any = brentq(lambda b: modes(lam, 0, 2, 2, b)[-1], 0.1, 3.0, xtol=1e-10)
    rows.append(judge("β at which equal groups become stable", "derived",
                      float(np.arctanh(lam[1] / lam[0])), edge, absolute=1e-8))  # fmt: skip
    other = np.array([1.0, 0.5, -3.0])
    beside = modes(other, 2, 2, 2, 1.5, -1.0)[-1]
    rows.append(judge("slowest rate on the eigenvector of λ = −3, ⟨Qu,Ku⟩ < 0", "derived",
                      line_rates(other, 2, 2, 2, -1.5)[-1], beside, absolute=1e-9))  # fmt: skip
    claim = holds(
        "stable opposite groups on the principal eigenvector and on another",
        "abstract",
        modes(lam, 0, 2, 2, max(betas))[-1] < 0 and beside < 0,
        "both stable",
        f"slowest rates {modes(lam, 0, 2, 2, max(betas))[-1]:.3g}, {beside:.3g}",
    )
    # λ_j A − λ_k diag(2p − 1) has row sums above λ_j − λ_k, so for λ_j > λ_k > 0 it grows.
    least = min(
        line_rates(lam, k, plus, 6 - plus, logit)[-1]
        for k in range(1, len(lam)) for plus in range(3, 7) for logit in np.linspace(-4, 4, 33)
    )  # fmt: skip
    rows.append(holds("all eigenvalues positive: no other eigenvector holds any split", "derived",
                      least > 0, "rates above 0", f"{least:.3g}"))  # fmt: skip
    wide = np.linspace(0.01, 3, 120)
    figure = plot_lines(
        {f"groups {p} and {m}": (wide, [line_rates(lam, 0, p, m, b)[-1] for b in wide])
         for p, m in ((3, 3), (2, 4), (1, 5))},
        "β", "largest growth rate (SA clock)",
        f"Opposite groups on the principal eigenvector, eigenvalues {', '.join(map(str, values))}.",
        lines=True, levels={"stable below": 0.0},
    )  # fmt: skip
    return Finding([claim, *rows], {"rates": figure})
