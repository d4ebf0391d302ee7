"""Modes of uniform tokens on the circle, before and after they gather."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ive

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import uniform
from metastable.observe.kernel import kernel_modes
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.counts import count_distribution
from metastable.theory.spectrum import exit_time, max_rate
from metastable.theory.waves import expected_maxima

ENTRY = Entry(
    title="Modes of the first potential and first clusters",
    places=["abstract: the motive", "derived on the circle"],
    claim=(
        "The number of modes of the kernel density estimate of the tokens is the order of the "
        "number of metastable clusters: √β on the circle, where no logarithm appears, √(3β/2) "
        "before the tokens move and a number near it when they leave the uniform state."
    ),
    method=(
        "Count maxima of the potential of uniform tokens on the circle at time 0 and at the exit, "
        "and compare with Rice's formula for the powers I_k(β)² and with the law of counts at "
        "the exit."
    ),
    subject="clusters",
    basis="derived",
    limits=(
        "The circle with independent uniform tokens; the paper treats normal samples on the line "
        "and proves nothing on the motion. Tokens enough for the Gaussian limit."
    ),
    planted="kernel_modes.beta * 1.4",
    settings={"betas": [10.0, 20.0, 40.0], "tokens": 4000, "starts": 400, "runs": 60},
    fast={"betas": [20.0], "tokens": 1500, "starts": 150, "runs": 10},
)


def modes_before_clusters(*, betas: list[float], tokens: int, starts: int, runs: int) -> Finding:
    """Counts at time 0 and at the exit."""
    rows, before, after, first, second = [], [], [], [], []
    for beta in betas:
        time = exit_time(tokens, max_rate(beta, 2))
        still = [int(kernel_modes(uniform(tokens, 2, seed=k), beta)) for k in range(starts)]
        field, moved = SelfAttention(beta), []
        for seed in range(runs):
            run = flow(uniform(tokens, 2, seed=seed), field, time, frames=2)
            moved.append(int(kernel_modes(run.frames[-1], beta)))
        mean = np.mean(still), np.mean(moved)
        error = [np.std(c, ddof=1) / math.sqrt(len(c)) for c in (still, moved)]
        rice = expected_maxima(ive(np.arange(1, 12 * int(beta) + 1), beta) ** 2, 2)
        law = count_distribution(beta, 2, tokens, samples=400)
        spread = math.hypot(error[1], law.standard_error)
        rows += [
            judge(f"modes of the first potential, β = {beta:g}", "derived", rice,
                  float(mean[0]), absolute=4 * float(error[0]) + 5 / tokens * rice),
            judge(f"maxima at the exit, β = {beta:g}", "derived", law.mean, float(mean[1]),
                  absolute=4 * float(spread) + 0.05 * law.mean),
        ]  # fmt: skip
        before.append((mean[0], error[0]))
        after.append((mean[1], error[1]))
        first.append(rice)
        second.append(law.mean)
    rows.append(
        holds("the exit changes the number by less than a factor 1.5", "abstract",
              all(2 / 3 < b[0] / a[0] < 1.5 for a, b in zip(before, after, strict=True)),
              "2/3 to 1.5",
              ", ".join(f"{b[0] / a[0]:.2f}" for a, b in zip(before, after, strict=True)))
    )  # fmt: skip
    figure = plot_lines(
        {"before": (betas, *np.array(before).T), "at the exit": (betas, *np.array(after).T)},
        "β", "maxima of the potential", f"{tokens} uniform tokens on the circle.",
        theory={"Rice": (betas, first), "law at the exit": (betas, second),
                "√(3β/2)": (betas, np.sqrt(1.5 * np.array(betas)))}, log="xy",
    )  # fmt: skip
    return Finding(rows, {"maxima": figure})
