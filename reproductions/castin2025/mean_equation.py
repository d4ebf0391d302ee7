"""The mean follows ṁ = V(I + ΣA)m."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

from ._gaussian_tokens import draw, moments, quadrature_tokens

ENTRY = Entry(
    title="The mean follows ṁ = V(I + ΣA)m",
    places=["arXiv:2501.18322, Gaussian solutions under softmax attention"],
    claim=(
        "Mean and covariance of a Gaussian under softmax attention solve the closed system "
        "ṁ = V(I + ΣA)m, Σ̇ = VΣAΣ + (VΣAΣ)ᵀ for any Q, K, V."
    ),
    method=(
        "Run genuine attention among the weighted nodes of a quadrature rule of a Gaussian with a "
        "mean, for random matrices that are not symmetric, and compare the moments of the tokens "
        "in time with SciPy's solution of the system. The scripts leave the mean out."
    ),
    subject="Gaussian",
    basis="report",
    limits=(
        "Dimension 2 and times well before a pole, while the rule's order suffices. The "
        "equation of the mean was read in a report on the paper, not in it."
    ),
    implies=("gaussian_velocities",),
    planted="SelfAttention.value * 1.1",
    settings={"order": 26, "seeds": 4, "horizon": 1.0, "size": 0.6},
    fast={"order": 18, "seeds": 2},
)


def mean_equation(*, order: int, seeds: int, horizon: float, size: float) -> Finding:
    """Moments of tokens under attention against the closed system."""
    mean_off = cov_off = 0.0
    curves, theory = {}, {}
    for seed in range(seeds):
        Q, K, V = draw(2, seed + 20, size)
        mean, cov, A = np.array([0.6, -0.4]), np.array([[0.5, 0.1], [0.1, 0.3]]), K.T @ Q

        def velocity(_: float, state: np.ndarray, A=A, V=V) -> np.ndarray:
            m, S = state[:2], state[2:].reshape(2, 2)
            moved = V @ S @ A @ S
            return np.concatenate([V @ (m + S @ A @ m), (moved + moved.T).ravel()])

        start = quadrature_tokens(mean, cov, order)
        run = flow(start, SelfAttention(1.0, query=Q, key=K, value=V), horizon, frames=11)
        found = [moments(frame.points, frame.weights) for frame in run.frames]
        exact = solve_ivp(velocity, (0, horizon), np.concatenate([mean, cov.ravel()]),
                          t_eval=run.times, rtol=1e-10, atol=1e-12).y.T  # fmt: skip
        means, covs = np.array([m for m, _ in found]), np.array([S.ravel() for _, S in found])
        mean_off = max(mean_off, np.abs(means - exact[:, :2]).max())
        cov_off = max(cov_off, np.abs(covs - exact[:, 2:]).max())
        curves[f"matrices {seed + 1}"] = (means[:, 0], means[:, 1])
        theory[f"system {seed + 1}"] = (exact[:, 0], exact[:, 1])
    rows = [
        judge("mean of the tokens against the system, largest error", "report", 0.0,
              float(mean_off), absolute=1e-5),
        judge("covariance of the tokens against the system, largest error", "scripts", 0.0,
              float(cov_off), absolute=1e-5),
    ]  # fmt: skip
    figure = plot_lines(
        curves, Axis("$m_1$"), Axis("$m_2$"),
        f"Path of the mean of {order}² quadrature tokens up to t = {horizon:g} (SA clock); dashed: "
        "the closed system.", theory=theory,
    )  # fmt: skip
    return Finding(rows, {"means": figure})
