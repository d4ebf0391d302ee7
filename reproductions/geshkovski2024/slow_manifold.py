"""How far a state is from the slow manifold, by its energy."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.observe import energy
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="How far a state is from the slow manifold, by its energy",
    places=["Section 3, lemma that turns a gradient bound into a distance bound"],
    claim=(
        "If the energy obeys E* − E ≤ |∇E|²/(2c) along the gradient flow to a point v, then "
        "E(v) − E(u) ≥ 2c|u − v|² for every state u on it."
    ),
    method=(
        "One cluster on the circle that falls together under USA, the gradient flow of E: the "
        "largest c of the gradient bound along the run, then (E(v) − E(u))/|u − v|²."
    ),
    known="disagree",
    correction=(
        "The constant is c/2: the run is no longer than √(2(E* − E)/c). It is the best one, since "
        "the quotient tends to c/2 as the cluster closes."
    ),
    subject="metastability",
    basis="report",
    limits=(
        "Tokens of one cluster within 1/(20√β) of each other, on the circle; distances in angle. "
        "Version 1 as transcribed, where x²/2 is the counterexample."
    ),
    planted="SelfAttention.value = 0.5",
    settings={"betas": [2.0, 5.0, 8.0, 16.0], "tokens": 7, "seed": 4},
    fast={"betas": [2.0, 8.0]},
)


def slow_manifold(*, betas: list[float], tokens: int, seed: int) -> Finding:
    """USA moves token i by n∇_iE: in the time nt, and per unit of mass, it is the gradient flow."""
    rows, curves, worst = [], {}, 0.0
    spread = np.random.default_rng(seed).uniform(-1, 1, tokens)
    for beta in betas:
        theta = spread / (40 * np.sqrt(beta))
        field = SelfAttention(beta, normalized=False)
        start = Points(np.stack([np.cos(theta), np.sin(theta)], 1))
        run = flow(start, field, 4 * np.exp(-beta), frames=201)
        angle = np.arctan2(run.points[..., 1], run.points[..., 0])
        height = np.array([float(energy(frame, beta)) for frame in run.frames])
        top = np.exp(beta) / (2 * beta)
        # Angles as coordinates, in the norm Σθ²/n: then θ̇ = ∇E, and |∇E|² is dE/dt.
        speed = np.gradient(angle, run.times, axis=0, edge_order=2)
        push = np.mean(speed**2, axis=1)
        near = slice(1, 160)
        constant = float(np.min(push[near] / (2 * (top - height[near]))))
        end = angle.mean(axis=1)[:, None]  # the mean angle never moves
        apart = np.mean((angle - end) ** 2, axis=1)
        quotient = (top - height[near]) / apart[near]
        climb = np.gradient(height, run.times, edge_order=2)
        error = float(np.max(np.abs(climb / push - 1)[near]))
        rows.append(judge(f"β = {beta:g}: dE/dt = |∇E|², off by", "Section 3", 0.0, error,
                          absolute=0.01))  # fmt: skip
        rows.append(judge(f"β = {beta:g}: lim (E(v) − E(u))/(c|u − v|²)", "derived", 0.5,
                          float(quotient[-1] / constant), relative=0.02))  # fmt: skip
        rows.append(holds(f"β = {beta:g}: never below c/2", "derived",
                          quotient.min() >= 0.49 * constant, "at least 0.5 c",
                          f"{quotient.min() / constant:.4g} c"))  # fmt: skip
        worst = max(worst, float(2 * constant / quotient.min()))
        curves[f"β = {beta:g}"] = (run.times[near] * np.exp(beta), quotient / constant)
    first = holds("E(v) − E(u) ≥ 2c|u − v|²", "Section 3", worst <= 1.0, "at least 1 times it",
                  f"{1 / worst:.4g} times it")  # fmt: skip
    figure = plot_lines(
        curves, "time times e^β (USA clock)", "(E(v) − E(u))/(c|u − v|²)",
        "One cluster that closes on the circle.", levels={"stated": 2.0, "c/2": 0.5}, lines=True,
    )  # fmt: skip
    return Finding([first, *rows], {"quotient": figure})
