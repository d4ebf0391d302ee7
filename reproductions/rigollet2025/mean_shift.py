"""Attention is mean shift."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import softmax

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Fixed, flow
from metastable.measures import planted
from metastable.observe import kernel_modes, log_potential
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Attention is mean shift",
    places=["arXiv:2512.01868, abstract and introduction: link to mean-shift clustering"],
    claim=(
        "The velocity of softmax attention is the gradient of the logarithm of a kernel density, "
        "so that tokens seek its modes as mean shift does."
    ),
    method=(
        "Displacement of tokens over a tiny step against differences of log Z/β; mean shift "
        "programmed on its own, on fixed data, against the modes the library finds."
    ),
    subject="clusters",
    basis="report",
    limits="Kernel e^{β⟨x,y⟩} on the sphere, data in bumps; blurring mean shift is not run.",
    planted="SelfAttention.beta * 1.05",
    settings={"dims": [2, 3, 8, 32], "tokens": 120, "bumps": 5, "beta": 12.0},
    fast={"dims": [3, 8], "tokens": 60},
)


def mean_shift(*, dims: list[int], tokens: int, bumps: int, beta: float) -> Finding:
    """Differences are taken along random great circles through each token."""
    rows, climbs = [], {}
    for dim in dims:
        start = planted(tokens, dim, bumps, concentration=3.0 * dim, seed=1)
        x, step = np.asarray(start.points), 1e-6
        run = flow(start, SelfAttention(beta), step, stepper=Fixed(step=step), frames=2)
        velocity = (run.points[-1] - x) / step
        aside = np.random.default_rng(2).normal(size=x.shape)
        aside -= np.sum(aside * x, axis=1, keepdims=True) * x
        aside /= np.linalg.norm(aside, axis=1, keepdims=True)
        h = 1e-4
        up, down = (
            np.asarray(log_potential(start, beta, at=np.cos(h) * x + sign * np.sin(h) * aside))
            for sign in (1, -1)
        )
        slope = (up - down) / (2 * h * beta)
        off = float(np.abs(np.sum(velocity * aside, axis=1) - slope).max())
        rows.append(judge(f"d = {dim}: velocity is ∇ log Z/β, off by", "introduction", 0.0, off,
                          absolute=1e-5))  # fmt: skip
        z, heights = x.copy(), []
        for _ in range(4000):
            heights.append(np.log(np.exp(beta * (z @ x.T - 1)).mean(axis=1)))
            z = softmax(beta * z @ x.T, axis=1) @ x
            z /= np.linalg.norm(z, axis=1, keepdims=True)
        ends = np.unique(np.round(z, 3), axis=0)
        modes = int(kernel_modes(start, beta))
        rows.append(holds(f"d = {dim}: where mean shift ends is a mode", "introduction",
                          len(ends) == modes, modes, len(ends)))  # fmt: skip
        lowest: Any = np.min(np.diff(np.array(heights), axis=0))
        fall = float(lowest)
        rows.append(judge(f"d = {dim}: mean shift never goes down, by more than", "introduction",
                          0.0, min(fall, 0.0), absolute=1e-12))  # fmt: skip
        climbs[f"d = {dim}"] = (np.arange(1, 101), np.mean(heights[:100], axis=1))
    figure = plot_lines(climbs, "steps of mean shift", "mean of log Z − β",
                        f"{tokens} points in {bumps} bumps, β = {beta:g}.", log="x",
                        lines=True)  # fmt: skip
    return Finding(rows, {"climb": figure})
