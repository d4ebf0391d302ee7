"""Orthogonal tokens stay equiangular."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import orthogonal
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.equiangular import equiangular_cosine

ENTRY = Entry(
    title="Orthogonal tokens stay equiangular",
    places=["Theorem 7", "equations 42 and 43"],
    claim=(
        "Tokens that start pairwise orthogonal keep one common angle, whose cosine solves an "
        "explicit ordinary differential equation, one for softmax and one for unnormalised "
        "attention."
    ),
    method=(
        "Run n orthogonal tokens and compare every pair's cosine with the equation's solution."
    ),
    subject="rates",
    basis="text",
    limits="Eight tokens, β = 0 and 3, up to t = 8, Q = K = V = I.",
    planted="SelfAttention.beta * 1.1",
    settings={"tokens": 8, "betas": [0.0, 3.0], "horizon": 8.0},
    fast={"betas": [3.0]},
)


def orthogonal_tokens(*, tokens: int, betas: list[float], horizon: float) -> Finding:
    """Pairwise orthogonal tokens stay equiangular and follow one ordinary differential equation."""
    measured, expected, worst = {}, {}, {}
    apart = np.triu_indices(tokens, 1)
    for normalized, clock in ((True, "SA"), (False, "USA")):
        worst[clock] = unequal = 0.0
        for beta in betas:
            field = SelfAttention(beta, normalized=normalized)
            run = flow(orthogonal(tokens, tokens, seed=2), field, horizon, frames=25)
            cosines = np.array([(x @ x.T)[apart] for x in run.points])
            theory = equiangular_cosine(run.times, beta, tokens, normalized=normalized)
            worst[clock] = max(worst[clock], np.abs(cosines - theory[:, None]).max())
            unequal = max(unequal, np.ptp(cosines, axis=1).max())
            measured[f"{clock}, β = {beta:g}"] = (run.times, cosines.mean(axis=1))
            expected[f"γ_β, {clock}, β = {beta:g}"] = (run.times, theory)
        worst[f"{clock}, pairs"] = unequal
    rows = [
        judge(
            f"{what} ({clock})", f"Theorem 7, eq. ({number})", 0.0, worst[key], absolute=1e-7
        )
        for clock, number in (("SA", 42), ("USA", 43))
        for what, key in (
            ("all pairs have one cosine: largest difference", f"{clock}, pairs"),
            ("it solves the equation: largest error", clock),
        )
    ]  # fmt: skip
    figure = plot_lines(
        measured, "time t (each in its own clock)", "cosine of every pair",
        f"{tokens} orthogonal tokens; dashed: the solution γ_β of the equation.",
        theory=expected, size=(5.4, 3.6),
    )  # fmt: skip
    return Finding(rows, {"cosines": figure})
