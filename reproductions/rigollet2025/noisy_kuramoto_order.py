"""Order of noisy tokens at β = 0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ive

from metastable.core.verdict import judge
from metastable.fields import Noise, SelfAttention
from metastable.flows import Geodesic, flow
from metastable.measures import uniform, von_mises_fisher
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

ENTRY = Entry(
    title="Order of noisy tokens at β = 0",
    places=["arXiv:2512.01868: form of the noise √(2/κ)dW, link to Kuramoto oscillators"],
    claim=(
        "At β = 0 attention is the Kuramoto model on the sphere: with noise √(2/κ)dW tokens order "
        "from κ = d on, with a mean of length r = A_d(κr), A_d the ratio of Bessel functions."
    ),
    method=(
        "Tokens with noise on spheres of several dimensions: the mean length in the steady state "
        "above the threshold, and n r² below it against 1/(1 − κ/d)."
    ),
    subject="noise",
    basis="report",
    limits=(
        "Steady states reached from an ordered start above and a uniform one below; not close to "
        "the threshold. The fluctuation law below it is derived here."
    ),
    planted="Noise.kappa * 1.25",
    settings={"cases": [[2, 4.0], [3, 6.0], [8, 14.0]], "low": [[2, 1.0], [3, 1.5]],
              "tokens": 800, "runs": 8, "step": 0.02},
    fast={"cases": [[3, 6.0]], "low": [[3, 1.5]], "tokens": 300, "runs": 5, "step": 0.04},
)  # fmt: skip


def noisy_kuramoto_order(*, cases: list, low: list, tokens: int, runs: int, step: float) -> Finding:
    """One number a run, its mean over late frames: runs are independent, frames are not."""
    rows, curves, theory = [], {}, {}
    for dim, kappa in cases:
        expected = _order(dim, kappa)
        late, path = [], None
        for seed in range(runs):
            start = von_mises_fisher(tokens, np.eye(dim)[0], kappa * expected, seed)
            run = _run(start, kappa, 8.0, step, seed)
            length = np.linalg.norm(run.points.mean(axis=1), axis=1)
            path = (run.times, length) if path is None else path
            late.append(float(length[run.times > 2].mean()))
        error = float(np.std(late, ddof=1)) / math.sqrt(runs)
        # Order 1/n and order step, each of size one, beside four standard errors.
        allowed = 4 * error + 1 / tokens + step / 4
        rows.append(judge(f"d = {dim}, κ = {kappa:g}: length of the mean", "derived", expected,
                          float(np.mean(late)), absolute=allowed))  # fmt: skip
        assert path is not None
        curves[f"d = {dim}, κ = {kappa:g}"] = path
        theory[f"r = A_d(κr), d = {dim}"] = (path[0], np.full(path[0].size, expected))
    for dim, kappa in low:
        late = []
        for seed in range(runs):
            run = _run(uniform(tokens, dim, seed), kappa, 24.0, step, seed)
            square = np.square(run.points.mean(axis=1)).sum(axis=1)
            late.append(float(tokens * square[run.times > 3].mean()))
        error = float(np.std(late, ddof=1)) / math.sqrt(runs)
        rows.append(judge(f"d = {dim}, κ = {kappa:g}: mean of n r²", "derived",
                          1 / (1 - kappa / dim), float(np.mean(late)),
                          absolute=4 * error))  # fmt: skip
    figure = plot_lines(
        curves,
        "time t (SA clock)",
        "length of the mean",
        f"{tokens} tokens at β = 0 with noise.",
        theory=theory,
        lines=True,
    )
    return Finding(rows, {"order": figure})


def _run(start, kappa: float, horizon: float, step: float, seed: int):
    field = SelfAttention(0.0) + Noise(kappa=kappa)
    return flow(start, field, horizon, stepper=Geodesic(step=step), frames=81, seed=seed)


def _order(dim: int, kappa: float) -> float:
    nu = dim / 2
    gap = lambda r: ive(nu, kappa * r) / ive(nu - 1, kappa * r) - r
    root: Any = brentq(gap, 1e-3, 1.0)
    return float(root)
