"""Random tokens feel little attention, which Peri and nGPT make up for."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ive

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.measures import Points, uniform
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Random tokens feel little attention",
    places=["Theorem 4.2"],
    claim=(
        "For n independent uniform tokens at β = 1 all attention outputs are small, "
        "‖A_j‖ ≤ C(√(log n/n) + log n/d), so that dividing by ‖A_j‖, as Peri and nGPT do, makes "
        "a fast start."
    ),
    method=(
        "Norms of the outputs of random tokens: the mean square of the unnormalised output "
        "against an exact formula by Bessel functions, and the largest norm over the bound for "
        "growing n and d."
    ),
    subject="normalisation",
    basis="report",
    limits="Q = K = V = I and β = 1; C is not given by the source, only that one C serves all.",
    planted="SelfAttention.beta * 1.3",
    settings={"sizes": [50, 200, 800, 2000], "dims": [4, 16, 64, 256], "draws": 40},
    fast={"sizes": [50, 400], "dims": [4, 32], "draws": 8},
)


def small_attention_vector(*, sizes: list[int], dims: list[int], draws: int) -> Finding:
    """Mean squares against the formula, largest norms against the bound."""
    rows, ratios, curves, laws = [], [], {}, {}
    for dim in dims:
        top = []
        for count in sizes:
            squares, largest = [], 0.0
            for seed in range(draws):
                measure = uniform(count, dim, seed=seed)
                ones = _outputs(SelfAttention(1.0, normalized=False), measure)
                squares.append(np.mean((count * ones) ** 2))
                largest = max(largest, float(_outputs(SelfAttention(1.0), measure).max()))
            top.append(largest)
            ratios.append(largest / (math.sqrt(math.log(count) / count) + math.log(count) / dim))
            if count <= 400:
                error = np.std(squares, ddof=1) / math.sqrt(draws)
                claim = f"mean square of Σ_k e^⟨θ_j,θ_k⟩ θ_k for {count} tokens, d = {dim}"
                rows.append(judge(claim, "derived", _mean_square(count, dim),
                                  float(np.mean(squares)), absolute=4 * float(error)))  # fmt: skip
        curves[f"d = {dim}"] = (sizes, top)
        bound = [math.sqrt(math.log(n) / n) + math.log(n) / dim for n in sizes]
        laws[f"bound / C, d = {dim}"] = (sizes, bound)
    rows.insert(
        0,
        holds("largest ‖A_j‖ over √(log n/n) + log n/d, over all n and d", "Theorem 4.2",
              max(ratios) < 2 and max(ratios) < 8 * min(ratios), "below 2 throughout",
              f"{min(ratios):.3f} to {max(ratios):.3f}"),
    )  # fmt: skip
    figure = plot_lines(
        curves, "tokens n", "largest norm of an attention output",
        f"Over {draws} draws, β = 1.", theory=laws, log="xy",
    )  # fmt: skip
    return Finding(rows, {"norms": figure})


def _outputs(field: SelfAttention, measure: Points) -> np.ndarray:
    """Norms of the outputs before the projection: tokens that are free to move in R^d."""
    return np.linalg.norm(np.asarray(field.velocity(measure.euclidean())), axis=1)


def _mean_square(count: int, dim: int) -> float:
    """E‖e θ_j + Σ_k e^{s_k} θ_k‖² over independent s_k = ⟨θ_j, θ_k⟩ and perpendicular parts."""
    nu, gamma = dim / 2 - 1, math.gamma(dim / 2)
    two = gamma * float(ive(nu, 2.0)) * math.e**2  # E e^2s
    tilt = gamma * 2**nu * float(ive(nu + 1, 1.0)) * math.e  # E e^s s
    others = count - 1
    return math.e**2 + 2 * math.e * others * tilt + others * two + others * (others - 1) * tilt**2
