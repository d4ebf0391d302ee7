"""Spectra of the random matrices a transformer starts from, beside their limit laws."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from metastable.comparison.verdict import Verdict, judge
from metastable.reproduce.finding import Finding, holds
from metastable.theory.fits import kolmogorov_distance, outliers
from metastable.theory.matrices import FussCatalan, Semicircle
from metastable.trials.spectra import Spectrum, spectra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "gaussian_spectrum",
    "positive_spectrum",
    "product_spectrum",
    "semicircle_law",
    "uniform_spectrum",
    "unscaled_spectrum",
]

# Distance of one spectrum from its law, times n: 2 to 3 for these matrices, and 1 value in n may
# stand outside.
REACH = 6.0

LAWS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda random, n: random.standard_normal((n, n)),
    "uniform, centred": lambda random, n: math.sqrt(12) * (random.random((n, n)) - 0.5),
    "signs": lambda random, n: random.choice([-1.0, 1.0], (n, n)),
    "Cauchy": lambda random, n: random.standard_cauchy((n, n)),
}


def semicircle_law(*, sizes: list[int], draws: int) -> Finding:
    """Symmetric matrices of independent entries of several laws, one of them without a variance."""
    from metastable.report.plots import draw_lines

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
    figure = draw_lines(
        {name: (n, each) for name, each in found.items()},
        "size n",
        "Kolmogorov distance",
        f"Distance of spectra of W/√n from the semicircle on [−2, 2], mean of {draws} matrices.",
        theory={"2.5/n": (n, 2.5 / n)},
        log="xy",
        lines=True,
    )
    return Finding(rows, {"distances": figure})


def gaussian_spectrum(*, sizes: list[int], seed: int) -> Finding:
    """Eigenvalues and singular values of a symmetric normal matrix divided by √n."""
    eigen, singular = spectra(["wigner", "wigner-singular"], sizes, seed, progress=False)
    edge = 3 * 2 * eigen.sizes[-1] ** (-2 / 3)  # a few widths of the Tracy–Widom law
    rows = [
        _near("eigenvalues against the semicircle", "Figure 3.1", eigen),
        _near("singular values against twice its right half", "Figure 3.1", singular),
        judge("largest eigenvalue", "Figure 3.1, the interval [−2, 2]", 2.0,
              float(eigen.values[-1]), absolute=edge),
        judge("smallest eigenvalue", "Figure 3.1, the interval [−2, 2]", -2.0,
              float(eigen.values[0]), absolute=edge),
        judge("outliers", "centred entries have none", 0, eigen.outliers.size, absolute=0),
    ]  # fmt: skip
    return Finding(rows, {"spectra": _drawn([eigen, singular])})


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
        _near("eigenvalues against the semicircle of radius R", "Figure 3.2", found),
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
    return Finding(rows, {"spectrum": _drawn([found])}, [note])


def uniform_spectrum(*, size: int, larger: int, seed: int) -> Finding:
    """Uniform entries have a mean: one eigenvalue leaves the semicircle."""
    from metastable.report.plots import draw_histograms

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
        _near(claim, place, one) for (claim, place), one in zip(places.items(), found, strict=True)
    ]
    whole = draw_histograms(
        {"eigenvalues": small.values}, "eigenvalue",
        f"All {size} eigenvalues of a symmetric matrix of uniform entries, not divided: one stands "
        f"at {small.values[-1]:.1f}.", bins=120,
    )  # fmt: skip
    return Finding(rows, {"outlier": whole, "bulk": _drawn(found)})


def positive_spectrum(*, sizes: list[int], seed: int) -> Finding:
    """WWᵀ/√n of centred uniform entries: Marchenko and Pastur, on an interval that grows."""
    from metastable.report.gaussians import draw_distances

    (found,) = spectra(["marchenko-pastur"], sizes, seed, progress=False)
    n = found.sizes[-1]
    edge = 4 * math.sqrt(n) / 3
    rows = [
        _near("eigenvalues against Marchenko–Pastur", "section 3.1.2, positive definite", found),
        judge("largest eigenvalue, which grows like 4σ²√n", "derived; σ² = 1/3", edge,
              float(found.values[-1]), relative=8 * n ** (-2 / 3)),
        holds("all eigenvalues are positive", "section 3.1.2", found.values[0] > -1e-9 * edge,
              "none below 0", float(found.values[0])),
    ]  # fmt: skip
    note = (
        "Divided by √n and not by n, the spectrum is that of Marchenko and Pastur stretched by √n: "
        "an interval that grows with the size."
    )
    figures = {"spectrum": _drawn([found]), "distances": draw_distances([found])}
    return Finding(rows, figures, [note])


def product_spectrum(*, size: int, seed: int) -> Finding:
    """W and V and their product: eigenvalues stay in [−2, 2], singular values do not."""
    from metastable.report.plots import draw_histograms

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
    figure = draw_histograms(
        {"squared singular values of WV": squares}, "squared singular value",
        f"Product of two {size} × {size} normal matrices, each divided by √n.",
        bins=np.linspace(0, 7, 57), laws={"Fuss–Catalan": (x, law.density(x))},
    )  # fmt: skip
    figure.axes[0].set_ylim(0, 2)
    return Finding(rows, {"product": figure})


def _near(claim: str, source: str, found: Spectrum) -> Verdict:
    """The distance of the largest spectrum from its law, which must be a few times 1/n."""
    n = found.sizes[-1]
    return judge(
        f"{claim}: Kolmogorov distance, n = {n}", source, 0.0, found.distances[-1],
        absolute=REACH / n,
    )  # fmt: skip


def _drawn(found: list[Spectrum]) -> Figure:
    """Each spectrum beside its law; in the corner of each panel the distance of the two."""
    from metastable.report.gaussians import draw_spectra

    figure = draw_spectra(found)
    figure.axes[0].set_ylabel("density")
    return figure
