"""How many clusters form first."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import uniform
from metastable.observe import kernel_modes
from metastable.report.figures.plain import plot_bars, plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.counts import count_distribution, expected_count
from metastable.theory.spectrum import dominant_mode, exit_time, max_rate

ENTRY = Entry(
    title="How many clusters form first",
    places=["summary: number of clusters"],
    claim=(
        "The number of first clusters is determined by the dominant mode of the linearised "
        "equation."
    ),
    method=(
        "Counts at exit over many starts beside the predicted distribution; the dominant mode "
        "alone is only its most likely value."
    ),
    subject="clusters",
    basis="text",
    limits=(
        "The circle, 1000 tokens, five β up to 15, 200 starts; no other dimension and no number"
        " of tokens near the number of clusters."
    ),
    contradicts=("clusters_by_bessel",),
    planted="SelfAttention.beta * 2.0",
    settings={"betas": [3.0, 5.0, 7.0, 10.0, 15.0], "tokens": 1000, "seeds": 200},
    fast={"betas": [5.0, 9.0], "seeds": 24},
)


def clusters_from_beta(*, betas: list[float], tokens: int, seeds: int) -> Finding:
    """The number of first clusters follows from β by the Bessel formula, as a distribution."""
    means, errors, expected, figures = [], [], [], {}
    for beta in betas:
        rate = max_rate(beta, 2)
        foretold = count_distribution(beta, 2, tokens, samples=2000)
        time = exit_time(tokens, rate)
        counts = []
        for seed in range(seeds):
            run = flow(uniform(tokens, 2, seed), SelfAttention(beta), time, frames=2)
            counts.append(len(kernel_modes(run.frames[-1], beta).masses))
        means.append(float(np.mean(counts)))
        errors.append(float(np.std(counts) / math.sqrt(seeds)))
        expected.append(foretold.mean)
        most = max(max(counts), max(foretold.counts)) + 1
        seen = np.bincount(counts, minlength=most) / seeds
        places = list(range(1, most))
        figures[f"beta{beta:g}"] = plot_bars(
            places,
            {
                "predicted": [foretold.counts.get(k, 0.0) for k in places],
                "seen": seen[1:most].tolist(),
            },
            "clusters at exit", "share",
            f"β = {beta:g}: {seeds} starts of {tokens} tokens; dominant mode "
            f"{dominant_mode(beta, 2)}.",
        )  # fmt: skip
    rows = [
        judge(f"mean number of first clusters, β = {beta:g}", "eigenvalue k²I_k(β)/(βI_0(β))",
              e, m, absolute=0.15 + 3 * s)
        for beta, e, m, s in zip(betas, expected, means, errors, strict=True)
    ]  # fmt: skip
    figures["means"] = plot_lines(
        {"seen": (betas, means, errors)}, "β", "mean number of clusters at exit",
        "Circle, softmax attention.",
        theory={
            "predicted distribution": (betas, expected),
            "√(2β)": (betas, [expected_count(b, 2) for b in betas]),
        },
    )  # fmt: skip
    return Finding(rows, figures)
