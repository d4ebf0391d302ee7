"""Ordinary centres on the circle are parked cars."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.causal import greedy_centres, separation
from reproductions._slopes import fitted_slope
from reproductions.karagodin2024._centres import count_parked, count_strong

ENTRY = Entry(
    title="Ordinary centres are parked cars",
    places=["§5.1", "App. C"],
    claim=(
        "Tokens farther than δ from all earlier centres number 0.7476 · 2π/δ on the circle in a "
        "long sequence (Rényi's parking constant), and of order β^((d−1)/2) in general."
    ),
    method=(
        "Park random sequences by brute force; compare with Rényi's constant, with the "
        "finite-time law of random sequential adsorption, and fit the exponent on S²."
    ),
    subject="causal",
    basis="report",
    limits=(
        "The finite-time law treats the number of tokens as Poisson; on S² only the exponent is "
        "tested, over one decade of β, with a tolerance for curvature."
    ),
    planted="count_parked.angle * 1.05",
    settings={"lengths": [10, 30, 100, 300, 3000], "betas": [40.0, 160.0, 640.0], "samples": 400},
    fast={"lengths": [10, 50, 800], "betas": [40.0, 160.0], "samples": 150},
)


def parking_counts(*, lengths: list[int], betas: list[float], samples: int) -> Finding:
    """Counts on the circle against two laws, and their growth with β on S²."""
    angle = separation(64.0)
    found = np.array([count_parked(samples, n, 2, angle, seed=n) for n in lengths])
    rows = []
    # Past n tokens gaps shorter than the unit stay open for a while: 1/n of the street, Rényi.
    jam = greedy_centres(angle)
    left = jam - greedy_centres(angle, lengths[-1])
    rows.append(judge("ordinary centres of a long sequence, δ = 0.5", "§5.1", jam,
                      float(found[-1, 0]), absolute=left + 4 * float(found[-1, 1])))  # fmt: skip
    for n, (mean, error) in zip(lengths, found, strict=True):
        law = greedy_centres(angle, n)
        rows.append(judge(f"ordinary centres among {n} tokens", "derived", law, float(mean),
                          absolute=4 * float(error) + law / n))  # fmt: skip
    strong = count_strong(samples, lengths[-1] if lengths[-1] < 1000 else 1000, 2, angle, seed=1)
    rows.append(holds("strong centres are fewer: π/δ", "§5.1", strong[0] < found[-1, 0],
                      f"{math.pi / angle:.2f} < {jam:.2f}",
                      f"{strong[0]:.2f} < {found[-1, 0]:.2f}"))  # fmt: skip
    # As many tokens an area of δ² at every β, so that all are jammed alike.
    counts = np.array([count_parked(20, int(12 * b), 3, separation(b), seed=5) for b in betas])
    slope = fitted_slope(np.log(betas), np.log(counts[:, 0]))
    rows.append(judge("exponent of the count in β on S²", "§5.1", 1.0, slope, absolute=0.1))
    across = np.geomspace(lengths[0], lengths[-1], 60)
    laws = {
        "law of n tokens": (across, [greedy_centres(angle, n) for n in across]),
        "parking constant": (across[[0, -1]], [jam, jam]),
    }
    figure = plot_lines(
        {"counted": (lengths, *found.T)}, "tokens n", "ordinary centres on the circle",
        f"Mean over {samples} sequences, δ = {angle:g}.", theory=laws, log="x",
    )  # fmt: skip
    return Finding(rows, {"counts": figure})
