"""Sinkhorn attention at a small scale is heat, at half the speed of softmax by distance."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.fields import L2Attention, SinkhornAttention
from metastable.measures import Points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

ENTRY = Entry(
    title="Sinkhorn attention at a small scale is heat",
    places=["arXiv:2110.11773, abstract"],
    claim=(
        "With many tokens and kernel and depth rescaled, doubly stochastic attention is heat "
        "diffusion: β(A(x) − x) tends to ½∇log ρ, where softmax by distance has ∇log ρ."
    ),
    method=(
        "A fine grid of weighted tokens with a density of two humps on the line: β(A(x) − x) for "
        "growing β against the derivative of log ρ; exponent of the error in β; the rate of the "
        "second moment under the reversed flow, which is 1 for ∂_tρ = ½Δρ whatever ρ."
    ),
    subject="normalisation",
    basis="report",
    limits=(
        "One dimension, the velocity at one time. The factor ½, and that inner products do instead "
        "of distances under Sinkhorn's scaling, are derived here."
    ),
    planted="SinkhornAttention.beta * 1.1",
    settings={"tokens": 900, "betas": [20.0, 40.0, 80.0, 160.0]},
    fast={"tokens": 500, "betas": [20.0, 40.0, 80.0]},
)


def heat_limit(*, tokens: int, betas: list[float]) -> Finding:
    """Velocities of two attentions at small scales against the score."""
    grid = np.linspace(-6.0, 6.0, tokens)
    humps = lambda y: 0.6 * np.exp(-((y + 1) ** 2) / 2) + 0.4 * np.exp(-((y - 1.2) ** 2))
    density = humps(grid)
    weights = density / density.sum()
    step = 1e-5
    score = (np.log(humps(grid + step)) - np.log(humps(grid - step))) / (2 * step)
    measure = Points(grid[:, None], weights, on_sphere=False)
    core = np.abs(grid) < 3
    off = {"Sinkhorn": [], "softmax by distance": []}
    rates = {name: [] for name in off}
    curves = {}
    for beta in betas:
        fields = {"Sinkhorn": SinkhornAttention(beta), "softmax by distance": L2Attention(beta)}
        for name, field in fields.items():
            share = 0.5 if name == "Sinkhorn" else 1.0
            moved = beta * (np.asarray(field.velocity(measure))[:, 0] - grid)
            gap = (moved - share * score)[core]
            size = np.sqrt(weights[core] @ gap**2)
            off[name].append(size)
            # d/dt Σ w x² under ẋ = −β(A(x) − x): −2 Σ w x β(A − x), 2 × share in the limit.
            rates[name].append(-2 * weights @ (grid * moved) / (2 * share))
            if beta == betas[-1]:
                curves[name] = (grid[core][::9], moved[core][::9])
    rows = []
    for name, errors in off.items():
        slope = np.polyfit(np.log(betas), np.log(errors), 1)[0]
        rows.append(
            judge(f"{name}: exponent in β of the distance from the limit", "abstract; derived",
                  -1.0, float(slope), absolute=0.2)
        )  # fmt: skip
        # The error is of order 1/β: extrapolated from the last two it should vanish.
        last = 2 * rates[name][-1] - rates[name][-2]
        rows.append(
            judge(f"{name}: growth of the second moment over that of the heat equation, β → ∞",
                  "abstract; derived", 1.0, float(last), absolute=0.01)
        )  # fmt: skip
    figure = plot_lines(
        curves, "x", Axis("β(A(x) − x)"),
        f"Rescaled velocity of a two-hump density at β = {betas[-1]:g}; dashed: limits.",
        theory={"½ (log ρ)'": (grid[core], score[core] / 2), "(log ρ)'": (grid[core], score[core])},
    )  # fmt: skip
    return Finding(rows, {"velocity": figure})
