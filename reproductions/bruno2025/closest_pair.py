"""In the pairing phase only the closest pair moves."""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import cumulative_trapezoid

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.pairs import log_merge_time

ENTRY = Entry(
    title="In the pairing phase only the closest pair moves",
    places=["Section 3: the pairing phase"],
    claim=(
        "In the clock dt = e^{β(1−max⟨x_i,x_j⟩)}ds, as β grows, the closest pair of clusters moves "
        "along its geodesic until it meets, and all others stand still."
    ),
    method=(
        "Four clusters on S² under SA at several β: the angle of the closest pair against "
        "tan(φ/2) = tan(φ_0/2)e^{−cs}, its distance from the plane it started in, and how far "
        "the others have gone when it meets."
    ),
    subject="metastability",
    basis="report",
    limits=(
        "One start, point clusters, the largest cosine of the moment in the clock. The factor "
        "c = (α_1/α_2 + α_2/α_1) for unequal masses is derived here."
    ),
    planted="SelfAttention.value = 1.3",
    settings={"betas": [20.0, 40.0, 60.0], "masses": [0.35, 0.15, 0.3, 0.2]},
    fast={"betas": [15.0, 30.0]},
)


def closest_pair(*, betas: list[float], masses: list[float]) -> Finding:
    """Clusters 1 and 2 start 0.9 rad apart, all others further."""
    angle = 0.9
    points = np.array([[1.0, 0.0, 0.0], [math.cos(angle), math.sin(angle), 0.0],
                       [-0.4, 0.3, 1.0], [0.2, -1.0, -0.5]])  # fmt: skip
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    pair = (masses[0], masses[1])
    factor = pair[0] / pair[1] + pair[1] / pair[0]
    off, others, bent, curves = [], [], [], {}
    for beta in betas:
        last = math.exp(log_merge_time(angle, beta, until=0.2, masses=pair))
        times = last * (1 - np.logspace(0, -5, 3000))
        run = flow(Points(points, masses), SelfAttention(beta), times[-1], frames=times)
        x = run.points
        phi = 2 * np.arcsin(np.linalg.norm(x[:, 0] - x[:, 1], axis=1) / 2)
        s = cumulative_trapezoid(np.exp(-beta * (1 - np.cos(phi))), run.times, initial=0)
        law = 2 * np.arctan(math.tan(angle / 2) * np.exp(-factor * s))
        kept = phi > 0.45  # closer than that e^{−β(1−cos φ)} is no longer small at the least β
        off.append(float(np.abs(phi - law)[kept].max()))
        bent.append(float(np.abs(x[kept][:, :2, 2]).max()))
        gone = np.linalg.norm(x[-1, 2:] - x[0, 2:], axis=1)
        others.append(float(gone.max()))
        curves[f"β = {beta:g}"] = (s[kept], phi[kept])
    rows = [
        judge(f"β = {betas[-1]:g}: angle against tan(φ/2) = tan(φ_0/2)e^(−cs), off by",
              "Section 3", 0.0, off[-1], absolute=0.05),
        holds("the law is the better the larger β", "Section 3", off[-1] < off[0] / 2,
              f"below half of {off[0]:.3g}", f"{off[-1]:.3g}"),
        holds("the pair stays on its geodesic", "Section 3", bent[-1] < bent[0] / 2 < 0.05,
              f"below half of {bent[0]:.3g}", f"{bent[-1]:.3g}"),
        holds("the others stand still", "Section 3", others[-1] < others[0] / 2 < 0.05,
              f"below half of {others[0]:.3g}", f"{others[-1]:.3g}"),
    ]  # fmt: skip
    figure = plot_lines(
        curves, "rescaled time s", "angle φ of the closest pair (rad)",
        "Four clusters on S², SA in the clock of the closest pair; dashed: the limit.",
        theory={"limit": (s[kept], law[kept])}, lines=True,
    )  # fmt: skip
    return Finding(rows, {"angle": figure})
