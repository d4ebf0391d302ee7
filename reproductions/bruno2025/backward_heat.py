"""With V = I a density follows the heat equation backward."""

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
    title="With V = I a density follows the heat equation backward",
    places=["Section 3: the heat phase, attractive case"],
    claim=(
        "At large β softmax attention with V = I moves a smooth density by ∂_sμ = −Δμ in the time "
        "s = t/β: it undoes diffusion, and harmonics grow without mixing."
    ),
    method=(
        "A density first spread by the exact heat equation for a time s_0, then moved by SA for "
        "the same time: it must come back; harmonics that were zero must stay of order 1/β."
    ),
    subject="long context",
    basis="report",
    limits=(
        "Only while a solution of the backward equation exists: trigonometric starts on the circle "
        "and S². Densities, not tokens. Rounding grows like e^{2t/e}, being ill-posed: "
        "runs past t ≈ 50 (β = 500 here) show nothing else."
    ),
    planted="SelfAttention.beta * 1.25",
    settings={"betas": [100.0, 200.0, 300.0], "dims": [2, 3],
              "amplitudes": [0.2, 0.15, 0.1], "span": 0.1},
    fast={"betas": [100.0, 300.0], "dims": [2]},
)  # fmt: skip


def backward_heat(
    *, betas: list[float], dims: list[int], amplitudes: list[float], span: float
) -> Finding:
    """The start is the heat flow's end, so that the end must be the sharp density again."""
    rows, curves, theory = [], {}, {}
    for dim in dims:
        sharp = start(dim, amplitudes)
        spread = start(dim, list(np.real(heat(sharp, span)[1:])))
        off, mixed = [], []
        for beta in betas:
            run = flow(spread, SelfAttention(beta), span * beta, frames=16)
            end = np.asarray(run.frames[-1].resized(6).coefficients)
            off.append(float(np.abs(end[1:4] - np.asarray(sharp.coefficients)[1:4]).max()))
            mixed.append(float(np.abs(end[4:]).max()))
        for what, seen in (("difference from the sharp density", off), ("degrees 4 to 6", mixed)):
            order = -float(np.polyfit(np.log(betas), np.log(seen), 1)[0])
            rows.append(judge(f"d = {dim}: order in 1/β of the {what}", "Section 3", 1.0, order,
                              absolute=0.25))  # fmt: skip
        rows.append(holds(f"d = {dim}: it comes back at β = {betas[-1]:g}", "Section 3",
                          off[-1] < 10 / betas[-1], "within 10/β", f"{off[-1]:.3g}"))  # fmt: skip
        if dim == dims[0]:
            s = run.times / beta
            seen = np.array([np.asarray(f.resized(3).coefficients) for f in run.frames])
            for k in (1, 2, 3):
                curves[f"degree {k}"] = (s, np.abs(seen[:, k]))
                theory[f"backward heat, {k}"] = (s, np.abs(heat(spread, -s)[:, k]))
    figure = plot_lines(
        curves, "time t/β (SA clock)", "size of a harmonic",
        f"Circle, β = {betas[-1]:g}; dashed: backward heat equation.", theory=theory, log="y",
    )  # fmt: skip
    return Finding(rows, {"harmonics": figure})
