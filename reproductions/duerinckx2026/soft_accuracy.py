"""Retrieval of a word by particles: several modes and a steep slope."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.observe.retrieval import position_bias, retrieval_profile
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.retrieval import least_retrieved, retrieval_law
from metastable.theory.spectrum import growth_rates

ENTRY = Entry(
    title="Retrieval of one word out of M",
    places=["definition of the soft accuracy", "public code: profile_value, omega_nm"],
    claim=(
        "With M words on the circle, the accuracy of naming the source's word, softened by a "
        "Gaussian of width π/M, exceeds chance by the sum over modes of e^(−π²n²/2M²) times the "
        "closed profile with a_n = n² I_n(β), to first order in 1/N, for any slope λ."
    ),
    method=(
        "Profiles of random particle chains in the first modes, each with its own seed, weighted "
        "and extrapolated in 1/N, against the sum of closed forms at a slope three times that "
        "of the published figures."
    ),
    subject="long context",
    basis="code",
    limits=(
        "Three modes at most, few words: later modes weigh less than 1e−3. Sources in the "
        "first quarter are left out; retrieval is of the source's initial token."
    ),
    implies=("lost_middle",),
    planted="retrieval_profile.horizon * 1.5",
    settings={
        "modes": [1, 2, 3],
        "sizes": [32, 64],
        "systems": 8192,
        "slope": 3.0,
        "beta": 1.0,
        "words": 3.0,
    },
    fast={"modes": [1, 2], "sizes": [16, 32], "systems": 1024},
)


def soft_accuracy(
    *, modes: list[int], sizes: list[int], systems: int, slope: float, beta: float, words: float
) -> Finding:
    """Weighted profiles of particles, extrapolated, against the weighted law."""
    rates = growth_rates(beta, 2, max(modes), normalized=False)[np.array(modes) - 1]
    horizon = 0.8 / float(rates[0])
    weights = np.exp(-0.5 * (math.pi * np.array(modes) / words) ** 2)
    strengths = np.asarray(rates) * horizon
    edges = np.array([0.25, 0.5, 0.75, 1.0])
    curves, ratios, errors = {}, [], []
    for count in sizes:
        bias = position_bias(count, slope, own=False)
        total, square = np.zeros(3), np.zeros(3)
        for mode, weight in zip(modes, weights, strict=True):
            profile = retrieval_profile(bias, beta, horizon, systems=systems, mode=mode,
                                        precision="float32", steps=8, seed=mode)  # fmt: skip
            place, value, error = profile.binned(edges).T
            total += weight * value
            square += (weight * error) ** 2
        law = retrieval_law(profile.position, slope, strengths, weights)
        group = np.digitize(profile.position, edges)
        mean = np.array([law[group == k].mean() for k in (1, 2, 3)])
        ratios.append(total / mean)
        errors.append(np.sqrt(square) / mean)
        curves[f"{count} tokens"] = (place, total, np.sqrt(square))
    limit = 2 * ratios[-1] - ratios[-2]
    error = np.sqrt(4 * errors[-1] ** 2 + errors[-2] ** 2)
    rows = [
        judge(f"excess accuracy in the {part} over the closed form, many tokens",
              "public code", 1.0, float(value), absolute=max(0.02, 4 * float(bound)))
        for part, value, bound in zip(("second quarter", "third quarter", "last quarter"), limit,
                                      error, strict=True)
    ]  # fmt: skip
    bottom = least_retrieved(slope, strengths, weights)
    first, low, last = retrieval_law([0.01, bottom, 1.0], slope, strengths, weights)
    rows.append(holds("it is a U at this slope", "theorem on the U shape",
                      bool(first > low < last) and bottom < 1, "primacy, bottom inside, recency",
                      f"{first:.3f}, {low:.3f} at s = {bottom:.3f}, {last:.3f}"))  # fmt: skip
    s = np.linspace(0.03, 1.0, 150)
    figure = plot_lines(
        curves, "position s of the source", "N times the excess accuracy (weighted modes)",
        f"{words:g} words, λ = {slope:g}, a₁t = 0.8, {systems} random starts a mode.",
        theory={"closed form, many tokens": (s, retrieval_law(s, slope, strengths, weights))},
    )  # fmt: skip
    return Finding(rows, {"profile": figure})
