"""The number of modes grows like √(β log β)."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.measures import Points
from metastable.observe.kernel import kernel_modes
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions._slopes import fitted_slope
from reproductions.geshkovski2024modes._modes import belt, count_modes, expected_modes

ENTRY = Entry(
    title="The number of modes of a normal sample",
    places=["Theorem 1.2, point 1", "abstract"],
    claim=(
        "A Gaussian kernel density estimate of n normal samples with bandwidth β^(−1/2) has "
        "Θ(√(β log β)) modes in the mean, for β between n^c and n^(2−c)."
    ),
    method=(
        "Count maxima on a fine grid along β = n and n^0.8; fit against √(β log β); compare the "
        "count within the belts with the Kac–Rice integral of exact moments; and the grid with "
        "the library's mean shift."
    ),
    subject="metastability",
    basis="text",
    limits=(
        "Introduction read, proofs not. The Kac–Rice integral takes P' and P'' for Gaussian, "
        "which fails beyond the belts: only the belts are compared with it, within 3 %."
    ),
    planted="count_modes.beta * 1.3",
    settings={"sizes": [1000, 10000, 100000, 1000000], "powers": [0.8, 1.0], "samples": 60},
    fast={"sizes": [1000, 10000, 100000], "samples": 15},
)


def modes_of_a_sample(*, sizes: list[int], powers: list[float], samples: int) -> Finding:
    """Counts over the line and within the belts."""
    rows, curves, laws, growth = [], {}, {}, []
    for power in powers:
        found, scales = [], []
        for n in sizes:
            beta = float(n) ** power
            low, high = belt(n, beta)
            draws = max(4, samples // 10) if n > 100000 else samples
            places = [np.abs(_modes(n, beta, seed)) for seed in range(draws)]
            counts = np.array([len(p) for p in places])
            within = np.array([((p > low) & (p < high)).sum() for p in places])
            law = expected_modes(n, beta, low, high)
            allowed = 4 * float(within.std(ddof=1)) / math.sqrt(draws) + 0.03 * law
            claim = f"modes within the belts, n = {n}, β = n^{power:g}"
            rows.append(judge(claim, "derived", law, float(within.mean()), absolute=allowed))
            found.append(counts.mean())
            scales.append(math.sqrt(beta * math.log(beta)))
        growth.append(fitted_slope(np.log(scales), np.log(found)))
        curves[f"β = n^{power:g}"] = (scales, np.array(found))
        laws[f"belts only, β = n^{power:g}"] = (
            scales,
            [expected_modes(n, n**power, *belt(n, n**power)) for n in sizes],
        )
    rows.insert(
        0,
        judge("exponent of the count in √(β log β), mean over both paths", "Theorem 1.2", 1.0,
              float(np.mean(growth)), absolute=0.1),
    )  # fmt: skip
    same = []
    for seed in range(6):
        sample = np.random.default_rng(seed).standard_normal(150)
        shift = int(kernel_modes(Points(sample[:, None], on_sphere=False), 100.0))
        same.append(shift - len(count_modes(sample, 100.0)))
    rows.append(holds("the grid and the mean shift count alike, 150 samples at β = 100", "derived",
                      not any(same), "0 in all", f"{same}"))  # fmt: skip
    figure = plot_lines(
        curves, "√(β log β)", "modes",
        f"Mean over up to {samples} normal samples.", theory=laws, log="xy",
    )  # fmt: skip
    return Finding(rows, {"modes": figure})


def _modes(n: int, beta: float, seed: int) -> np.ndarray:
    return count_modes(np.random.default_rng([seed, n]).standard_normal(n), beta)
