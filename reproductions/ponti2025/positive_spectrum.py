"""Positive definite start: Marchenko and Pastur."""

from __future__ import annotations

import math

from metastable.comparison.random_matrices.spectra import spectra
from metastable.core.verdict import judge
from metastable.report.figures.gaussian import plot_distances, plot_spectra
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._spectra import near_law

ENTRY = Entry(
    title="Positive definite start: Marchenko and Pastur",
    places=["section 3.1.2, uniform entries of mean 0"],
    claim=(
        "WWᵀ/√n with W uniform on [−1, 1] has the Marchenko–Pastur distribution of eigenvalues."
    ),
    method=(
        "Draw it at several sizes and compare with the law of ratio 1 and scale σ²√n, which "
        "states the scaling the document leaves out."
    ),
    subject="Gaussian",
    basis="text",
    limits="Four sizes up to 3000, one seed.",
    planted="spectra.values * 1.3",
    settings={"sizes": [100, 300, 1000, 3000], "seed": 0},
    fast={"sizes": [100, 300, 600]},
)


def positive_spectrum(*, sizes: list[int], seed: int) -> Finding:
    """WWᵀ/√n of centred uniform entries: Marchenko and Pastur, on an interval that grows."""
    (found,) = spectra(["marchenko-pastur"], sizes, seed, progress=False)
    n = found.sizes[-1]
    edge = 4 * math.sqrt(n) / 3
    rows = [
        near_law("eigenvalues against Marchenko–Pastur", "section 3.1.2, positive definite", found),
        judge("largest eigenvalue, which grows like 4σ²√n", "derived; σ² = 1/3", edge,
              float(found.values[-1]), relative=8 * n ** (-2 / 3)),
        holds("all eigenvalues are positive", "section 3.1.2", found.values[0] > -1e-9 * edge,
              "none below 0", float(found.values[0])),
    ]  # fmt: skip
    note = (
        "Divided by √n and not by n, the spectrum is that of Marchenko and Pastur stretched by √n: "
        "an interval that grows with the size."
    )
    figures = {"spectrum": plot_spectra([found]), "distances": plot_distances([found])}
    return Finding(rows, figures, [note])
