"""With V = −I a density follows the heat equation."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions.bruno2025._heat import heat, start

ENTRY = Entry(
    title="With V = −I a density follows the heat equation",
    places=["Section 3: the heat phase, repulsive case"],
    claim=(
        "At large β softmax attention with V = −I moves a smooth density by ∂_sμ = Δμ in the time "
        "s = t/β: the limit is linear, however far from uniform the density is."
    ),
    method=(
        "Densities with three large harmonics on spheres of several dimensions; each harmonic "
        "against its own exponential, and the order in 1/β of the largest difference."
    ),
    subject="long context",
    basis="report",
    limits="Infinitely many tokens (densities); smooth starts bounded away from zero.",
    planted="SelfAttention.value * 1.3",
    settings={"betas": [50.0, 100.0, 200.0, 400.0], "dims": [2, 3, 6],
              "amplitudes": [0.25, 0.2, 0.1], "span": 0.15},
    fast={"betas": [50.0, 100.0], "dims": [2]},
)  # fmt: skip


def forward_heat(
    *, betas: list[float], dims: list[int], amplitudes: list[float], span: float
) -> Finding:
    """`span` is the final time s."""
    rows, curves, theory = [], {}, {}
    for dim in dims:
        # Harmonics of degree ℓ reach √N_ℓ: smaller ones in higher dimensions.
        begin = start(dim, [a / dim**0.5 for a in amplitudes])
        off = []
        for beta in betas:
            run = flow(begin, SelfAttention(beta, value=-1.0), span * beta, frames=16)
            seen = np.array([np.asarray(f.resized(3).coefficients) for f in run.frames])
            off.append(float(np.abs(seen - heat(begin, run.times / beta)).max()))
        order = -float(np.polyfit(np.log(betas), np.log(off), 1)[0])
        rows.append(judge(f"d = {dim}: order in 1/β of the difference from the heat equation",
                          "Section 3", 1.0, order, absolute=0.2))  # fmt: skip
        rows.append(holds(f"d = {dim}: the difference at β = {betas[-1]:g}", "Section 3",
                          off[-1] < 5 / betas[-1], "below 5/β", f"{off[-1]:.3g}"))  # fmt: skip
        if dim == dims[0]:
            s = run.times / beta
            for k in (1, 2, 3):
                curves[f"degree {k}"] = (s, np.abs(seen[:, k]))
                theory[f"heat, degree {k}"] = (s, np.abs(heat(begin, s)[:, k]))
    figure = plot_lines(
        curves, "time t/β (SA clock)", "size of a harmonic",
        f"Circle, β = {betas[-1]:g}; dashed: heat equation.", theory=theory, log="y",
    )  # fmt: skip
    return Finding(rows, {"harmonics": figure})
