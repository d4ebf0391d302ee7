"""Pure attention with a general V: parallel hyperplanes, polytopes times subspaces."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from metastable.comparison.verdict import judge
from metastable.flows import Trajectory
from metastable.measures import gaussian_points
from metastable.reproduce.finding import Finding, holds
from metastable.reproduce.rescaled_runs import (
    drop_legends,
    limit_corners,
    pure_run,
    residual_rate,
    skew_value,
)
from metastable.theory.limits import limit_geometry, polytope_residual

__all__ = ["hyperplanes", "polytope_times_subspace"]


def hyperplanes(*, tokens: int, draws: int, ratio: float, turns: float) -> Finding:
    """Random V whose largest eigenvalue is real, positive and simple: at most three hyperplanes."""
    from metastable.report.animation import animate_space
    from metastable.report.plots import draw_lines

    off, falls, kept, counts = [], 0.0, [], []
    for seed in range(draws):
        value = dominated_value(3, seed, ratio)
        geometry: Any = limit_geometry(value)
        start = gaussian_points(tokens, 3, seed=seed)
        run = pure_run(start, turns / geometry.growth, value=value, frames=81)
        levels = run.points @ geometry.functionals[0]  # (time, token)
        off.append(level_distance(levels[-1]))
        counts.append(occupied(levels[-1]))
        falls = min(falls, float(np.diff(levels.min(axis=1)).min()))
        falls = min(falls, float(-np.diff(levels.max(axis=1)).max()))
        kept.append((run, geometry, levels))
    # The document's picture has a part of V that shrinks too: show the tamest of the draws.
    run, geometry, levels = min(kept, key=lambda one: float(np.abs(one[0].points).max()))
    a, b = min(levels[-1].min(), 0.0), max(levels[-1].max(), 0.0)
    rows = [
        holds(
            f"φ_1*(z_i) tends to one of 0, a, b: at most three parallel hyperplanes, {draws} "
            "random V",
            "Theorem 3",
            max(off) < 1e-3 and max(counts) <= 3,
            "distance → 0, at most 3 planes",
            f"distance {max(off):.1e} of b − a, {max(counts)} planes",
            f"at λ_1 t = {turns:g}, for |λ_2| ≤ {ratio:g} λ_1",
        ),
        holds(
            "a(t) = min φ_1* increases and b(t) = max φ_1* decreases",
            "Lemma in the proof of Theorem 3",
            falls > -1e-9,
            "monotone",
            f"against the sense by {-falls:.1e}",
        ),
    ]
    figure = draw_lines(
        {f"token {i}": (run.times, levels[:, i]) for i in range(tokens)},
        "time t (SA clock)",
        "$\\varphi_1^*(z_i)$",
        f"Leading coordinate of {tokens} rescaled tokens in R³ for one random V; dotted, the "
        "levels 0, a and b.",
        lines=True,
    )
    ax = figure.axes[0]
    drop_legends(figure)
    for level in (0.0, a, b):
        ax.axhline(level, color="#d55e00", ls=":", lw=1.2)
    planes = (geometry.functionals[0], [0.0, a, b])
    movie = lambda path, frames: animate_space(run, path, frames=frames, planes=planes)
    return Finding(rows, {"levels": figure}, movies={"three hyperplanes": movie})


def polytope_times_subspace(*, tokens: int, draws: int, inner: float, horizon: float) -> Finding:
    """V = I on a plane F of R³ and smaller on a line G, in random skew bases."""
    from metastable.report.animation import animate_space
    from metastable.report.plots import draw_lines

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
    figure = draw_lines(
        dict(list(curves.items())[:6]),
        "time t (SA clock)",
        "largest residual in F",
        f"Distance of the F-parts of {tokens} tokens from the limit set of their polytope.",
        theory={"$e^{-t}$": (kept.times, np.exp(-kept.times))},
        log="y",
        lines=True,
    )
    film = _first(kept, 0.45)
    movie = lambda path, frames: animate_space(film, path, frames=frames)
    return Finding(rows, {"residual": figure}, movies={"polytope times line": movie})


def dominated_value(dim: int, seed: int, ratio: float) -> np.ndarray:
    """Gaussian V, drawn until λ_1 is real, positive, simple and |λ_2| ≤ ratio λ_1."""
    random = np.random.default_rng([seed, dim])
    while True:
        value = random.normal(size=(dim, dim))
        first, second = sorted(np.linalg.eigvals(value), key=abs, reverse=True)[:2]
        if abs(first.imag) < 1e-9 and first.real > 0 and abs(second) <= ratio * first.real:
            return value / first.real


def level_distance(values: np.ndarray) -> float:
    """Largest distance of φ_1*(z_i) from {0, a, b}, in units of b − a."""
    # Without a token on one side of 0 that hyperplane is missing, and its level is 0.
    a, b = min(values.min(), 0.0), max(values.max(), 0.0)
    return float(np.abs(values[:, None] - np.array([0.0, a, b])).min(axis=1).max() / (b - a))


def occupied(values: np.ndarray) -> int:
    """How many different levels the tokens lie on, to a hundredth of the largest."""
    ranked = np.sort(values)
    return 1 + int(np.sum(np.diff(ranked) > 0.01 * np.abs(ranked).max()))


def _complement(functionals: np.ndarray) -> np.ndarray:
    """A unit vector on which all functionals vanish."""
    return np.linalg.svd(functionals)[2][-1]


def _first(run: Trajectory, share: float) -> Trajectory:
    count = max(2, int(share * len(run.times)))
    return dataclasses.replace(run, times=run.times[:count], frames=run.frames[:count])
