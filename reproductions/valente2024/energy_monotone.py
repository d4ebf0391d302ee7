"""The energy climbs."""

from __future__ import annotations

import numpy as np
from scipy.integrate import simpson

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Adaptive, flow
from metastable.measures import Points, uniform
from metastable.observe import energy, log_potential
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="The energy climbs",
    places=["equation 18"],
    claim=(
        "The interaction energy grows along softmax attention at the rate ∫‖v‖²Z dμ, and "
        "falls at that rate when V = −I."
    ),
    method=(
        "Run both signs, sum the energy over all pairs in every frame, and integrate the rate "
        "by Simpson's rule."
    ),
    subject="existence",
    basis="text",
    limits="One start of 64 tokens in d = 3 at β = 3 up to t = 6, Q = K = I and V = ±I only.",
    planted="SelfAttention.beta * 1.3",
    settings={"tokens": 64, "dim": 3, "beta": 3.0, "horizon": 6.0},
    fast={"tokens": 24},
)


def energy_monotone(*, tokens: int, dim: int, beta: float, horizon: float) -> Finding:
    """The energy climbs for V = I and falls for V = −I, at the rate of the identity."""
    start, curves, expected, worst, wrong = uniform(tokens, dim, seed=3), {}, {}, 0.0, 0.0
    stepper = Adaptive(rtol=1e-10, atol=1e-10)
    for sign in (1.0, -1.0):
        run = flow(start, SelfAttention(beta, value=sign), horizon, frames=201, stepper=stepper)
        level = np.array([float(energy(frame, beta)) for frame in run.frames])
        wrong = max(wrong, (-sign * np.diff(level)).max() / level[0])
        rate = [_dissipation(frame, beta) for frame in run.frames]
        gained = [simpson(rate[: k + 1], x=run.times[: k + 1]) for k in range(2, 201, 2)]
        worst = max(worst, np.abs(level[2::2] - level[0] - sign * np.array(gained)).max())
        curves[f"V = {'' if sign > 0 else '−'}I"] = (run.times, level)
        expected[f"start plus ∫∫‖v‖²Z, V = {'' if sign > 0 else '−'}I"] = (
            run.times[2::2],
            level[0] + sign * np.array(gained),
        )
    rows = [
        holds(
            "largest step in the wrong direction, V = ±I", "equation 18", wrong < 1e-12,
            "none", wrong,
        ),
        judge("energy minus its integrated rate", "equation 18", 0.0, worst, absolute=1e-5),
    ]  # fmt: skip
    figure = plot_lines(
        curves, "time t (SA clock)", "energy E_β",
        f"{tokens} tokens, d = {dim}, β = {beta:g}; dashed: the start plus the integrated rate.",
        theory=expected, lines=True,
    )  # fmt: skip
    return Finding(rows, {"energy": figure})


def _dissipation(measure: Points, beta: float) -> float:
    """∫‖v‖² Z dμ, where v does not depend on the sign of V."""
    v = np.asarray(SelfAttention(beta).velocity(measure))
    mass = np.exp(np.asarray(log_potential(measure, beta)))
    return float(np.asarray(measure.weights) @ ((v**2).sum(axis=1) * mass))
