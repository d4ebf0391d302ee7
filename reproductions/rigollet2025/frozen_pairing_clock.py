"""Merging of the closest pair in a clock that is fixed at the start."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.pairs import log_merge_time

ENTRY = Entry(
    title="Merging of the closest pair in a clock that is fixed at the start",
    places=["Section 5, theorem on the merging of the closest pair"],
    claim=(
        "In the time s = t e^{−β(1−ρ(0))}, ρ(0) the cosine of the closest pair at the start, that "
        "pair follows ρ̇ = 2(1 − ρ²) as β grows, whatever the masses, and meets in finite s."
    ),
    method=(
        "Two clusters under SA at several β: the time s at which the cosine has gone half way to "
        "1, beside that of the stated limit; then in a clock that follows the cosine."
    ),
    known="disagree",
    correction=(
        "With the cosine of the start in the clock the pair speeds up without bound: s of any "
        "later cosine tends to 0 like 1/β. With the cosine of the moment "
        "ρ̇ = (α_1/α_2 + α_2/α_1)(1 − ρ²), which holds the masses and meets only as s → ∞."
    ),
    subject="metastability",
    basis="report",
    limits=(
        "Two clusters of positive mass in the plane. The transcription refutes version 4 with a "
        "cluster of mass zero; the order 1/β and the corrected limit are checked here."
    ),
    implies=("closest_pair",),
    planted="SelfAttention.beta * 1.1",
    settings={"cosine": 0.0, "masses": [0.3, 0.7], "betas": [5.0, 10.0, 15.0, 20.0]},
    fast={"betas": [6.0, 12.0]},
)


def frozen_pairing_clock(*, cosine: float, masses: list[float], betas: list[float]) -> Finding:
    """Half way means (1 + ρ(0))/2; the stated limit is ρ = tanh(2s + artanh ρ(0))."""
    angle, goal = math.acos(cosine), (1 + cosine) / 2
    pair = (masses[0], masses[1])
    points = Points([[1.0, 0.0], [cosine, math.sqrt(1 - cosine**2)]], masses)
    stated = (math.atanh(goal) - math.atanh(cosine)) / 2
    factor = pair[0] / pair[1] + pair[1] / pair[0]
    right = (math.atanh(goal) - math.atanh(cosine)) / factor
    frozen, moving, curves, rows = [], [], {}, []
    for beta in betas:
        last = math.exp(log_merge_time(angle, beta, until=math.acos(goal), masses=pair))
        later = math.exp(log_merge_time(angle, beta, until=math.acos(goal + 0.1), masses=pair))
        times = later * (1 - np.logspace(0, -8, 4000))
        run = flow(points, SelfAttention(beta), times[-1], frames=times)
        rho = np.sum(run.points[:, 0] * run.points[:, 1], axis=1)
        reached = float(np.interp(goal, rho, run.times))
        frozen.append(reached * math.exp(-beta * (1 - cosine)))
        # ∫e^{−β(1−ρ)}dt, with the exponent linear between frames.
        e, dt = -beta * (1 - rho), np.diff(run.times)
        steps = dt * np.exp((e[1:] + e[:-1]) / 2)
        s = np.concatenate([[0.0], np.cumsum(steps)])
        moving.append(float(np.interp(reached, run.times, s)))
        curves[f"β = {beta:g}"] = (run.times * math.exp(-beta * (1 - cosine)), rho)
        exact = last * math.exp(-beta * (1 - cosine))
        rows.append(judge(f"β = {beta:g}: s half way, by quadrature", "derived", exact, frozen[-1],
                          relative=1e-4))  # fmt: skip
    first = judge(f"β = {betas[-1]:g}: s half way is that of ρ̇ = 2(1 − ρ²)", "Section 5", stated,
                  frozen[-1], relative=0.2)  # fmt: skip
    order = -float(np.polyfit(np.log(betas), np.log(frozen), 1)[0])
    gaps = [abs(x - right) for x in moving]
    rows += [
        judge("s half way falls with β like β^(−1): exponent", "derived", 1.0, order,
              absolute=0.25),
        judge(f"β = {betas[-1]:g}: in the moving clock s half way is the corrected one", "derived",
              right, moving[-1], relative=0.1),
        holds("and nearer for larger β", "derived", gaps[-1] < gaps[0], f"below {gaps[0]:.3g}",
              f"{gaps[-1]:.3g}"),
    ]  # fmt: skip
    s = np.linspace(0, 1.5 * stated, 60)
    figure = plot_lines(
        curves, "s = t e^(−β(1−ρ(0)))", "cosine ρ of the pair",
        f"Two clusters of masses {masses[0]:g} and {masses[1]:g}; dashed: the stated limit.",
        theory={"tanh(2s + artanh ρ(0))": (s, np.tanh(2 * s + math.atanh(cosine)))}, lines=True,
    )  # fmt: skip
    return Finding([first, *rows], {"cosine": figure})
