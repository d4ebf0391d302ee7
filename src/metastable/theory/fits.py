"""How far a spectrum is from a law: the Kolmogorov distance, outliers, and fits of a scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from metastable.theory.matrices import Law, MarchenkoPastur, Semicircle


def kolmogorov_distance(values: np.ndarray, law: Law) -> float:
    """sup_x |F_n(x) − F(x)| of a sample from a law.

    For the spectrum of one n × n matrix it falls like log n/n, far faster than the n^{−1/2} of
    independent values: eigenvalues repel each other.

    >>> kolmogorov_distance(np.array([0.0]), Semicircle())
    0.5
    """
    values = _sorted(values, law)
    share = np.arange(values.size + 1) / values.size
    here = law.cdf(values)
    before = here - law.atom * (values == 0)
    steps = np.flatnonzero(np.diff(values, append=np.inf))  # last of each run of equal values
    first = np.concatenate([[0], steps[:-1] + 1])
    return float(max(np.max(share[steps + 1] - here[steps]), np.max(before[first] - share[first])))


def outliers(values: np.ndarray, law: Law) -> np.ndarray:
    """Values beyond the edges of a law by more than its own fluctuations.

    The allowance is 2·width·n^{−2/3}: at least three standard deviations of the Tracy–Widom law
    at each edge.
    """
    values = _sorted(values, law)
    low, high = law.edges
    slack = 2 * (high - low) * values.size ** (-2 / 3)
    beyond = (values < low - slack) | (values > high + slack)
    return values[beyond & (values != 0)] if law.atom else values[beyond]


def _sorted(values: np.ndarray, law: Law) -> np.ndarray:
    values = np.sort(np.asarray(values, float).ravel())
    if not values.size or not np.isfinite(values).all():
        raise ValueError("values must be a non-empty array of finite numbers.")
    # Zeros of a spectrum come with rounding; they must meet the atom at zero.
    return np.where(np.abs(values) < 1e-12 * law.edges[1], 0.0, values)


def fit_scale(values: np.ndarray, law: Law) -> tuple[Law, float]:
    """The scale of a law that brings it nearest to a spectrum, and the Kolmogorov distance left.

    Unlike the variance of the entries it is hardly moved by a few outliers.
    """
    values = np.asarray(values, float).ravel()
    unit = law.scaled(1 / law.scale)
    grid = np.linspace(0.0, unit.edges[1], 2001)
    median = float(np.interp(0.5, unit.cdf(grid) - (unit.cdf(-grid) - unit.atom), grid))
    spread = float(np.median(np.abs(values)))
    if not spread > 0 or not median > 0:
        raise ValueError("values must not be mostly zero for a scale to be fitted.")

    def distance(log: float) -> float:
        return kolmogorov_distance(values, unit.scaled(math.exp(log)))

    # The distance has kinks, and far from the best scale it is flat: first a grid around the scale
    # at which the medians agree.
    logs = math.log(spread / median) + np.linspace(-0.7, 0.7, 57)
    best = int(np.argmin([distance(log) for log in logs]))
    bounds = logs[max(best - 1, 0)], logs[min(best + 1, logs.size - 1)]
    found: Any = minimize_scalar(distance, bounds=bounds, method="bounded", options={"xatol": 1e-7})
    log = min(float(found.x), float(logs[best]), key=distance)
    return unit.scaled(math.exp(log)), distance(log)


@dataclass(frozen=True)
class MatrixFit:
    """The spectrum of a matrix beside the law of a random one.

    - `values`: eigenvalues of a symmetric matrix; otherwise squared singular values, divided by
      the longer side.
    - `expected`, `expected_distance`: the law with the variance of the entries, nothing fitted.
    - `fitted`, `fitted_distance`: the same law at the scale that fits best.
    - `outliers`: values beyond the fitted edges: what was learned, or a mean that is not zero.
    """

    values: np.ndarray
    expected: Law
    expected_distance: float
    fitted: Law
    fitted_distance: float
    outliers: np.ndarray

    def to_dict(self) -> dict[str, Any]:
        return {
            "law": type(self.fitted).__name__,
            "values": self.values.size,
            "largest": float(self.values[-1]),
            "expected_edge": self.expected.edges[1],
            "expected_distance": self.expected_distance,
            "fitted_edge": self.fitted.edges[1],
            "fitted_scale": self.fitted.scale,
            "fitted_distance": self.fitted_distance,
            "outliers": self.outliers.size,
        }


def fit_matrix(matrix: np.ndarray) -> MatrixFit:
    """Fit the spectrum of any matrix, such as Q, K or V of a trained model.

    A symmetric matrix is compared with the semicircle of scale σ√n, any other p × q one with
    Marchenko–Pastur of ratio min/max and scale σ²; σ² is the variance of the entries.

    Good values: a freshly initialised matrix of side 1000 stays within 0.005 of its law; trained
    ones reach 0.05 to 0.3 and show outliers.

    >>> fit = fit_matrix(np.random.default_rng(0).standard_normal((200, 400)))
    >>> type(fit.fitted).__name__, fit.fitted_distance < 0.02, fit.outliers.size
    ('MarchenkoPastur', True, 0)
    """
    matrix = np.asarray(matrix, float)
    if matrix.ndim != 2 or min(matrix.shape) < 2 or not np.isfinite(matrix).all():
        raise ValueError(
            f"matrix must be a finite array with two axes of at least 2; got shape {matrix.shape}."
        )
    variance = float(np.var(matrix))
    if variance == 0:
        raise ValueError("matrix must not be constant to have a spectrum worth a fit.")
    short, long = sorted(matrix.shape)
    if short == long and np.allclose(matrix, matrix.T, rtol=1e-9, atol=0):
        values: np.ndarray = np.linalg.eigvalsh(matrix)
        expected: Law = Semicircle(scale=math.sqrt(variance * long))
    else:
        values = np.sort(np.linalg.svd(matrix, compute_uv=False) ** 2 / long)
        expected = MarchenkoPastur(scale=variance, ratio=short / long)
    fitted, distance = fit_scale(values, expected)
    return MatrixFit(
        values=values,
        expected=expected,
        expected_distance=kolmogorov_distance(values, expected),
        fitted=fitted,
        fitted_distance=distance,
        outliers=outliers(values, fitted),
    )
