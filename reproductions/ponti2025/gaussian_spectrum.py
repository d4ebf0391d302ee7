"""Spectrum of a rescaled Gaussian matrix."""

from __future__ import annotations

from metastable.comparison.random_matrices.spectra import spectra
from metastable.core.verdict import judge
from metastable.report.figures.gaussian import plot_spectra
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

from ._spectra import near_law

ENTRY = Entry(
    title="Spectrum of a rescaled Gaussian matrix",
    places=["Figure 3.1", "Listing 1"],
    claim=(
        "Normal entries divided by √n: eigenvalues fill [−2, 2] under the semicircle, "
        "singular values [0, 2] under twice its right half."
    ),
    method=(
        "The listing's matrix at several sizes; distances from both laws, and the extreme "
        "eigenvalues."
    ),
    subject="Gaussian",
    basis="text",
    limits="Three sizes up to 3000, one seed; convergence is judged by finite-size bands.",
    planted="spectra.values * 1.1",
    settings={"sizes": [300, 1000, 3000], "seed": 0},
    fast={"sizes": [200, 600]},
)


def gaussian_spectrum(*, sizes: list[int], seed: int) -> Finding:
    """Eigenvalues and singular values of a symmetric normal matrix divided by √n."""
    eigen, singular = spectra(["wigner", "wigner-singular"], sizes, seed, progress=False)
    edge = 3 * 2 * eigen.sizes[-1] ** (-2 / 3)  # a few widths of the Tracy–Widom law
    rows = [
        near_law("eigenvalues against the semicircle", "Figure 3.1", eigen),
        near_law("singular values against twice its right half", "Figure 3.1", singular),
        judge("largest eigenvalue", "Figure 3.1, the interval [−2, 2]", 2.0,
              float(eigen.values[-1]), absolute=edge),
        judge("smallest eigenvalue", "Figure 3.1, the interval [−2, 2]", -2.0,
              float(eigen.values[0]), absolute=edge),
        judge("outliers", "centred entries have none", 0, eigen.outliers.size, absolute=0),
    ]  # fmt: skip
    return Finding(rows, {"spectra": plot_spectra([eigen, singular])})
