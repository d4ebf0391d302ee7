"""Coordinates in the eigenbasis of V."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.measures import gaussian_points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._pure_attention import pure_run, skew_value

ENTRY = Entry(
    title="Coordinates in the eigenbasis of V",
    places=["Lemma in the proof of Theorem 3"],
    claim=(
        "For every eigenvalue λ_k ≥ 0 of a diagonalisable V the smallest dual coordinate "
        "φ_k*(z_j) over the tokens increases with time, and the largest decreases."
    ),
    method=(
        "Follow both ends in each eigendirection, over V with positive, zero and negative "
        "eigenvalues in random skew bases."
    ),
    subject="clusters",
    basis="text",
    limits=(
        "Twenty diagonalisable V in R⁴ with one real spectrum; complex eigenvalues were left out."
    ),
    planted="pure_run.value * -1.0",
    settings={"tokens": 20, "eigenvalues": [1.0, 0.5, 0.0, -0.3], "draws": 20, "horizon": 8.0},
    fast={"draws": 6},
)


def eigen_coordinates(
    *, tokens: int, eigenvalues: list[float], draws: int, horizon: float
) -> Finding:
    """Smallest and largest coordinate of the tokens in each eigendirection of V."""
    worst = np.zeros(len(eigenvalues))  # the largest step outwards of either end
    inward = np.full(len(eigenvalues), -np.inf)  # the largest step inwards
    for seed in range(draws):
        value, basis = skew_value(eigenvalues, seed)
        start = gaussian_points(tokens, len(eigenvalues), seed=seed)
        run = pure_run(start, horizon, value=value, frames=41)
        y = run.points @ np.linalg.inv(basis).T  # φ_k*(z_i), (time, token, k)
        low, high = np.diff(y.min(axis=1), axis=0), np.diff(y.max(axis=1), axis=0)
        size = np.abs(y).max(axis=(0, 1))
        worst = np.maximum(worst, np.maximum(-low, high).max(axis=0) / size)
        inward = np.maximum(inward, np.maximum(low, -high).max(axis=0) / size)
    rates = np.array(eigenvalues)
    kept = rates >= 0
    rows = [
        holds(
            "for λ_k ≥ 0 the smallest φ_k*(z_j) increases and the largest decreases",
            "Lemma in the proof of Theorem 3",
            worst[kept].max() < 1e-9,
            "no step outwards",
            f"largest step outwards {worst[kept].max():.1e}",
            f"eigenvalues {eigenvalues}, {draws} random bases",
        ),
        holds(
            "for λ_k < 0 the opposite: both ends only move outwards",
            "same computation with the other sign",
            (~kept).any() and inward[~kept].max() < 1e-9 and worst[~kept].max() > 1e-3,
            "no step inwards",
            f"largest step inwards {inward[~kept].max():.1e}",
        ),
        holds(
            "for λ_k > 0 they do move",
            "same",
            inward[rates > 0].min() > 1e-3,
            "steps inwards",
            f"largest {inward[rates > 0].min():.2g} or more",
        ),
    ]
    curves: dict[str, Any] = {}
    for k, rate in enumerate(eigenvalues):
        # In units of the first width, so that all directions share an axis.
        width = np.ptp(y[:, :, k], axis=1)
        curves[f"λ = {rate:g}"] = (run.times, width / width[0])
    figure = plot_lines(
        curves,
        "time t (SA clock)",
        "width $b_k(t) - a_k(t)$, first = 1",
        f"Width of {tokens} tokens in each eigendirection of V: it shrinks, stays or grows with "
        "the sign of the eigenvalue.",
        log="y",
        lines=True,
    )
    return Finding(rows, {"widths": figure})
