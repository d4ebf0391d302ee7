"""Spectrum of a Gaussian matrix that is not rescaled."""

from __future__ import annotations

import math

import numpy as np

from metastable.comparison.random_matrices.spectra import spectra
from metastable.core.verdict import judge
from metastable.report.figures.gaussian import plot_spectra
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.matrices import Semicircle

from ._spectra import REACH, near_law

ENTRY = Entry(
    title="Spectrum of a Gaussian matrix that is not rescaled",
    places=["Figure 3.2"],
    claim=(
        "Without the division by √n the radius is R = 2√(σ²n), 109.5 for n = 3000, and the "
        "prefactor 1/(2πσ²n) is 5.3e-5."
    ),
    method=(
        "The same matrix unscaled: its largest eigenvalue, the height of its histogram at 0, "
        "and the printed numbers against our law."
    ),
    subject="Gaussian",
    basis="text",
    limits="n = 3000 (600 under --fast), one seed; the printed numbers are checked on the law.",
    planted="Semicircle.scale * 1.1",
    settings={"sizes": [3000], "seed": 0},
    fast={"sizes": [600]},
)


def unscaled_spectrum(*, sizes: list[int], seed: int) -> Finding:
    """The same matrix without the division: the radius printed, and the height of the curve."""
    (found,) = spectra(["wigner-unscaled"], sizes, seed, progress=False)
    n = found.sizes[-1]
    radius = 2 * math.sqrt(n)
    share = np.mean(np.abs(found.values) < 0.05 * radius) / (0.1 * radius)
    # 5 % of the circle on both sides lie a hair below its top.
    height = float(np.diff(found.law.cdf(0.05 * radius * np.array([-1, 1])))[0]) / (0.1 * radius)
    published = Semicircle(scale=math.sqrt(3000))
    rows = [
        judge(f"largest eigenvalue at n = {n}, against R = 2√n", "Figure 3.2", radius,
              float(found.values[-1]), relative=3 * n ** (-2 / 3)),
        near_law("eigenvalues against the semicircle of radius R", "Figure 3.2", found),
        judge("R of our law at n = 3000", "printed 109.5", 109.5, published.edges[1],
              absolute=0.05),
        judge("prefactor 1/(2πσ²n) of our law at n = 3000", "printed 5.3e-5", 5.3e-5,
              float(published.density(np.zeros(1))[0]) / published.edges[1], absolute=0.05e-5),
        judge(f"height of the histogram at 0, n = {n}", "prefactor times R", height, float(share),
              relative=2 * REACH / (0.1 * n)),
    ]  # fmt: skip
    note = (
        "The prefactor is called the height of the curve. The height is the prefactor times R, "
        "5.8e-3 at n = 3000."
    )
    return Finding(rows, {"spectrum": plot_spectra([found])}, [note])
