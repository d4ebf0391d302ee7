"""Spectrum of the product WV."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.report.figures.plain import plot_histograms
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.fits import kolmogorov_distance, outliers
from metastable.theory.matrices import FussCatalan

from ._spectra import REACH

ENTRY = Entry(
    title="Spectrum of the product WV",
    places=["section 3.2, initial matrices"],
    claim=(
        "With normal entries divided by √n the matrices of a layer keep their eigenvalues in "
        "[−2, 2]."
    ),
    method=(
        "Eigenvalues of W, V and WV; singular values of WV, which is what bounds a layer, "
        "against the law of products."
    ),
    subject="Gaussian",
    basis="text",
    limits="One draw of size 1000 (400 under --fast).",
    planted="FussCatalan.scale * 1.3",
    settings={"size": 1000, "seed": 0},
    fast={"size": 400},
)


def product_spectrum(*, size: int, seed: int) -> Finding:
    """W and V and their product: eigenvalues stay in [−2, 2], singular values do not."""
    random = np.random.default_rng(seed)
    w, v = (random.standard_normal((size, size)) / math.sqrt(size) for _ in "wv")
    radii = [float(np.abs(np.linalg.eigvals(m)).max()) for m in (w, v, w @ v)]
    squares = np.linalg.svd(w @ v, compute_uv=False)[::-1] ** 2
    law = FussCatalan(order=2)
    rows = [
        holds("eigenvalues of W, V and WV stay in [−2, 2]", "section 3.2", max(radii) < 2,
              "modulus below 2", f"{max(radii):.3f}, the circular law says 1"),
        judge("squared singular values of WV against the law of products",
              "penson2011product", 0.0, kolmogorov_distance(squares, law), absolute=REACH / size),
        judge("largest singular value of WV, which is more than 2", "√(27/4)",
              math.sqrt(6.75), float(np.sqrt(squares[-1])), relative=8 * size ** (-2 / 3)),
        judge("outliers", "product of centred matrices", 0, outliers(squares, law).size,
              absolute=0),
    ]  # fmt: skip
    x = np.linspace(0.02, 6.75, 500)
    figure = plot_histograms(
        {"squared singular values of WV": squares}, "squared singular value",
        f"Product of two {size} × {size} normal matrices, each divided by √n.",
        bins=np.linspace(0, 7, 57), laws={"Fuss–Catalan": (x, law.density(x))},
        y=Axis("density", limits=(0.0, 2.0)),
    )  # fmt: skip
    return Finding(rows, {"product": figure})
