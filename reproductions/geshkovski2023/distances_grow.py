"""Tokens grow apart."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points, gaussian_points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Tokens grow apart",
    places=["Lemma in the proof of Theorem 1", "section on what can be expected (consensus)"],
    claim=(
        "With Q = K = V = I, in any dimension, the distance of any two tokens x increases, "
        "because the velocity is the gradient of the convex function log Σ exp⟨z, x_j⟩; so "
        "there is no consensus."
    ),
    method=(
        "Follow all pairs of Gaussian prompts in several dimensions, and compare the velocity "
        "with a finite-difference gradient."
    ),
    subject="existence",
    basis="text",
    limits="Twelve Gaussian tokens, Q = K = V = I, d = 1, 2 and 5, up to t = 5.",
    planted="SelfAttention.value = -1.0",
    settings={"tokens": 12, "dims": [1, 2, 5], "draws": 10, "horizon": 5.0},
    fast={"dims": [2], "draws": 4},
)


def distances_grow(*, tokens: int, dims: list[int], draws: int, horizon: float) -> Finding:
    """Distances of all pairs for Q = K = V = I, and the velocity as a gradient of log Σ e^⟨z,x⟩."""
    smallest, gradient, ratio, curves = np.inf, 0.0, np.inf, {}
    field = SelfAttention(1.0)
    for dim in dims:
        for seed in range(draws):
            start = gaussian_points(tokens, dim, seed=seed)
            run = flow(start, field, horizon, frames=25)
            x = run.points
            apart = np.linalg.norm(x[:, :, None] - x[:, None], axis=3)
            pairs = apart[:, *np.triu_indices(tokens, 1)]
            smallest = min(smallest, float((np.diff(pairs, axis=0) / pairs[1:]).min()))
            ratio = min(ratio, float((pairs[-1] / pairs[0]).min()))
            gradient = max(gradient, _gradient_error(start, field))
        curves[f"nearest pair, d = {dim}"] = (run.times, pairs.min(axis=1))
        curves[f"farthest pair, d = {dim}"] = (run.times, pairs.max(axis=1))
    rows = [
        holds(
            "‖x_i − x_j‖ increases for all pairs",
            "Lemma in the proof of Theorem 1 (distances)",
            smallest > -1e-9,
            "never falls (relative change above −1e−9)",
            f"smallest change {smallest:.1e}",
            f"dimensions {dims}, {draws} prompts each",
        ),
        judge(
            "ẋ_i = ∇ log Σ_j e^⟨z,x_j⟩ at x_i (largest difference from central differences)",
            "proof of that Lemma",
            0.0,
            gradient,
            absolute=1e-6,
        ),
        holds(
            "no consensus in R^d: even the nearest pair drifts apart",
            "section on what can be expected",
            ratio > 1,
            "last distance / first > 1",
            f"{ratio:.2f} at least",
        ),
    ]
    figure = plot_lines(
        curves,
        "time t (SA clock)",
        "distance of two tokens x",
        f"Nearest and farthest pair of {tokens} tokens with Q = K = V = I.",
        log="y",
        lines=True,
    )
    return Finding(rows, {"distances": figure})


def _gradient_error(start: Points, field: SelfAttention) -> float:
    x, step = np.asarray(start.points), 1e-5
    f = lambda z: np.log(np.exp(z @ x.T).sum(axis=1))
    slopes = [(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(x.shape[1])]
    return float(np.abs(np.stack(slopes, axis=1) - np.asarray(field.velocity(start))).max())
