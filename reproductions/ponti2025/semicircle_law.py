"""Wigner's semicircle."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from metastable.core.verdict import judge
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.fits import kolmogorov_distance
from metastable.theory.matrices import Semicircle

from ._spectra import REACH

ENTRY = Entry(
    title="Wigner's semicircle",
    places=["Theorem 3.1"],
    claim=(
        "The eigenvalues of W/√n, W symmetric with independent centred entries of variance 1, "
        "tend in law to the semicircle on [−2, 2]."
    ),
    method=(
        "Draw matrices of normal, uniform and sign entries, and of Cauchy entries which have "
        "no variance, at growing n; measure the Kolmogorov distance of each spectrum from the "
        "semicircle."
    ),
    subject="Gaussian",
    basis="text",
    limits="Sizes up to 1000, six draws of four laws of entries.",
    planted="Semicircle.scale * 1.1",
    settings={"sizes": [100, 300, 1000], "draws": 6},
    fast={"sizes": [60, 120, 240]},
)

LAWS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda random, n: random.standard_normal((n, n)),
    "uniform, centred": lambda random, n: math.sqrt(12) * (random.random((n, n)) - 0.5),
    "signs": lambda random, n: random.choice([-1.0, 1.0], (n, n)),
    "Cauchy": lambda random, n: random.standard_cauchy((n, n)),
}


def semicircle_law(*, sizes: list[int], draws: int) -> Finding:
    """Symmetric matrices of independent entries of several laws, one of them without a variance."""
    found = {}
    for name, draw in LAWS.items():
        found[name] = []
        for n in sizes:
            each = []
            for k in range(draws):
                entries = np.tril(draw(np.random.default_rng([n, k]), n)) / math.sqrt(n)
                values = np.linalg.eigvalsh(entries + np.tril(entries, -1).T)
                each.append(kolmogorov_distance(values, Semicircle()))
            found[name].append(float(np.mean(each)))
    kept = {name: np.array(found[name]) for name in LAWS if name != "Cauchy"}
    n = np.array(sizes, float)
    slopes = [np.polyfit(np.log(n), np.log(each), 1)[0] for each in kept.values()]
    rows = [
        judge(
            f"distance of the spectrum from the semicircle at n = {sizes[-1]}, worst of three laws",
            "Theorem 3.1; wigner1958distribution",
            0.0, max(each[-1] for each in kept.values()), absolute=REACH / sizes[-1],
        ),
        judge(
            "exponent of n in that distance (a spectrum is stiffer than independent values)",
            "log n/n", -1.0, float(np.mean(slopes)), absolute=0.25,
        ),
        holds(
            "entries without a variance (Cauchy) do not follow it", "Theorem 3.1, Var < ∞",
            found["Cauchy"][-1] > 0.1, "far from the semicircle", found["Cauchy"][-1],
        ),
    ]  # fmt: skip
    figure = plot_lines(
        {name: (n, each) for name, each in found.items()},
        "size n",
        "Kolmogorov distance",
        f"Distance of spectra of W/√n from the semicircle on [−2, 2], mean of {draws} matrices.",
        theory={"2.5/n": (n, 2.5 / n)},
        log="xy",
        lines=True,
    )
    return Finding(rows, {"distances": figure})
