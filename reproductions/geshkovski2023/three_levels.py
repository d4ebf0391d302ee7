"""Three levels, whatever the gap."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.core.verdict import judge
from metastable.measures import gaussian_points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.limits import limit_geometry

from ._pure_attention import dominated_value, level_distance, occupied, pure_run

ENTRY = Entry(
    title="Three levels, whatever the gap",
    places=["proof of Theorem 3, the three levels", "Theorem 3"],
    claim=(
        "The leading coordinate of every token tends to 0, a or b, the limits of its smallest "
        "and largest value; the theorem asks for no gap behind the leading eigenvalue."
    ),
    method=(
        "Draw random V of the plane with a simple leading eigenvalue and any gap, run to a "
        "fixed number of time scales, and measure the distance from the three levels against "
        "the gap."
    ),
    subject="clusters",
    basis="text",
    limits=(
        "A hundred V of the plane and 20 tokens; for gaps below 0.3 only a share of nine tenths"
        " is asked for."
    ),
    implies=("hyperplanes",),
    planted="level_distance * 100",
    settings={"tokens": 20, "draws": 100, "turns": 13.0},
    fast={"draws": 24},
)


def three_levels(*, tokens: int, draws: int, turns: float) -> Finding:
    """Levels of φ_1* without asking for a gap behind λ_1."""
    gaps, off, counts, outside = [], [], [], 0
    for seed in range(draws):
        value = dominated_value(2, seed, 1.0)
        geometry: Any = limit_geometry(value)
        run = pure_run(gaussian_points(tokens, 2, seed=seed), turns, value=value)
        levels = run.points[-1] @ geometry.functionals[0]
        second = np.sort(np.abs(np.linalg.eigvals(value)))[0]
        gaps.append(1 - second)
        off.append(level_distance(levels))
        counts.append(occupied(levels))
        outside += geometry.kind != "hyperplanes"
    off, gaps = np.array(off), np.array(gaps)
    wide = gaps > 0.3
    share = float(np.mean(off < 1e-3))
    rows = [
        holds(
            "c ∈ {0, a, b} for every token, whatever the gap λ_1 − |λ_2| > 0: share of V with all "
            f"tokens within 1e−3 at λ_1 t = {turns:g}",
            "proof of Theorem 3, the three levels",
            share >= 0.9 and outside == 0,
            "at least 0.9; the rest turn later",
            f"{share:.3f} of {draws}",
        ),
        judge(
            "with a gap above 0.3: largest distance from {0, a, b}, in units of b − a",
            "Theorem 3",
            0.0,
            float(off[wide].max()),
            absolute=1e-3,
        ),
        holds(
            "occupied hyperplanes",
            "Theorem 3",
            max(np.array(counts)[off < 1e-3]) <= 3,
            "at most 3",
            f"{min(counts)} to {max(np.array(counts)[off < 1e-3])}",
        ),
    ]
    figure = plot_lines(
        {"random V": (gaps, np.maximum(off, 1e-8))},
        "gap $(\\lambda_1 - |\\lambda_2|)/\\lambda_1$",
        "largest distance from {0, a, b}",
        f"How far the slowest of {tokens} tokens is from the three levels, for {draws} random V of "
        "the plane: slow where the gap is small.",
        log="y",
    )
    return Finding(rows, {"levels": figure})
