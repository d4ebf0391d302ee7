"""A Gaussian measure: infinitely many tokens, described by a mean and a covariance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import is_traced, jnp
from metastable.measures.measure import Measure, Variables
from metastable.measures.points import Points

SLACK = 1e-10  # asymmetry, and negative eigenvalues, taken for rounding (relative)


class Gaussian(Measure):
    """The measure N(m, Σ) on R^d, kept as m and a factor L with Σ = LLᵀ.

    Whatever happens to L, LLᵀ is symmetric and has no negative eigenvalue: a layer or a flow that
    moves L cannot leave the covariances.

    - `mean`: (d,).
    - `cov`: (d, d), symmetric and positive semidefinite to rounding, or a number σ² for σ²I.
      Singular covariances are welcome; inside `jit` or `grad` it must be positive definite.
      `from_factor` takes L itself, of shape (d, r).

    >>> start = Gaussian([1.0, 0.0], [[2.0, 1.0], [1.0, 2.0]])
    >>> start.eigenvalues.round(12).tolist()
    [1.0, 3.0]
    """

    mean: Float[Array, " d"]
    factor: Float[Array, "d r"]

    def __init__(self, mean: Any, cov: Any):
        checks.finite_array("mean", mean, 1)
        self.mean = jnp.asarray(mean, jnp.float64)
        if np.ndim(cov) == 0:
            root = jnp.sqrt(jnp.asarray(checks.nonnegative("cov", cov), jnp.float64))
            self.factor = root * jnp.eye(self.mean.size)
        else:
            checks.finite_array("cov", cov, 2)
            if np.shape(cov) != (self.mean.size, self.mean.size):
                raise ValueError(
                    f"cov must be a {self.mean.size} x {self.mean.size} matrix, like the mean of "
                    f"dimension {self.mean.size}; got shape {np.shape(cov)}."
                )
            self.factor = jnp.linalg.cholesky(cov) if is_traced(cov) else _factor(np.asarray(cov))

    @classmethod
    def from_factor(cls, mean: Any, factor: Any) -> Gaussian:
        """N(m, LLᵀ) from L of shape (d, r); nothing is factorised or checked for sign."""
        checks.finite_array("mean", mean, 1)
        checks.finite_array("factor", factor, 2)
        if np.shape(factor)[0] != np.shape(mean)[0]:
            raise ValueError(
                f"factor must have {np.shape(mean)[0]} rows, like the mean; got shape "
                f"{np.shape(factor)}."
            )
        fresh = object.__new__(cls)
        object.__setattr__(fresh, "mean", jnp.asarray(mean, jnp.float64))
        object.__setattr__(fresh, "factor", jnp.asarray(factor, jnp.float64))
        return fresh

    @classmethod
    def of(cls, points: Points) -> Gaussian:
        """The Gaussian with the mean and the covariance (with masses w_j) of some tokens."""
        mean = points.weights @ points.points
        centred = (points.points - mean) * jnp.sqrt(points.weights)[:, None]
        # R of QR is a factor of d columns, without squaring the condition number.
        return cls.from_factor(mean, jnp.linalg.qr(centred, mode="r").T)

    @property
    def dim(self) -> int:
        return self.mean.shape[0]

    @property
    def cov(self) -> Float[Array, "d d"]:
        """Σ = LLᵀ."""
        return self.factor @ self.factor.T

    @property
    def eigenvalues(self) -> np.ndarray:
        """Eigenvalues of Σ, increasing: squared singular values of L, so never negative.

        Those below 1e−32 of the largest are rounding.
        """
        found = np.linalg.svd(np.asarray(self.factor), compute_uv=False)[: self.dim] ** 2
        return np.concatenate([found, np.zeros(self.dim - found.size)])[::-1]

    def rank(self, tolerance: float = 1e-9) -> int:
        """How many eigenvalues exceed `tolerance` times the largest."""
        values = self.eigenvalues
        return int(np.sum(values > tolerance * values[-1]))

    def sample(self, n: int, seed: int = 0) -> Points:
        """n independent tokens m + Lz in R^d."""
        checks.integer("n", n, 1)
        random = np.random.default_rng(checks.seed(seed))
        normal = random.standard_normal((n, self.factor.shape[1]))
        return Points(self.mean + normal @ np.asarray(self.factor).T, on_sphere=False)

    @classmethod
    def to_variables(cls, frames: Sequence[Gaussian | None]) -> Variables:
        """Means (time, axis) and factors (time, axis, column); NaN where the frame is no Gaussian.

        Factors of fewer columns are padded with zeros, which leave LLᵀ as it is.
        """
        kept = [(k, frame) for k, frame in enumerate(frames) if frame is not None]
        dim = kept[0][1].dim
        columns = max(frame.factor.shape[1] for _, frame in kept)
        means = np.full((len(frames), dim), np.nan)
        factors = np.full((len(frames), dim, columns), np.nan)
        for k, frame in kept:
            means[k], factors[k] = frame.mean, 0.0
            factors[k, :, : frame.factor.shape[1]] = frame.factor
        return {"mean": (("time", "axis"), means), "factor": (("time", "axis", "column"), factors)}

    @classmethod
    def from_variables(cls, data: Mapping[Any, Any]) -> list[Gaussian | None]:
        pairs = zip(data["mean"].values, data["factor"].values, strict=True)
        return [None if np.isnan(m[0]) else cls.from_factor(m, factor) for m, factor in pairs]

    def __repr__(self) -> str:
        if is_traced(self.factor):
            return f"Gaussian(R^{self.dim})"
        low, high = self.eigenvalues[[0, -1]]
        return f"Gaussian(R^{self.dim}, variances {low:.3g} to {high:.3g})"


def _factor(cov: np.ndarray) -> Array:
    """A factor of a covariance: Cholesky's, or the eigenvectors' where it is singular."""
    cov = cov.astype(float)
    scale = np.max(np.abs(cov))
    gap = np.max(np.abs(cov - cov.T))
    if gap > SLACK * scale:
        raise ValueError(
            f"cov must be symmetric; got entries that differ by {gap:.3g} from their mirror images:"
            " pass (cov + cov.T) / 2."
        )
    cov = (cov + cov.T) / 2
    try:
        return jnp.asarray(np.linalg.cholesky(cov))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(cov)
    if values[0] < -SLACK * scale:
        raise ValueError(
            f"cov must be positive semidefinite; got the eigenvalue {values[0]:.3g}: a truncated "
            "layer or a rounded table may have lost it."
        )
    return jnp.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
