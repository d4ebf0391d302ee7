"""Modes grow at their rates."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Adaptive, flow
from metastable.measures import Density
from metastable.observe import power
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.spectrum import growth_rates

ENTRY = Entry(
    title="Modes grow at their rates",
    places=["summary: spectral properties of the linearised equation"],
    claim="Around the uniform measure every harmonic grows exponentially at its own rate.",
    method=(
        "The mean-field equation from 1e−9 times one harmonic at a time, on the circle, the "
        "sphere and axially in d = 8."
    ),
    subject="rates",
    basis="text",
    limits="Three pairs of dimension and β, six modes each; in d = 8 axial harmonics only.",
    contradicts=("growth_of_modes",),
    planted="SelfAttention.beta * 1.01",
    settings={"cases": [[2, 5.0], [3, 5.0], [8, 12.0]], "modes": 6},
    fast={"cases": [[2, 5.0], [8, 12.0]], "modes": 3},
)

TIGHT = Adaptive(rtol=1e-12, atol=1e-14)


def linear_growth(*, cases: list[list[float]], modes: int) -> Finding:
    """Each mode of a small perturbation of uniform grows at its own rate."""
    figures, worst = {}, {"SA": 0.0, "USA": 0.0}
    for dim, beta in ((int(d), b) for d, b in cases):
        measured, expected = {}, {}
        for normalized, clock in ((True, "SA"), (False, "USA")):
            rates = growth_rates(beta, dim, modes, normalized=normalized)
            field = SelfAttention(beta, normalized=normalized)
            span, seen = 2.0 / np.abs(rates).max(), []
            for k in range(1, modes + 1):
                start = Density.mode(dim, k, 1e-9, zonal=True if dim > 3 else None)
                run = flow(start, field, span, frames=2, stepper=TIGHT)
                a, b = (float(np.sqrt(power(frame, k)[k])) for frame in run.frames)
                seen.append(math.log(b / a) / span)
            off = np.abs(np.array(seen) - rates).max() / np.abs(rates).max()
            worst[clock] = max(worst[clock], off)
            order = np.arange(1, modes + 1)
            scale = np.abs(rates).max()
            measured[f"{clock}, largest rate {scale:.3g}"] = (order, np.array(seen) / scale)
            expected[f"theory, {clock}"] = (order, rates / scale)
        figures[f"d{dim}"] = plot_lines(
            measured, "degree ℓ", "growth rate / largest",
            f"Density flow against the formula, d = {dim}, β = {beta:g}.", theory=expected,
        )  # fmt: skip
    rows = [
        judge(f"largest error of a rate, relative to the largest rate ({clock})", "linear phase",
              0.0, off, absolute=1e-6)
        for clock, off in worst.items()
    ]  # fmt: skip
    return Finding(rows, figures)
