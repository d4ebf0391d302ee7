"""Spectra of random matrices beside their limit laws, with the distance as a number."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.core import checks
from metastable.core.progress import Bar
from metastable.theory import matrices as laws
from metastable.theory.fits import kolmogorov_distance, outliers
from metastable.theory.matrices import Law, QuarterCircle, Semicircle

UNIFORM = 1 / 12  # variance of a uniform number on [0, 1]


@dataclass(frozen=True)
class Ensemble:
    """A random matrix, what is taken of it, and the law it tends to.

    `draw` gives eigenvalues (or squared singular values) of a matrix of size n, `take` what the
    description says of them; `law` is the law at size n in that scaling, `outlier` the place of an
    isolated value, if there is one.
    """

    description: str
    draw: Callable[[int, np.random.Generator], np.ndarray]
    take: Callable[[np.ndarray, int], np.ndarray]
    law: Callable[[int], Law]
    outlier: Callable[[int], float] | None = None


def _symmetric(entries: np.ndarray) -> np.ndarray:
    return np.linalg.eigvalsh(np.tril(entries) + np.tril(entries, -1).T)


def _gram(matrix: np.ndarray) -> np.ndarray:
    """Squared singular values; the digits lost by squaring are far below any distance."""
    return np.maximum(np.linalg.eigvalsh(matrix @ matrix.T), 0.0)


def _wigner(n: int, random: np.random.Generator) -> np.ndarray:
    return _symmetric(random.standard_normal((n, n)))


def _uniform(n: int, random: np.random.Generator) -> np.ndarray:
    return _symmetric(random.random((n, n)))


def _root(values: np.ndarray, n: int) -> np.ndarray:
    return values / math.sqrt(n)


def _size(values: np.ndarray, n: int) -> np.ndarray:
    return np.abs(values) / math.sqrt(n)


def _apart(n: int) -> float:
    """Where the eigenvalue of the mean of uniform entries stands."""
    return laws.outlier_location(n, 0.5, UNIFORM)


ENSEMBLES = {
    "wigner": Ensemble(
        "eigenvalues, symmetric N(0, 1)/√n", _wigner, _root, lambda n: Semicircle()),
    "wigner-singular": Ensemble(
        "singular values, symmetric N(0, 1)/√n", _wigner, _size, lambda n: QuarterCircle()),
    "wigner-unscaled": Ensemble(
        "eigenvalues, symmetric N(0, 1)", _wigner, lambda x, n: x,
        lambda n: Semicircle(math.sqrt(n))),
    "uniform": Ensemble(
        "eigenvalues, symmetric U(0, 1)/√n", _uniform, _root,
        lambda n: Semicircle(math.sqrt(UNIFORM)), lambda n: _apart(n) / math.sqrt(n)),
    "uniform-singular": Ensemble(
        "singular values, symmetric U(0, 1)/√n", _uniform, _size,
        lambda n: QuarterCircle(math.sqrt(UNIFORM)), lambda n: _apart(n) / math.sqrt(n)),
    "uniform-unscaled": Ensemble(
        "eigenvalues, symmetric U(0, 1)", _uniform, lambda x, n: x,
        lambda n: Semicircle(math.sqrt(UNIFORM * n)), _apart),
    "quarter-circle": Ensemble(
        "singular values, independent N(0, 1)/√n",
        lambda n, random: _gram(random.standard_normal((n, n))),
        lambda x, n: np.sqrt(x / n), lambda n: QuarterCircle()),
    "marchenko-pastur": Ensemble(
        "eigenvalues, WWᵀ/√n with W of U(−1, 1)",
        lambda n, random: _gram(2 * random.random((n, n)) - 1),
        _root, lambda n: laws.MarchenkoPastur(scale=math.sqrt(n) / 3)),
    "fuss-catalan": Ensemble(
        "squared singular values, GH/n of two N(0, 1)",
        lambda n, random: _gram(random.standard_normal((n, n)) @ random.standard_normal((n, n))),
        lambda x, n: x / n**2, lambda n: laws.FussCatalan(order=2)),
}  # fmt: skip


@dataclass(frozen=True)
class Spectrum:
    """One ensemble at growing sizes: distances from the law, and the values of the largest."""

    name: str
    description: str
    sizes: tuple[int, ...]
    distances: tuple[float, ...]
    values: np.ndarray
    law: Law
    outliers: np.ndarray
    outlier_expected: float | None


def spectra(
    names: Sequence[str] = (), sizes: Sequence[int] = (100, 300, 1000, 3000), seed: int = 0, *,
    progress: bool | None = None,
) -> list[Spectrum]:  # fmt: skip
    """Draw each ensemble of `names` (all by default) at each size and measure its distance.

    Ensembles that differ only in what they take of a matrix share it. Time: five eigenvalue
    problems per size, some ten seconds each at n = 3000 on one core.
    """
    names = list(names) or list(ENSEMBLES)
    for name in names:
        if name not in ENSEMBLES:
            raise ValueError(f"names must be among {', '.join(ENSEMBLES)}; got {name!r}.")
    sizes = sorted({checks.integer("sizes", n, 2) for n in sizes})
    matrices = dict.fromkeys((ENSEMBLES[name].draw, n) for name in names for n in sizes)
    total, done = sum(n**3 for _, n in matrices), 0
    with Bar("spectra", progress) as bar:
        for draw, n in matrices:
            matrices[draw, n] = draw(n, np.random.default_rng([seed, n]))
            done += n**3
            bar.update(done / total)
    return [_spectrum(name, sizes, matrices) for name in names]


def _spectrum(name: str, sizes: Sequence[int], matrices: Mapping[Any, Any]) -> Spectrum:
    ensemble = ENSEMBLES[name]
    values = {n: np.sort(ensemble.take(matrices[ensemble.draw, n], n)) for n in sizes}
    distances = tuple(kolmogorov_distance(values[n], ensemble.law(n)) for n in sizes)
    last, law = values[sizes[-1]], ensemble.law(sizes[-1])
    isolated = outliers(last, law), ensemble.outlier and ensemble.outlier(sizes[-1])
    return Spectrum(name, ensemble.description, tuple(sizes), distances, last, law, *isolated)
