"""The rank of a Gaussian never changes."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.fields import Schedule, SelfAttention
from metastable.flows import flow
from metastable.measures import Gaussian, Points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="The rank of a Gaussian never changes",
    places=["arXiv:2606.07600, abstract"],
    claim=(
        "The rank of the covariance is an invariant of the dynamics, whatever the weights do in "
        "time; finitely many tokens have no such invariant."
    ),
    method=(
        "A Gaussian of rank 2 in R⁴ under attention whose random matrices change abruptly with "
        "depth: variances below the second, distance from the image under the linear flow of "
        "SciPy. Then as many tokens of the same plane under the same weights."
    ),
    subject="Gaussian",
    basis="report",
    limits=(
        "Softmax attention of one head, no feed-forward layer. The row on tokens is ours: their "
        "velocity is not affine, and a random V takes them out of their plane."
    ),
    planted="flow.horizon * 1.1",
    settings={"dim": 4, "rank": 2, "layers": 6, "horizon": 1.2, "tokens": 60, "seeds": 3},
    fast={"seeds": 1},
)


def rank_invariance(
    *, dim: int, rank: int, layers: int, horizon: float, tokens: int, seeds: int
) -> Finding:
    """Rank and range of a singular Gaussian under weights that change with depth."""
    leak = apart = 0.0
    opened, curves = [], {}
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        Q, K, V = random.standard_normal((3, layers, dim, dim)) / np.sqrt(dim)
        factor = random.standard_normal((dim, rank)) * 0.5
        switches = [horizon * (k + 1) / layers for k in range(layers - 1)]
        field = Schedule.piecewise(
            [SelfAttention(1.0, query=q, key=k, value=v) for q, k, v in zip(Q, K, V, strict=True)],
            switches,
        )
        # A square factor: nothing in its shape keeps the rank.
        start = Gaussian(np.zeros(dim), factor @ factor.T)
        run = flow(start, field, horizon, frames=layers + 1)
        values = np.array([frame.eigenvalues for frame in run.frames])
        leak = max(leak, (values[:, dim - rank - 1] / values[:, -1]).max())
        exact = factor
        for q, k, v in zip(Q, K, V, strict=True):
            move = lambda t, y, q=q, k=k, v=v: _moved(y.reshape(dim, rank), k.T @ q, v).ravel()
            length = (0, horizon / layers)
            exact = solve_ivp(move, length, exact.ravel(), rtol=1e-11, atol=1e-13).y[:, -1]
            exact = exact.reshape(dim, rank)
        goal = exact @ exact.T
        apart = max(apart, np.linalg.norm(run.frames[-1].cov - goal) / np.linalg.norm(goal))
        # Not Gaussian: the same plane with masses of an asymmetric law.
        drawn = random.exponential(1.0, (tokens, rank)) - 1.0
        cloud = flow(Points(drawn @ factor.T, on_sphere=False), field, horizon, frames=layers + 1)
        spread = np.array([np.linalg.svd(x - x.mean(0), compute_uv=False) for x in cloud.points])
        opened.append((spread[-1, rank] / spread[-1, 0]) ** 2)
        if seed == 0:
            for k in range(dim):
                curves[f"Gaussian, variance {k + 1}"] = (run.times, values[:, -1 - k] + 1e-18)
            shares = spread[:, rank] ** 2 / tokens
            curves[f"tokens, variance {rank + 1}"] = (cloud.times, shares + 1e-18)
    rows = [
        judge(f"variance {rank + 1} over the largest, at any time", "abstract", 0.0, float(leak),
              absolute=1e-12),
        judge("covariance at the end against SciPy's linear flow, relative", "derived", 0.0,
              float(apart), absolute=1e-7),
        holds(f"{tokens} tokens leave their plane: variance {rank + 1} over the largest at the end",
              "derived", min(opened) > 1e-6, "> 1e-6", f"{min(opened):.1e}"),
    ]  # fmt: skip
    figure = plot_lines(
        curves,
        Axis("time t", clock="SA"),
        "variance",
        "Variances of a Gaussian of rank 2 in R⁴ under weights that jump with depth (1e-18 added), "
        "and the third one of tokens that started in the same plane.",
        log="y",
        lines=True,
    )
    return Finding(rows, {"variances": figure})


def _moved(factor: np.ndarray, form: np.ndarray, value: np.ndarray) -> np.ndarray:
    """VΣAL with Σ = LLᵀ."""
    return value @ factor @ (factor.T @ form @ factor)
