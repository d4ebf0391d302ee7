"""Softmax blows up, L2 and Sinkhorn only grow."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.fields import L2Attention, MultiHead, SelfAttention, SinkhornAttention
from metastable.flows import Trajectory, flow
from metastable.measures import Gaussian
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Softmax blows up, L2 and Sinkhorn only grow",
    places=["arXiv:2501.18322, numerical section", "public scripts, blow-up or divergence"],
    claim=(
        "With V = I and a positive definite symmetric part of KᵀQ the covariance becomes infinite "
        "in finite time under softmax and multi-head attention, while under L2 and Sinkhorn "
        "attention it diverges without ever becoming infinite."
    ),
    method=(
        "Random matrices with KᵀQ + QᵀK > 0. Time of the pole against the largest eigenvalue of "
        "Σ^{1/2}(A+Aᵀ)Σ^{1/2} (one head) and against SciPy (two heads); for the other two the "
        "late growth rate of log det Σ against 2 tr(K⁻¹Q) (L2) and 2d (Sinkhorn, A > 0)."
    ),
    subject="Gaussian",
    basis="code",
    limits=(
        "Dimension 2, centred. The growth rates are derived here from the limit Σ → ∞ of the "
        "equations, where L2 gives ẋ = K⁻¹Qx and Sinkhorn the orthogonal part of the optimal map; "
        "Sinkhorn is tested for symmetric A > 0 only."
    ),
    planted="SelfAttention.beta * 1.1",
    settings={"draws": 8, "horizon": 8.0},
    fast={"draws": 3},
)

NEARLY = 1 + 1e-12  # a number like 0, and not the identity


def blow_up_or_growth(*, draws: int, horizon: float) -> Finding:
    """Poles of two kinds of attention, and exponential rates of two others."""
    one, two, l2, sinkhorn, finite = [], [], [], [], []
    curves = {}
    for seed in range(draws):
        random = np.random.default_rng(seed + 10)
        # KᵀQ + QᵀK > 0 for both heads.
        K, Q, K2, Q2 = (np.eye(2) + 0.12 * random.standard_normal((2, 2)) for _ in range(4))
        A, A2 = K.T @ Q, K2.T @ Q2
        root = random.standard_normal((2, 2))
        cov = 0.3 * root @ root.T + np.eye(2)
        start = Gaussian(np.zeros(2), cov)
        values, vectors = np.linalg.eigh(cov)
        half = vectors * np.sqrt(values) @ vectors.T
        pole = 1 / np.linalg.eigvalsh(half @ (A + A.T) @ half)[-1]
        head, other = SelfAttention(1.0, Q, K), SelfAttention(1.0, Q2, K2)
        # A second head that sees nothing keeps the compiled solver.
        blind = SelfAttention(1.0, Q2, 1e-30 * K2)
        run = flow(start, MultiHead([head, blind]), 1.5 * pole, frames=40)
        one.append(run.statistics.get("blow_up_time", np.inf) / pole - 1)
        both = flow(start, MultiHead([head, other]), 1.5 * pole, frames=40)
        seen = both.statistics.get("blow_up_time", np.inf)
        two.append(seen / _pole(cov, A + A2) - 1)
        # One of two heads is switched off, for the same reason.
        pair = [L2Attention(1.0, Q, K), SinkhornAttention(1.0, (A + A.T) / 2)]
        far = flow(start, MultiHead(pair, [NEARLY, 0.0]), horizon, frames=40)
        l2.append(_rate(far) / (2 * np.trace(np.linalg.solve(K, Q))) - 1)
        near = flow(start, MultiHead(pair, [0.0, NEARLY]), horizon, frames=40)
        sinkhorn.append(_rate(near) / 4 - 1)
        finite.append(far.outcome.name == near.outcome.name == "done")
        if seed == 0:
            for name, r in (("softmax", run), ("L2", far), ("Sinkhorn", near)):
                short = r.times < 1.5 * pole + 1.0
                curves[name] = (r.times[short], [np.trace(f.cov) for f in r.frames][: short.sum()])
    worst = lambda errors: float(np.max(np.abs(errors)))
    rows = [
        judge("softmax: time of the pole over 1/λ_max − 1, worst", "scripts; derived", 0.0,
              worst(one), absolute=1e-6),
        judge("two heads: the same over the pole of A_1 + A_2 by SciPy", "scripts; derived", 0.0,
              worst(two), absolute=1e-4),
        holds(f"L2 and Sinkhorn are finite up to t = {horizon:g}", "scripts", all(finite),
              f"{draws} of {draws}", f"{sum(finite)} of {draws}"),
        judge("L2: growth rate of the volume over 2 tr(K⁻¹Q) − 1, worst", "derived", 0.0,
              worst(l2), absolute=0.02),
        judge("Sinkhorn: growth rate of the volume over 2d − 1, worst", "derived", 0.0,
              worst(sinkhorn), absolute=0.02),
    ]  # fmt: skip
    figure = plot_lines(
        curves,
        Axis("time t", clock="SA"),
        "trace of Σ",
        "One start and one pair of matrices: softmax becomes infinite, the others do not.",
        log="y",
        lines=True,
    )
    return Finding(rows, {"traces": figure})


def _rate(run: Trajectory) -> float:
    """Growth rate of log det Σ over the last two fifths of a run."""
    late = run.times > 0.6 * run.times[-1]
    volume = np.array([np.sum(np.log(frame.eigenvalues)) for frame in run.frames])
    return float(np.polyfit(run.times[late], volume[late], 1)[0])


def _pole(cov: np.ndarray, form: np.ndarray) -> float:
    """When Σ̇ = ΣBΣ + ΣBᵀΣ becomes infinite: Σ⁻¹ loses rank; found on Σ⁻¹ by SciPy."""
    flat = lambda t, y: -(form + form.T).ravel()
    lost = lambda t, y: np.linalg.eigvalsh(y.reshape(2, 2))[0]
    lost.terminal = True
    start = np.linalg.inv(cov).ravel()
    return solve_ivp(flat, (0, 1e3), start, events=lost, rtol=1e-10, max_step=0.1).t[-1]
