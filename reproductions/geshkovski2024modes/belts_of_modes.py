"""Almost all modes lie in two belts."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from metastable.core.verdict import judge
from metastable.report.figures.plain import plot_histograms
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions.geshkovski2024modes._modes import (
    belt,
    count_modes,
    expected_modes,
    mode_density,
)

ENTRY = Entry(
    title="Almost all modes lie in two belts",
    places=["Theorem 1.2, point 2"],
    claim=(
        "Outside the belts 2 log n − 3 log β ≤ t² ≤ 2 log n − log β the mean number of modes is "
        "o(√(β log β))."
    ),
    method=(
        "Places of modes along β = √n: the share outside for growing n, the number inside the "
        "inner edge against the Kac–Rice integral, and beyond the outer edge against the number "
        "of samples there."
    ),
    subject="metastability",
    basis="report",
    limits=(
        "The share outside falls slowly, like 1/log β; only its fall is tested, not its limit. "
        "β = √n keeps both edges of the belts away from 0."
    ),
    planted="count_modes.beta * 1.4",
    settings={"sizes": [10000, 100000, 1000000, 10000000], "samples": 400},
    fast={"sizes": [10000, 100000, 1000000], "samples": 60},
)


def belts_of_modes(*, sizes: list[int], samples: int) -> Finding:
    """Shares of modes by belt for growing n."""
    rows, shares, errors, last = [], [], [], np.zeros(0)
    for n in sizes:
        beta = math.sqrt(n)
        low, high = belt(n, beta)
        draws = max(20, samples * 10000 // n)
        rng = np.random.default_rng(n)
        places = [np.abs(count_modes(rng.standard_normal(n), beta)) for _ in range(draws)]
        split = np.array([[(p < low).sum(), ((p >= low) & (p <= high)).sum(), (p > high).sum()]
                          for p in places])  # fmt: skip
        mean, error = split.mean(axis=0), split.std(axis=0, ddof=1) / math.sqrt(draws)
        scale = math.sqrt(beta * math.log(beta))
        shares.append((mean[0] + mean[2]) / scale)
        errors.append(math.hypot(error[0], error[2]) / scale)
        core, inside = expected_modes(n, beta, 0, low), expected_modes(n, beta, low, high)
        for claim, law, k in (("nearer to 0 than the belts", core, 0), ("in them", inside, 1)):
            rows.append(judge(f"modes {claim}, n = {n}", "derived", law, float(mean[k]),
                              absolute=4 * float(error[k]) + 0.05 * law))  # fmt: skip
        beyond = 2 * n * float(ndtr(-high))
        rows.append(holds(f"modes beyond the belts are fewer than samples there, n = {n}",
                          "derived", mean[2] - 4 * error[2] < beyond, f"< {beyond:.2f}",
                          f"{mean[2]:.2f}"))  # fmt: skip
        last = np.concatenate(places)
    gap = 4 * math.hypot(errors[0], errors[-1])
    rows.insert(
        0,
        holds(f"modes outside the belts over √(β log β) fall from n = {sizes[0]} to {sizes[-1]}",
              "Theorem 1.2", shares[0] - shares[-1] > gap, f"a fall by more than {gap:.3f}",
              f"{shares[0]:.3f} to {shares[-1]:.3f}"),
    )  # fmt: skip
    beta = math.sqrt(sizes[-1])
    t = np.linspace(0, belt(sizes[-1], beta)[1], 300)
    density = 2 * mode_density(t, sizes[-1], beta)
    figure = plot_histograms(
        {"places of modes": last}, "|t|",
        f"n = {sizes[-1]}, β = √n; belts from {belt(sizes[-1], beta)[0]:.2f} "
        f"to {belt(sizes[-1], beta)[1]:.2f}; dashed: Kac–Rice.",
        laws={"Kac–Rice": (t, density / max(len(last) / len(places), 1e-9))},
    )  # fmt: skip
    return Finding(rows, {"places": figure})
