"""How the overlap of two tokens moves at low temperature."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from reproductions._random_depth import expected_later, mean_with_error
from reproductions.koubbi2026._low_temperature import correction, overlap_later

ENTRY = Entry(
    title="How the overlap of two tokens moves at low temperature",
    places=["arXiv:2604.01978, Theorem large_beta_meta and Lemma delta_method, as formalised"],
    claim=(
        "At low temperature and for near uniform tokens, the overlap u of two tokens tends in the "
        "time d to du = −u(1−u²)dt + √2(1−u²)dB, which ends at ±1."
    ),
    method=(
        "Two tokens among uniform ones at β = ∞, where each sees Ax/‖Ax‖ with A the product of two "
        "Gaussian matrices; E u² at a fixed time in units of d, against Kolmogorov's equation."
    ),
    known="disagree",
    correction=(
        "What two tokens see has the overlap u + c(u³−u)/d with c = 1 for a product of two square "
        "Gaussian matrices (½ for one), of the same order as the drift: du = −(1+c)u(1−u²)dt + …. "
        "For the product artanh u is Brownian motion, and tokens neither meet nor part."
    ),
    subject="random depth",
    basis="report",
    limits=(
        "The statements were read in a public formalisation, not in the paper: A = WWᵀ′ with "
        "independent square factors, values of variance 1/d. β = ∞ at once, uniform tokens."
    ),
    planted="overlap_later.factors = 1",
    settings={"dim": 128, "rho": 0.5, "horizon": 2.0, "steps": 200, "samples": 20000,
              "draws": 200000},
    fast={"steps": 100, "samples": 4000, "dim": 96, "draws": 40000},
)  # fmt: skip


def slow_overlap(
    *, dim: int, rho: float, horizon: float, steps: int, samples: int, draws: int
) -> Finding:
    """E u² from two directions, and the coefficient c for one factor and for two."""
    u = overlap_later(dim, rho, horizon, steps, samples)
    mean, error = mean_with_error(u**2)
    # Layers of length h and dimension d: relative order h and 2/d, as for any of these flows.
    bias = 0.5 * (horizon / steps + 1 / dim)
    limit = {k: _second_moment(k, rho, [horizon])[0] for k in (1, 2)}
    claim = f"E u² at time {horizon:g} d, from u = {rho:g}"
    rows = [
        judge(f"{claim}: du = −u(1−u²)dt + √2(1−u²)dB", "Theorem large_beta_meta", limit[1],
              mean, absolute=4 * error + bias),
        judge(f"{claim}: with −2u(1−u²)dt", "derived", limit[2], mean, absolute=4 * error + bias),
    ]  # fmt: skip
    for factors in (1, 2):
        c, spread = mean_with_error(correction(dim, rho, draws, factors))
        rows.append(
            judge(f"c in E⟨Ax/‖Ax‖, Ay/‖Ay‖⟩ = u + c(u³−u)/d, {factors} Gaussian factors",
                  "derived, to order 1/d", factors / 2, c, absolute=4 * spread + 4 / dim)
        )  # fmt: skip
    times = np.linspace(0.05, 2 * horizon, 16)
    series = [
        Series("−u(1−u²)dt, as stated", times, _second_moment(1, rho, times), role="theory"),
        Series("−2u(1−u²)dt", times, _second_moment(2, rho, times), role="theory", dash="dotted"),
        Series(f"networks, d = {dim}", [horizon], [mean], [error], style="points"),
    ]
    axes = Axis("time in units of d (random depth)"), Axis("E u²")
    return Finding(rows, {"overlap": Lines(*axes, series)})


def _second_moment(strength: float, rho: float, times: list[float] | np.ndarray) -> np.ndarray:
    """E u² for du = −k u(1−u²)dt + √2(1−u²)dB; y = artanh u has the drift (2−k) tanh y."""
    drift = lambda y: (2 - strength) * math.tanh(y)
    return expected_later(drift, lambda y: 2.0, lambda y: np.tanh(y) ** 2, math.atanh(rho), times)
