"""How fast orthogonal tokens start under each normalisation."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import Block, SelfAttention
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from reproductions.karagodin2025._schemes import PLACEMENTS, stream

ENTRY = Entry(
    title="How fast orthogonal tokens start",
    places=["Theorem 4.1", "table of section 4.1"],
    claim=(
        "From orthonormal directions the cosine of tokens j and k starts with speed "
        "(1/s_j + 1/s_k)/(e^β + n − 1), s the factor of the scheme, for all six schemes."
    ),
    method=(
        "Velocities of residual streams with two different radii at time 0: the derivative of "
        "the cosine of a short and a long token, of two short and of two long ones."
    ),
    subject="normalisation",
    basis="report",
    limits=(
        "Q = K = V = I; the values of s at the start are ours for Peri and nGPT, "
        "where ‖A‖ = √(e^(2β)+n−1)/(e^β+n−1)."
    ),
    planted="SelfAttention.beta * 1.1",
    settings={"sizes": [4, 8, 16, 32, 64, 128], "betas": [0.5, 1.0, 3.0], "radii": [0.5, 4.0],
              "alpha": 0.4},
    fast={"sizes": [4, 32], "betas": [1.0]},
)  # fmt: skip


def initial_speeds(
    *, sizes: list[int], betas: list[float], radii: list[float], alpha: float
) -> Finding:
    """Speeds at time 0 against the formula, tokens of both radii mixed."""
    rows, seen, laws = [], {}, {}
    for scheme, placement in PLACEMENTS.items():
        speeds, expected = [], []
        for beta in betas:
            field = Block(SelfAttention(beta), placement(alpha))
            worst, last = 0.0, []
            for n in sizes:
                r = np.where(np.arange(n) % 2 == 0, *radii)
                v = np.asarray(field.velocity(stream(np.eye(n), r[:, None])))
                turn = v / r[:, None]  # its part across the token is the velocity of θ
                factor = _factor(scheme, r, beta, alpha)
                for j, k in ((0, 2), (0, 1), (1, 3)):
                    law = (1 / factor[j] + 1 / factor[k]) / (math.exp(beta) + n - 1)
                    speed = float(turn[j, k] + turn[k, j])
                    worst = max(worst, abs(speed / law - 1))
                    last = [speed, law]
                if beta == betas[0]:
                    speeds.append(last[0])
                    expected.append(last[1])
            claim = f"{scheme}: largest relative error of the speed, β = {beta:g}"
            rows.append(judge(claim, "Theorem 4.1", 0.0, worst, absolute=1e-10))
        seen[scheme] = (sizes, speeds)
        laws[f"formula, {scheme}"] = (sizes, expected)
    figure = plot_lines(
        seen, "tokens n", "speed of the cosine at time 0 (SA clock)",
        f"Orthogonal tokens of radius {radii[1]:g}, β = {betas[0]:g}, α = {alpha:g}.",
        theory=laws, log="xy",
    )  # fmt: skip
    return Finding(rows, {"speeds": figure})


def _factor(scheme: str, radius: np.ndarray, beta: float, alpha: float) -> np.ndarray:
    """The factor s of each token at time 0."""
    n, ones = len(radius), np.ones(len(radius))
    size = math.sqrt(math.exp(2 * beta) + n - 1) / (math.exp(beta) + n - 1)
    return {"Pre": radius, "Peri": radius * size, "nGPT": ones * size / alpha}.get(scheme, ones)
