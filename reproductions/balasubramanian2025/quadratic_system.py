"""States at rest solve a quadratic system in their Fourier coefficients."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import Noise, SelfAttention
from metastable.flows import flow
from metastable.measures import Density
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

from ._circle import defect, solve, weights

ENTRY = Entry(
    title="States at rest solve a quadratic system in their Fourier coefficients",
    places=["arXiv:2510.20094, abstract: exact equivalence with a quadratic system"],
    claim=(
        "On the circle a density with coefficients a_k is stationary exactly if "
        "k a_k = κ Σ_j j w_j a_j a_{k−j} for all k."
    ),
    method=(
        "Ends of the density equation from lopsided starts, put into the system; and the roots "
        "of the system by Newton's method, with no differential equation, against those ends."
    ),
    subject="noise",
    basis="report",
    limits="Unnormalised attention only; roots that the equation does not reach were not sought.",
    planted="SelfAttention.beta * 1.05",
    settings={"cases": [[1.0, 3.0], [3.0, 1.6], [5.0, 0.4]], "horizon": 60.0},
    fast={"cases": [[1.0, 3.0]], "horizon": 30.0},
)


def quadratic_system(*, cases: list, horizon: float) -> Finding:
    """Residuals of the quadratic system at ends of the flow, and its roots."""
    rows, measured, expected = [], {}, {}
    for beta, kappa in cases:
        field = SelfAttention(beta, normalized=False) + Noise(kappa)
        start = Density([1.0, 0.3, 0.12 - 0.1j, 0.05j], 2)
        run = flow(start, field, horizon * kappa, frames=2)
        end = np.array(run.frames[-1].coefficients)[:65]
        end = np.r_[end, np.zeros(65 - len(end))]
        w = weights(beta, 64)
        left = float(np.max(np.abs(defect(end, w, kappa)[:16])))
        name = f"β = {beta:g}, κ = {kappa:g}"
        # The stepper's relative error is 1e−6; sums of sixteen terms of size k.
        rows.append(judge(f"{name}: largest defect of the system at the end of the flow",
                          "quadratic system", 0.0, left, absolute=1e-4))  # fmt: skip
        root = solve(0.8 ** (np.arange(65) ** 1.5), w, kappa)
        off = float(np.max(np.abs(np.abs(end) - np.abs(root))))
        rows.append(judge(f"{name}: |a_1| of its root", "quadratic system", abs(root[1]),
                          float(np.abs(end[1])), absolute=1e-5))  # fmt: skip
        rows.append(judge(f"{name}: largest difference of an |a_k|", "quadratic system", 0.0, off,
                          absolute=1e-5))  # fmt: skip
        order = np.arange(1, 13)
        measured[f"end of the flow, {name}"] = (order, np.abs(end[1:13]))
        expected[f"root of the system, {name}"] = (order, np.abs(root[1:13]))
    figure = plot_lines(
        measured, "Fourier mode k", "|a_k|", "Dashed: roots of the quadratic system.",
        theory=expected, log="y",
    )  # fmt: skip
    return Finding(rows, {"coefficients": figure})
