"""A simple leading eigenvalue: three parallel hyperplanes."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.measures import gaussian_points
from metastable.report.figures.films import film_in_space
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.limits import limit_geometry

from ._pure_attention import dominated_value, level_distance, occupied, pure_run

ENTRY = Entry(
    title="A simple leading eigenvalue: three parallel hyperplanes",
    places=[
        "Theorem 3",
        "proof of Theorem 3, the levels 0, a, b",
        "section on parallel hyperplanes, moving picture",
    ],
    claim=(
        "If the eigenvalue of V of largest modulus is positive and simple, every rescaled "
        "token converges to one of at most three parallel hyperplanes, on which the leading "
        "dual coordinate is 0, a or b."
    ),
    method=(
        "Draw random V in R³ with a gap behind the leading eigenvalue, run to thirteen times "
        "its time scale, and measure the distance of the leading coordinate from 0, its "
        "smallest and its largest value."
    ),
    subject="clusters",
    basis="text",
    limits="Forty V in R³ whose second eigenvalue is half the first, 20 tokens, Q = K = I.",
    planted="pure_run.horizon * 0.3",
    settings={"tokens": 20, "draws": 40, "ratio": 0.5, "turns": 13.0},
    fast={"draws": 8},
)


def hyperplanes(*, tokens: int, draws: int, ratio: float, turns: float) -> Finding:
    """Random V whose largest eigenvalue is real, positive and simple: at most three hyperplanes."""
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
    figure = plot_lines(
        {f"token {i}": (run.times, levels[:, i]) for i in range(tokens)},
        "time t (SA clock)",
        "$\\varphi_1^*(z_i)$",
        f"Leading coordinate of {tokens} rescaled tokens in R³ for one random V; black "
        "lines, the levels 0, a and b.",
        lines=True,
        levels={"0": 0.0, "a": a, "b": b},
        legend=False,
    )
    planes = (geometry.functionals[0], [0.0, a, b])
    movie = lambda frames: film_in_space(run, frames=frames, planes=planes)
    return Finding(rows, {"levels": figure}, movies={"three hyperplanes": movie})
