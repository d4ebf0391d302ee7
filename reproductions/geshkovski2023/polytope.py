"""V = I: tokens tend to the boundary of a polytope."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from metastable.core.verdict import judge
from metastable.measures import gaussian_points
from metastable.report.figures.films import film_in_space
from metastable.report.figures.plain import plot_lines
from metastable.report.figures.run import plot_hulls
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.limits import limit_geometry, polytope_residual

from ._pure_attention import limit_corners, positive_query, pure_run, residual_rate

ENTRY = Entry(
    title="V = I: tokens tend to the boundary of a polytope",
    places=["Theorem 2", "section on V = I, moving picture of the convex polytope"],
    claim=(
        "With V = I and a positive definite QᵀK every rescaled token converges to a point of "
        "the boundary of a convex polytope (or to 0), where ‖Az‖² = max_j⟨Az, Av_j⟩ and A is "
        "the root of QᵀK."
    ),
    method=(
        "Run Gaussian prompts in the plane with QᵀK = I and with random QᵀK, measure how far "
        "the slowest token is from the limit set of its polytope, and fit the rate; show one "
        "prompt in a moving picture."
    ),
    subject="clusters",
    basis="text",
    limits=(
        "Forty prompts of 20 tokens in the plane, QᵀK = I and random; higher dimensions are "
        "another entry."
    ),
    planted="residual_rate * 1.1",
    settings={"tokens": 20, "draws": 40, "horizon": 16.0},
    fast={"draws": 10},
)


def polytope(*, tokens: int, draws: int, horizon: float) -> Finding:
    """Limits on the boundary of a polytope, for QᵀK = I and for random QᵀK > 0."""
    rates, ends, curves = [], [], {}
    flat: Any = None
    for seed in range(draws):
        query = positive_query(2, seed)
        root: Any = limit_geometry(np.eye(2), query, query).root
        # Past t = 16 the logits, of size e^{2t}, lose the digits that the rate needs.
        run = pure_run(gaussian_points(tokens, 2, seed=seed), horizon, query=query, frames=97)
        flat = run if seed == 0 else flat
        corners = limit_corners(run.frames[-1])
        off = [polytope_residual(z, corners, root).max() for z in run.points]
        rates.append(residual_rate(run.times, run.points, root))
        ends.append(off[-1])
        curves[f"prompt {seed + 1}"] = (run.times, off)
    worst = rates[int(np.abs(np.array(rates) - 1).argmax())]
    rows = [
        holds(
            f"z_i(t) tends to {{‖Az‖² = max_j⟨Az,Av_j⟩}} on the boundary of a polytope, {draws} "
            "prompts",
            "Theorem 2",
            max(ends) < 1e-3,
            "residual → 0",
            f"at most {max(ends):.1e} at t = {horizon:g}",
        ),
        judge(
            "rate r of the residual e^{−rt}, farthest from 1 of all prompts",
            "derived here",
            1.0,
            worst,
            absolute=0.02,
        ),
    ]
    flat = dataclasses.replace(flat, times=flat.times[:40], frames=flat.frames[:40])
    residual = plot_lines(
        dict(list(curves.items())[:6]),
        "time t (SA clock)",
        "largest residual",
        f"Distance of {tokens} tokens from the limit set of their polytope, for {min(6, draws)} "
        "prompts; every second one has a random QᵀK > 0.",
        theory={"$e^{-t}$": (run.times, np.exp(-run.times))},
        log="y",
        lines=True,
    )
    return Finding(
        rows,
        {"hulls": plot_hulls(flat), "residual": residual},
        movies={
            "plane": lambda frames: film_in_space(flat, frames=frames),
        },
    )
