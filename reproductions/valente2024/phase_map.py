"""The phase diagram over time and β."""

from __future__ import annotations

import numpy as np

from metastable.core.numerics import jnp
from metastable.core.verdict import judge
from metastable.flows.ensemble import Angles, Gram
from metastable.report.figures.plain import plot_image, plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.equiangular import phase_curve

from ._pairs import NEAR, share_together

ENTRY = Entry(
    title="The phase diagram over time and β",
    places=["Figure 16", "equations 45 and 46"],
    claim=(
        "The probability that two tokens are together jumps from 0 to 1 across a curve in the "
        "(t, β) plane, which for large d is the curve Γ_∞ of orthogonal tokens."
    ),
    method=(
        "Thousands of small systems at once for every β; the half-way contour against the "
        "closed integral of Γ_∞."
    ),
    subject="rates",
    basis="text",
    limits=(
        "32 tokens, 36 values of β, five dimensions up to 512, one closeness δ; the limit d → ∞"
        " itself is not reached."
    ),
    planted="Gram.beta * 1.3",
    settings={
        "tokens": 32,
        "dims": [2, 8, 32, 128, 512],
        "samples": 512,
        "betas": 36,
        "horizon": 30.0,
    },
    fast={"tokens": 16, "dims": [2, 32, 512], "samples": 48, "betas": 6},
)


def phase_map(*, tokens: int, dims: list[int], samples: int, betas: int, horizon: float) -> Finding:
    """P(⟨x_1,x_2⟩ ≥ 1 − δ) over time and β, against the curve of orthogonal tokens."""
    frames, levels = 61, np.linspace(0.25, 9, betas)
    times = np.linspace(0, horizon, frames)
    curve = phase_curve(levels, tokens, NEAR)
    figures, shifts = {}, []
    for dim in dims:
        form = Angles if dim == 2 else Gram
        share = np.array(
            [
                share_together(form(jnp.asarray(b)), samples, tokens, dim, horizon, frames)
                for b in levels
            ]
        )
        figures[f"d{dim}"] = plot_image(
            share, (0, horizon, levels[0], levels[-1]), "time t (SA clock)", "β",
            "P(⟨x₁,x₂⟩ ≥ 1 − δ)", f"d = {dim}: share of {samples} starts of {tokens} tokens.",
            curves={"Γ_∞": (curve[curve < horizon], levels[curve < horizon])},
        )  # fmt: skip
        half = np.array([np.interp(0.5, row, times) if row[-1] > 0.5 else np.nan for row in share])
        seen = np.isfinite(half) & (curve < 0.9 * horizon)
        shifts.append(float(np.abs(half - curve)[seen].mean()) if seen.any() else np.inf)
    rows = [
        judge(
            f"time at which half the starts are one cluster, minus Γ_∞, d = {dims[-1]}",
            "Figure 16, equation 46", 0.0, shifts[-1], absolute=2 * horizon / (frames - 1),
        ),
        holds(
            "the shift falls as d grows", "Theorem 8", all(np.diff(shifts) < 0), "falls",
            ", ".join(f"{one:.2f}" for one in shifts),
        ),
    ]  # fmt: skip
    figures["shift"] = plot_lines(
        {"mean distance": (dims, shifts)}, "dimension d", "time", log="xy",
        caption="Mean distance of the half-way contour from Γ_∞ (SA clock).",
    )  # fmt: skip
    return Finding(rows, figures)
