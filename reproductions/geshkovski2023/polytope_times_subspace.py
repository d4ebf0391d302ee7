"""Polytope times subspace."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from metastable.core.verdict import judge
from metastable.flows import Trajectory
from metastable.measures import gaussian_points
from metastable.report.figures.films import film_in_space
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.limits import limit_geometry, polytope_residual

from ._pure_attention import limit_corners, pure_run, residual_rate, skew_value

ENTRY = Entry(
    title="Polytope times subspace",
    places=["Theorem 4", "section on polytopes × hyperplanes, moving picture"],
    claim=(
        "If V is λ times the identity on an invariant subspace F and smaller in modulus on a "
        "complement G, the rescaled tokens converge to ∂K × G for a bounded convex polytope K "
        "in F."
    ),
    method=(
        "Draw V in random skew bases of R³ with F a plane, take the F-coordinates of the "
        "tokens, and measure their distance from the limit set of their polytope and its "
        "rate."
    ),
    subject="clusters",
    basis="text",
    limits=(
        "Twenty V of R³ with a plane F and one ratio 0.6; neither larger subspaces nor V that "
        "cannot be diagonalised."
    ),
    planted="residual_rate * 1.1",
    settings={"tokens": 20, "draws": 20, "inner": 0.6, "horizon": 16.0},
    fast={"draws": 6},
)


def polytope_times_subspace(*, tokens: int, draws: int, inner: float, horizon: float) -> Finding:
    """V = I on a plane F of R³ and smaller on a line G, in random skew bases."""
    random = np.random.default_rng(5)
    rates, ends, curves, spread, kept = [], [], {}, [], None
    for seed in range(draws):
        # The first V has 0 on G, where nothing then moves: a prism, for the moving picture.
        rate = float(random.uniform(-inner, inner)) if seed else 0.0
        value, _ = skew_value([1.0, 1.0, rate], seed)
        geometry: Any = limit_geometry(value)
        run = pure_run(gaussian_points(tokens, 3, seed=seed), horizon, value=value, frames=129)
        on_plane = run.points @ geometry.functionals.T
        measure = gaussian_points(tokens, 2).at(on_plane[-1])
        corners = limit_corners(measure)
        off = [polytope_residual(z, corners, np.eye(2)).max() for z in on_plane]
        rates.append(residual_rate(run.times, on_plane, np.eye(2)))
        ends.append(off[-1])
        curves[f"V number {seed + 1}"] = (run.times, off)
        along = run.points[-1] @ _complement(geometry.functionals)
        spread.append(float(np.ptp(along)))
        kept = run if kept is None else kept
    worst = rates[int(np.abs(np.array(rates) - 1).argmax())]
    rows = [
        holds(
            f"the F-part of every z_i tends to the limit set on ∂K ⊂ F, {draws} random V",
            "Theorem 4",
            max(ends) < 1e-3,
            "residual → 0",
            f"at most {max(ends):.1e} at t = {horizon:g}",
        ),
        judge(
            "rate r of the residual e^{−rt}, farthest from 1 of all draws",
            "derived here",
            1.0,
            worst,
            absolute=0.02,
        ),
        holds(
            "the G-part need not come to a point: the limit is ∂K × G",
            "Theorem 4",
            max(spread) > 0.1,
            "tokens differ along G",
            f"by up to {max(spread):.2g}",
        ),
    ]
    assert kept is not None
    figure = plot_lines(
        dict(list(curves.items())[:6]),
        "time t (SA clock)",
        "largest residual in F",
        f"Distance of the F-parts of {tokens} tokens from the limit set of their polytope.",
        theory={"$e^{-t}$": (kept.times, np.exp(-kept.times))},
        log="y",
        lines=True,
    )
    film = _first(kept, 0.45)
    movie = lambda frames: film_in_space(film, frames=frames)
    return Finding(rows, {"residual": figure}, movies={"polytope times line": movie})


def _complement(functionals: np.ndarray) -> np.ndarray:
    """A unit vector on which all functionals vanish."""
    return np.linalg.svd(functionals)[2][-1]


def _first(run: Trajectory, share: float) -> Trajectory:
    count = max(2, int(share * len(run.times)))
    return dataclasses.replace(run, times=run.times[:count], frames=run.frames[:count])
