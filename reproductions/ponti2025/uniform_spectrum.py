"""Uniform entries: one eigenvalue stands apart."""

from __future__ import annotations

import math

from metastable.comparison.random_matrices.spectra import spectra
from metastable.core.verdict import judge
from metastable.report.figures.gaussian import plot_spectra
from metastable.report.figures.plain import plot_histograms
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

from ._spectra import near_law

ENTRY = Entry(
    title="Uniform entries: one eigenvalue stands apart",
    places=["Figure 3.3", "Figure 3.4", "Figure 3.5"],
    claim=(
        "Entries uniform on [0, 1] have the mean 1/2: an isolated eigenvalue stands at n/2 "
        "(150 for n = 300), the others follow the semicircle, divided by √n or not."
    ),
    method=(
        "Draw such matrices, find the values outside the law, and measure the distance of the "
        "others."
    ),
    subject="Gaussian",
    basis="text",
    limits="n = 300 and 3000, one seed.",
    planted="spectra.values * 1.1",
    settings={"size": 300, "larger": 3000, "seed": 0},
    fast={"larger": 600},
)


def uniform_spectrum(*, size: int, larger: int, seed: int) -> Finding:
    """Uniform entries have a mean: one eigenvalue leaves the semicircle."""
    small = spectra(["uniform-unscaled"], [size], seed, progress=False)[0]
    names = ["uniform", "uniform-singular", "uniform-unscaled"]
    found = spectra(names, [larger], seed, progress=False)
    deviation = math.sqrt(2 / 12)  # of the outlier, for entries of variance 1/12
    rows = [
        judge(f"the outlier at n = {size}, against nμ", "Figure 3.3", size / 2,
              float(small.values[-1]), relative=0.01),
        judge("the same against nμ + σ²/μ", "furedi1981eigenvalues",
              float(small.outlier_expected or 0), float(small.values[-1]), absolute=3 * deviation),
        judge("number of outliers", "a matrix of rank one added", 1, small.outliers.size,
              absolute=0),
    ]  # fmt: skip
    places = {
        "the other eigenvalues": "Figure 3.4, left",
        "the other singular values": "Figure 3.4, right",
        "eigenvalues that are not divided": "Figure 3.5",
    }
    rows += [
        near_law(claim, place, one)
        for (claim, place), one in zip(places.items(), found, strict=True)
    ]
    whole = plot_histograms(
        {"eigenvalues": small.values}, "eigenvalue",
        f"All {size} eigenvalues of a symmetric matrix of uniform entries, not divided: one stands "
        f"at {small.values[-1]:.1f}.", bins=120,
    )  # fmt: skip
    return Finding(rows, {"outlier": whole, "bulk": plot_spectra(found)})
