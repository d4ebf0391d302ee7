"""SA is a gradient flow in a weighted metric."""

from __future__ import annotations

import numpy as np

from metastable.core.numerics import jax
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.geometry.sphere import project
from metastable.measures import Points, uniform
from metastable.observe import energy
from metastable.report.figures.plain import plot_bars
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="SA is a gradient flow in a weighted metric",
    places=["equations 38 to 40"],
    claim=(
        "If V = QᵀK is symmetric, softmax attention is the gradient flow of the energy in the "
        "metric that weighs each token by its partition sum."
    ),
    method=(
        "Automatic differentiation of the energy with a random symmetric matrix, divided by "
        "each token's partition sum, against the velocity."
    ),
    subject="existence",
    basis="text",
    limits=(
        "20 tokens in d = 4 at three β, one random symmetric matrix, at one start: an identity,"
        " no flow."
    ),
    implies=("energy_monotone",),
    planted="SelfAttention.beta * 1.01",
    settings={"tokens": 20, "dim": 4, "betas": [0.5, 2.0, 6.0]},
)


def weighted_gradient(*, tokens: int, dim: int, betas: list[float]) -> Finding:
    """With V = QᵀK symmetric, SA is the gradient of the energy in the metric weighted by Z."""
    start, random = uniform(tokens, dim, seed=7), np.random.default_rng(7)
    root = random.normal(size=(dim, dim))
    symmetric = (root + root.T) / np.linalg.norm(root + root.T, 2)
    worst, plain = [], []
    for beta in betas:
        slope = jax.grad(lambda x, b=beta: energy(Points(x), b, symmetric))(start.points)
        x = np.asarray(start.points)
        mass = np.exp(beta * x @ symmetric @ x.T).sum(axis=1)  # Z_i, a sum as in (38)
        # (39) is n² times our energy, so that its gradient in the weighted metric is n²∂E/Z_i.
        gradient = np.asarray(project(start.points, slope)) * tokens**2
        v = np.asarray(SelfAttention(beta, query=symmetric, value=symmetric).velocity(start))
        worst.append(float(np.abs(v - gradient / mass[:, None]).max() / np.abs(v).max()))
        scale = np.vdot(gradient, v) / np.vdot(gradient, gradient)
        plain.append(float(np.abs(v - scale * gradient).max() / np.abs(v).max()))
    rows = [
        judge("SA velocity minus the gradient in the weighted metric, relative",
              "equations 38 to 40", 0.0, max(worst), absolute=1e-12),
        holds("without the weights it is not proportional to the gradient", "equation 38",
              min(plain) > 0.01, "differs", min(plain)),
    ]  # fmt: skip
    figure = plot_bars(
        [f"β = {beta:g}" for beta in betas],
        {"metric weighted by Z": [max(v, 1e-17) for v in worst], "plain metric": plain},
        "inverse temperature",
        "relative difference",
        f"SA velocity against the gradient of E_β, V = QᵀK symmetric, {tokens} tokens, d = {dim}.",
        log=True,
    )
    return Finding(rows, {"difference": figure})
