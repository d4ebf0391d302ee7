"""Theorems 7 and 8 for other matrices."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import orthogonal, uniform
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.equiangular import equiangular_cosine, equiangular_rate

ENTRY = Entry(
    title="Theorems 7 and 8 for other matrices",
    places=["Problem 10", "Theorem 7", "Theorem 8"],
    claim="Can Theorems 7 and 8 be generalised to other matrices Q, K, V?",
    method=(
        "Test a closed equation for matrices that commute with permutations of the orthogonal "
        "frame, the equiangular curve at the temperature β tr(QᵀK)/d for random QᵀK in "
        "growing dimension, and a generic V."
    ),
    subject="rates",
    basis="text",
    limits=(
        "Eight tokens at β = 3; random QᵀK = 0.6 I plus noise up to d = 1024 with V = I, and "
        "one generic V."
    ),
    planted="SelfAttention.beta * 1.3",
    settings={"tokens": 8, "dims": [64, 256, 1024], "beta": 3.0, "tilt": 0.6, "horizon": 5.0},
    fast={"dims": [48, 384]},
)


def general_matrices(
    *, tokens: int, dims: list[int], beta: float, tilt: float, horizon: float
) -> Finding:
    """Equiangular tokens for other Q, K, V: an exact case, a limit d → ∞, and where it ends."""
    n = tokens
    ones = np.full((n, n), 1 / n)
    a, b, c, e = 0.8, 0.5, 1.2, 0.6
    exact = SelfAttention(beta, a * np.eye(n) + b * ones, None, c * np.eye(n) + e * ones)
    run = flow(orthogonal(n, n), exact, horizon, frames=31)
    gamma = np.array([_cosines(x) for x in run.points])  # (time, pair)
    # QᵀK = aI + bJ and V = cI + eJ commute with permutations of the frame: tokens stay
    # equiangular, b drops out of the softmax, and s² = ⟨x_i,Σx_j⟩ = 1 + (n−1)γ. Derived here.
    speed = lambda t, g: (
        c * equiangular_rate(g, a * beta, n) + 2 * e / n * (1 - g) * (1 + (n - 1) * g)
    )
    solved = solve_ivp(speed, (0, horizon), [0.0], t_eval=run.times, rtol=1e-10, atol=1e-12).y[0]
    off, curves = [], {}
    for dim in dims:
        random = np.random.default_rng(dim)
        key = tilt * np.eye(dim) + random.normal(size=(dim, dim)) / np.sqrt(dim)
        field = SelfAttention(beta, None, key)
        seen = flow(uniform(n, dim, seed=0), field, horizon, frames=31)
        cosines = np.array([_cosines(x) for x in seen.points])
        effective = beta * np.trace(key) / dim
        off.append(np.abs(cosines - equiangular_cosine(seen.times, effective, n)[:, None]).max())
        curves[f"random QᵀK, d = {dim}"] = (seen.times, cosines.mean(axis=1))
    bent = np.eye(n) + np.random.default_rng(1).normal(size=(n, n)) / np.sqrt(n)
    turned = flow(orthogonal(n, n), SelfAttention(beta, bent, None, bent), horizon, frames=31)
    mean = np.array([_cosines(x).mean() for x in turned.points])
    curves["generic V, orthogonal start"] = (turned.times, mean)
    plain = equiangular_cosine(turned.times, beta, n)
    rows = [
        judge(
            "Theorem 7 for QᵀK = aI + bJ, V = cI + eJ (J the mean over the frame): one cosine, "
            "γ̇ = c·(rate at aβ) + (2e/n)(1−γ)(1+(n−1)γ); largest difference",
            "Problem 10; derived here",
            0.0,
            float(np.abs(gamma - solved[:, None]).max()),
            absolute=1e-6,
        ),
        holds(
            "Theorem 8 for V = I and any QᵀK: γ at the temperature β·tr(QᵀK)/d; largest difference "
            f"for d = {dims}, in units of √(log d/d)",
            "Problem 10; derived here",
            max(off / np.sqrt(np.log(dims) / np.array(dims))) < 4 and off[-1] < off[0],
            "bounded, and smaller for larger d",
            ", ".join(f"{one:.3f}" for one in off / np.sqrt(np.log(dims) / np.array(dims))),
            "differences " + ", ".join(f"{one:.3f}" for one in off),
        ),
        holds(
            "for a generic V one scalar equation is not enough",
            "Problem 10",
            np.abs(mean - plain).max() > 0.05,
            "differs from γ_β",
            f"by up to {np.abs(mean - plain).max():.2f}",
        ),
    ]
    figure = plot_lines(
        curves,
        "time t (SA clock)",
        "mean cosine of two tokens",
        f"{n} random tokens, β = {beta:g}, with QᵀK = {tilt:g}·I + noise: the closed form at the "
        "temperature β·tr(QᵀK)/d, and a V for which it does not hold.",
        theory={
            "γ at β·tr(QᵀK)/d": (run.times, equiangular_cosine(run.times, tilt * beta, n)),
            "γ at β": (run.times, plain),
        },
    )
    return Finding(rows, {"cosines": figure})


def _cosines(x: np.ndarray) -> np.ndarray:
    return (x @ x.T)[np.triu_indices(len(x), 1)]
