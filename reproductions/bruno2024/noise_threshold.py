"""Noise keeps uniform stable below a threshold."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import Noise, SelfAttention
from metastable.flows import flow
from metastable.measures import Density
from metastable.observe import power
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.noise import critical_kappa
from metastable.theory.spectrum import growth_rates

ENTRY = Entry(
    title="Noise keeps uniform stable below a threshold",
    places=["summary: stability of the uniform measure under noise"],
    claim="With noise the uniform measure is stable up to a critical strength.",
    method=(
        "Growth of the first mode on both sides of the threshold, and the crossing, against "
        "the closed form."
    ),
    subject="noise",
    basis="text",
    limits=(
        "Three β in d = 2, 3 and 8, the first mode alone, as the equation of infinitely many "
        "tokens."
    ),
    planted="Noise.kappa * 1.1",
    settings={"betas": [1.0, 3.0, 6.0], "dims": [2, 3, 8]},
    fast={"betas": [3.0], "dims": [2, 8]},
)


def noise_threshold(*, betas: list[float], dims: list[int]) -> Finding:
    """Noise keeps the uniform measure stable exactly below κ_#."""
    wrong, curves, theory = 0, {}, {}
    for normalized, clock in ((True, "SA"), (False, "USA")):
        for dim in dims:
            found = []
            for beta in betas:
                threshold = float(critical_kappa(beta, dim, normalized=normalized))
                rates = []
                for factor in (0.9, 1.1):
                    kappa = factor * threshold
                    field = SelfAttention(beta, normalized=normalized) + Noise(kappa)
                    start = Density.mode(dim, 1, 1e-7, zonal=True if dim > 3 else None)
                    span = 0.1 * kappa
                    run = flow(start, field, span, frames=2)
                    a, b = (float(np.sqrt(power(frame, 1)[1])) for frame in run.frames)
                    rates.append(math.log(b / a) / span)
                    exact = growth_rates(beta, dim, 1, normalized=normalized, kappa=kappa)[0]
                    wrong += abs(rates[-1] - exact) > 1e-4 * abs(exact) + 1e-9
                # The rate λ − (d−1)/κ is linear in 1/κ: where two of them cross zero.
                u = 1 / (np.array([0.9, 1.1]) * threshold)
                found.append(1 / (u[0] - rates[0] * (u[1] - u[0]) / (rates[1] - rates[0])))
            curves[f"{clock}, d = {dim}"] = (betas, found)
            theory[f"κ_#, {clock}, d = {dim}"] = (
                betas, critical_kappa(betas, dim, normalized=normalized),
            )  # fmt: skip
    off = max(
        np.abs(np.array(c[1]) / t[1] - 1).max()
        for c, t in zip(curves.values(), theory.values(), strict=True)
    )
    rows = [
        judge("largest relative error of the threshold", "stability under noise", 0.0, off,
              absolute=1e-4),
        judge("growth rates with noise off the formula", "stability under noise", 0, wrong,
              absolute=0),
    ]  # fmt: skip
    figure = plot_lines(
        curves, "β", "critical κ", "Where the first mode neither grows nor decays.", log="y",
        theory=theory, size=(5.4, 3.6),
    )  # fmt: skip
    return Finding(rows, {"threshold": figure})
