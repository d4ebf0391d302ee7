"""Layers with bounded random values tend to one diffusion."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.random_depth import PairDiffusion
from reproductions._random_depth import cosines, expected_later, mean_with_error, pair_at
from reproductions.fedorov2026._signs import sign_layers

ENTRY = Entry(
    title="Layers with bounded random values tend to one diffusion",
    places=["arXiv:2601.21942, Theorem 1, as a review states it"],
    claim=(
        "With independent centred bounded entries of the value matrix, residual branches of size "
        "1/√L and a norm for every token, L layers tend in law to tokens under a common noise."
    ),
    method=(
        "Networks whose value matrices have entries ±1; means of ρ and ρ² of two tokens at depth "
        "L, extrapolated to 1/L = 0, against Kolmogorov's equation of the limit."
    ),
    subject="random depth",
    basis="report",
    limits=(
        "Two tokens, Q = K = I, signs ±1 only; moments at one time, not the law of the path. The "
        "theorem was read in a review; constants of its rate are not compared."
    ),
    planted="sign_layers.beta * 1.5",
    settings={"dim": 4, "beta": 1.0, "rho": -0.3, "horizon": 0.5, "depths": [8, 16, 32, 64],
              "samples": 100000},
    fast={"samples": 20000},
)  # fmt: skip


def bounded_values(
    *, dim: int, beta: float, rho: float, horizon: float, depths: list[int], samples: int
) -> Finding:
    """E ρ and E ρ² after L layers of time T/L each, as a + b/L + c/L², at 1/L = 0."""
    pair, start = PairDiffusion(beta, dim), math.atanh(rho)
    rows, series = [], []
    found = [
        cosines(sign_layers(pair_at(rho, dim), beta, depth, horizon, samples, seed=depth))
        for depth in depths
    ]
    inverse = 1 / np.array(depths, float)
    for group, power in enumerate((1, 2)):
        exact = expected_later(
            pair.drift_of_y, pair.variance_of_y, lambda y, p=power: np.tanh(y) ** p, start, horizon
        )[0]
        means, errors = np.array([mean_with_error(x**power) for x in found]).T
        # Weighted least squares: the intercept is linear in the means, with known errors.
        design = np.vander(inverse, 3, increasing=True) / errors[:, None]
        weights = np.linalg.pinv(design)[0]
        limit, error = float(weights @ (means / errors)), float(np.linalg.norm(weights))
        name = "E ρ²" if power == 2 else "E ρ"
        claim = f"{name} at time {horizon:g}, extrapolated in the number of layers"
        rows.append(judge(claim, "Kolmogorov's equation", exact, limit, absolute=4 * error))
        series += [
            Series(name, inverse, means, errors, style="points", group=group),
            Series(f"{name}, limit", [0, inverse.max()], [exact] * 2, role="theory", group=group),
        ]
    axes = Axis("1/L"), Axis("mean over networks")
    caption = f"Values of entries ±1, d = {dim}, β = {beta:g}, from ρ = {rho:g}, time {horizon:g}."
    return Finding(rows, {"depth": Lines(*axes, series, caption=caption)})
