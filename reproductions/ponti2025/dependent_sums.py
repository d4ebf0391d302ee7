"""Sums of dependent Gaussians."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import kstest, norm

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.report.figures.plain import plot_histograms
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Sums of dependent Gaussians",
    places=["Lemma A.2"],
    claim=(
        "A sum of Gaussian variables is Gaussian with the sum of the variances; section 3.2 "
        "uses this for X + σ²X."
    ),
    method=(
        "Samples of independent, of proportional, and of uncorrelated but not jointly normal "
        "Gaussians: variance and law of their sums."
    ),
    known="disagree",
    correction=(
        "The lemma needs independence, and X and σ²X are dependent: that X + μ + σ²X is "
        "Gaussian follows from being an affine image, with variance (1 + σ²)²σ². Dependent "
        "Gaussians can have a sum that is not Gaussian."
    ),
    subject="Gaussian",
    basis="text",
    limits="One deviation 0.8 and 200 000 samples in one dimension.",
    planted="np.var * 1.1",
    settings={"deviation": 0.8, "samples": 200000, "seed": 0},
    fast={"samples": 50000},
)


def dependent_sums(*, deviation: float, samples: int, seed: int) -> Finding:
    """Sums of Gaussians: independent, proportional, and uncorrelated but not jointly normal."""
    random = np.random.default_rng(seed)
    x, y = deviation * random.standard_normal((2, samples))
    flipped = x * random.choice([-1.0, 1.0], samples)
    added = deviation**2 * x  # what attention adds to X, up to the constant μ
    error = math.sqrt(2 / samples)  # relative standard error of an empirical variance
    independent = kstest((x + y) / (math.sqrt(2) * deviation), "norm")
    rows = [
        judge("variance of X + σ²X by the rule for independent variables, σ² + σ⁶",
              "Lemma A.2 as used in section 3.2", deviation**2 + deviation**6,
              float(np.var(x + added)), relative=4 * error),
        judge("its variance as an affine image, (1 + σ²)²σ²", "affine maps of a Gaussian",
              (1 + deviation**2) ** 2 * deviation**2, float(np.var(x + added)),
              relative=4 * error),
        judge("independent X and Y: variance of the sum", "Lemma A.2", 2 * deviation**2,
              float(np.var(x + y)), relative=4 * error),
        holds("independent X and Y: the sum is normal (Kolmogorov–Smirnov)", "Lemma A.2",
              independent.pvalue > 1e-3, "p above 0.001", float(independent.pvalue)),
        judge("X and ±X, each normal and uncorrelated: share of sums that are exactly 0",
              "a sum of Gaussians need not be Gaussian", 0.5, float(np.mean(x + flipped == 0)),
              absolute=4 * 0.5 / math.sqrt(samples)),
    ]  # fmt: skip
    edge = 5 * deviation
    grid = np.linspace(-edge, edge, 400)
    figure = plot_histograms(
        {"X + Y, independent": x + y, "X ± X, uncorrelated": x + flipped}, "sum",
        f"Two sums of N(0, {deviation:g}²) variables with the same variance; the second is 0 half "
        "of the time.", bins=np.linspace(-edge, edge, 82),
        laws={"N(0, 2σ²)": (grid, norm.pdf(grid, scale=math.sqrt(2) * deviation))},
        y=Axis("density", limits=(0.0, 0.34 / deviation)),  # the atom at 0 would dwarf the rest
    )  # fmt: skip
    return Finding(rows, {"sums": figure})
