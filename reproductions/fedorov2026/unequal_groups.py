"""Only equal groups of tokens can stay opposite."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import RandomValue
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions._random_depth import cosines, many_runs, mean_with_error

ENTRY = Entry(
    title="Only equal groups of tokens can stay opposite",
    places=["arXiv:2601.21942, abstract (opposite formations of more than two tokens)"],
    claim=(
        "Opposite groups of k and n−k tokens under common noise stay exactly opposite if k = n/2 "
        "and are driven apart at a finite rate if not."
    ),
    method=(
        "Groups started exactly opposite; mean of 1 + ρ after a short time, over the rate "
        "(d−1)(‖m₁‖−‖m₂‖)²/2 of tokens that see means of unequal length."
    ),
    subject="random depth",
    basis="derived",
    limits="Short times; whether groups that came apart find back to equal halves is not asked.",
    planted="RandomValue.scale = 1.2",
    settings={"dim": 4, "beta": 1.0, "sizes": [[1, 2], [1, 3], [2, 3], [1, 7]], "time": 0.01,
              "samples": 100000},
    fast={"samples": 8000, "sizes": [[1, 2], [1, 3]]},
)  # fmt: skip


def unequal_groups(
    *, dim: int, beta: float, sizes: list[list[int]], time: float, samples: int
) -> Finding:
    """E(1 + ρ)/t of two tokens in opposite groups of different sizes."""
    rows, differences, rates, errors = [], [], [], []
    pole = np.eye(dim)[0]
    for few, many in sizes:
        start = np.array([pole] + [-pole] * many + [pole] * (few - 1))
        # Richardson in time: E(1+ρ) = rate t + c t².
        one, two = (
            1 + cosines(many_runs(RandomValue(beta), start, [t], samples=samples, step=t / 4)[0])
            for t in (time, 2 * time)
        )
        (first, e1), (second, e2) = mean_with_error(one), mean_with_error(two)
        rate, error = (2 * first - second / 2) / time, math.hypot(2 * e1, e2 / 2) / time
        p, q = few * math.exp(beta), many * math.exp(-beta)
        r, s = many * math.exp(beta), few * math.exp(-beta)
        gap = (p - q) / (p + q) - (r - s) / (r + s)
        exact = (dim - 1) * gap**2 / 2
        claim = f"groups of {few} and {many}: rate at which 1 + ρ grows from 0"
        rows.append(judge(claim, "derived", exact, rate, absolute=4 * error))
        differences.append(gap**2)
        rates.append(rate)
        errors.append(error)
    start = np.array([pole, -pole, pole, -pole])
    apart = 1 + cosines(many_runs(RandomValue(beta), start, [1.0], samples=50, step=0.02)[0])
    worst = float(np.abs(apart).max())
    rows.append(
        holds("two pairs of opposite tokens are still opposite at time 1", "derived",
              worst < 1e-12, "1 + ρ = 0", worst)
    )  # fmt: skip
    line = np.array([0.0, max(differences)])
    series = [
        Series("runs", differences, rates, errors, style="points"),
        Series("(d−1)/2 times it", line, (dim - 1) / 2 * line, role="theory"),
    ]
    axes = Axis("(‖m₁‖ − ‖m₂‖)²"), Axis("growth of 1 + ρ in a unit of time (random depth)")
    return Finding(rows, {"rates": Lines(*axes, series)})
