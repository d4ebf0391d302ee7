"""Below the threshold uniform and ordered tokens both stay as they are."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import Noise, SelfAttention
from metastable.flows import flow
from metastable.measures import Density
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.branches import transition

from ._gibbs import Functional

ENTRY = Entry(
    title="Below the threshold uniform and ordered tokens both stay as they are",
    places=["arXiv:2606.05140, abstract: discontinuous transition for β > β_*"],
    claim=(
        "Beyond β_* order appears by a jump below κ_#: there is a window of noise in which a "
        "nearly uniform and a concentrated start have different ends."
    ),
    method=(
        "The density equation from both starts at three strengths of noise; its ordered end "
        "against the fixed point of f ∝ exp(κ W∗f) found by plain quadrature."
    ),
    subject="noise",
    basis="report",
    limits=(
        "One β for each d. The ends are those of zonal starts after a finite time; where the "
        "window begins is taken from continuation, not from the paper."
    ),
    planted="Noise.kappa * 1.2",
    settings={"beta": 5.0, "dims": [2, 3], "horizon": 60.0},
    fast={"dims": [2], "horizon": 40.0},
)


def hysteresis_loop(*, beta: float, dims: list[int], horizon: float) -> Finding:
    """Two ends in the window, one on either side of it."""
    rows, curves, theory = [], {}, {}
    for dim in dims:
        law = transition(beta, dim, normalized=False)
        window = (law.kappa_ordered + law.kappa_uniform) / 2
        exact = Functional.of(beta, dim, degree=40, count=160)
        tilt = np.exp(20 * (exact.nodes - 1))
        high = Density.von_mises_fisher(np.eye(dim)[0], 8.0, zonal=True)
        flat = np.array(high.coefficients)
        flat[1:] *= 0.02
        low = Density(flat, dim, high.axis)
        cases = (
            ("κ in the window, nearly uniform start", window, low, 0.0),
            ("κ in the window, concentrated start", window, high, None),
            ("κ 20 % below the window, concentrated start", 0.8 * law.kappa_ordered, high, 0.0),
            ("κ 20 % above κ_#, nearly uniform start", 1.2 * law.kappa_uniform, low, None),
        )
        for name, kappa, start, end in cases:
            if end is None:
                end = float(exact.moments(exact.settle(tilt / (exact.weights @ tilt), kappa))[1])
            field = SelfAttention(beta, normalized=False) + Noise(kappa)
            run = flow(start, field, horizon * kappa, frames=41)
            size = np.array([abs(complex(f.coefficients[1])) for f in run.frames]) / np.sqrt(dim)
            # The slowest decay is e^{−0.05 t/κ}, and leaves 3e−3 of 0.02; the stepper adds 1e−6.
            rows.append(judge(f"d = {dim}: alignment, {name}", "discontinuous above β_*", end,
                              float(size[-1]), absolute=5e-3))  # fmt: skip
            curves[f"d = {dim}, {name}"] = (run.times / kappa, size)
            if end > 0:
                theory[f"fixed point, d = {dim}, κ = {kappa:.3g}"] = ([0, horizon], [end, end])
    figure = plot_lines(
        curves, "time t/κ (USA clock)", "alignment ∫⟨x, e⟩df",
        f"Unnormalised attention with noise, β = {beta:g}: two starts, three strengths of noise.",
        theory=theory, lines=True, size=(6.0, 3.8),
    )  # fmt: skip
    return Finding(rows, {"ends": figure})
