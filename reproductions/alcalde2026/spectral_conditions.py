"""A sign of the spectrum decides between blow-up and decay."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Gaussian
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="A sign of the spectrum decides between blow-up and decay",
    places=["arXiv:2606.07600, abstract"],
    claim=(
        "With constant weights explicit conditions on spectra lead to a blow-up of the covariance "
        "in finite time. Here: V symmetric positive definite and A + Aᵀ ≥ 2a > 0, and the blow-up "
        "comes before ‖V⁻¹‖²_F/(2a tr V⁻¹Σ_0); with A + Aᵀ < 0 there is none."
    ),
    method=(
        "With τ = tr V⁻¹Σ one has τ̇ = tr Σ(A+Aᵀ)Σ ≥ 2aτ²/‖V⁻¹‖²_F, which bounds the time of the "
        "pole. Random V > 0 and A of both signs: all poles before the bound, τ never rising and "
        "no pole for the other sign."
    ),
    subject="Gaussian",
    basis="derived",
    limits=(
        "The paper's own conditions, which allow an affine layer, were not read. Bounds are far "
        "from sharp: only their truth is tested."
    ),
    planted="SelfAttention.value * -1.0",
    settings={"dim": 3, "draws": 40},
    fast={"draws": 10},
)


def spectral_conditions(*, dim: int, draws: int) -> Finding:
    """Poles before the bound for A + Aᵀ > 0, none for A + Aᵀ < 0."""
    shares, rising, finite, curves = [], [], [], {}
    for seed in range(draws):
        random = np.random.default_rng(seed)
        roots = random.standard_normal((3, dim, dim)) / np.sqrt(dim)
        V, S, cov = (r @ r.T + 0.2 * np.eye(dim) for r in roots)
        skew = random.standard_normal((dim, dim))
        A = S + (skew - skew.T) / 2
        weigh = np.linalg.inv(V)
        size = np.trace(weigh @ cov)
        bound = np.linalg.norm(weigh) ** 2 / (2 * np.linalg.eigvalsh(S)[0] * size)
        start = Gaussian(np.zeros(dim), cov)
        up = flow(start, SelfAttention(1.0, query=A, value=V), bound, frames=41)
        shares.append(up.statistics.get("blow_up_time", np.inf) / bound)
        down = flow(start, SelfAttention(1.0, query=-A, value=V), 20.0, frames=41)
        trace = np.array([np.trace(weigh @ np.asarray(f.cov)) for f in down.frames])
        rising.append(np.diff(trace).max(initial=-1.0))
        finite.append(down.outcome.name == "done")
        if seed < 4:
            curves[f"A + Aᵀ > 0, {seed + 1}"] = (
                up.times, [np.trace(weigh @ np.asarray(f.cov)) for f in up.frames],
            )  # fmt: skip
            short = down.times <= 4.0
            curves[f"A + Aᵀ < 0, {seed + 1}"] = (down.times[short], trace[short])
    rows = [
        holds("A + Aᵀ > 0: poles before the bound", "abstract; bound derived",
              max(shares) <= 1, f"{draws} of {draws}",
              f"{sum(s <= 1 for s in shares)} of {draws}, latest at {max(shares):.2g} of it"),
        holds("A + Aᵀ < 0: tr V⁻¹Σ never rises, and there is no pole up to t = 20", "derived",
              max(rising) < 1e-9 and all(finite), "falls, done",
              f"largest step {max(rising):.1e}, {sum(finite)} of {draws} done"),
    ]  # fmt: skip
    figure = plot_lines(
        curves, Axis("time t", clock="SA"), "tr $V^{-1}Σ$",
        "Random V > 0 and A: above, poles; below, decay.", log="y", lines=True,
    )  # fmt: skip
    return Finding(rows, {"traces": figure})
