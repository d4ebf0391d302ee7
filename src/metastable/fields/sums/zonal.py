"""The kernel e^{β(⟨x,y⟩−1)} of the sphere as a series of harmonics: what all fast sums share.

Scaled by e^{−β} the kernel is at most 1, and its coefficients are positive and sum to 1. A sum that
keeps the degrees ≤ K therefore errs by at most the mass of the coefficients it drops, whatever the
tokens and masses are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float
from scipy import special

from metastable.core import checks
from metastable.core.numerics import jnp
from metastable.fields.sums.kernel import Attended, Kernel, Sum
from metastable.fields.sums.powers import power_coefficients, swelling
from metastable.geometry.harmonics import multiplicity

# By dimension: the quadrature of the circle grows with the square of the degree, to 134 MB here,
# the Legendre tables of the sphere with its cube, to 33 MB. Beyond, the indices of monomials grow
# as C(K+d, d), to 25 MB.
MAX_DEGREE = {2: 2048, 3: 160, 4: 48, 5: 28, 6: 21, 7: 17, 8: 14}

_LEAST = 1e-14  # below this rounding in double precision decides, not the number of terms


def degree_for(beta: Any, dim: int, tolerance: float) -> int:
    """The least degree K whose dropped coefficients sum to at most half the `tolerance`.

    Circle: e^{−β}Σ_{|k|>K} I_k(β). Sphere: Σ_{ℓ>K} (2ℓ+1) e^{−β}√(π/2β) I_{ℓ+1/2}(β). In higher
    dimensions the series is that of the circle in cos kθ = T_k(⟨x,y⟩), summed in powers of ⟨x,y⟩:
    the degree is raised until their signs cost no digits that the tolerance needs, and exceeds
    `MAX_DEGREE` by one where no degree within it is enough.

    >>> [degree_for(9.0, dim, 1e-13) for dim in (2, 3, 4)]
    [26, 27, 26]
    """
    beta = float(checks.nonnegative("beta", beta))
    tolerance = max(float(checks.positive("tolerance", tolerance)), _LEAST)
    if beta > MAX_DEGREE[2] ** 2:
        raise ValueError(
            f"beta must be at most {MAX_DEGREE[2] ** 2:g} for a harmonic series, whose degree "
            f"grows as its root; got {beta:g}: use Dense()."
        )
    # The coefficients are a law of variance about beta: at twelve deviations e^{−72} is left.
    degrees = np.arange(40 + int(12 * math.sqrt(beta + 1)))
    if dim != 3:
        terms = 2 * special.ive(degrees, beta)
    else:
        # scipy scales the half-integer Bessel functions too, but 0/0 at β = 0 needs a limit.
        half = max(beta, 1e-8)
        terms = (
            (2 * degrees + 1) * math.sqrt(math.pi / (2 * half)) * special.ive(degrees + 0.5, half)
        )
    dropped = np.cumsum(terms[::-1])[::-1]  # dropped[k] = Σ_{j≥k}
    # The other half is for rounding, or for a transform that is itself approximate.
    least = max(int(np.argmax(dropped <= tolerance / 2)) - 1, 1)
    if dim <= 3:
        return least
    within = range(least, MAX_DEGREE[dim] + 1)
    most = _most_swelling(tolerance, np.float64)
    return next((k for k in within if swelling(beta, k) <= most), max(least, MAX_DEGREE[dim] + 1))


def spectrum(beta: Float[Array, ""], dim: int, degree: int) -> Float[Array, " {degree}+1"]:
    """Coefficients c_0..c_K of e^{β(s−1)} = Σ c_ℓ N_ℓ P_ℓ(s), by quadrature, so β may be traced.

    N_ℓ is the multiplicity of the degree (circle: 1, 2, 2, …; sphere: 2ℓ+1) and P_ℓ(1) = 1.
    """
    moments, gaps = _quadrature(dim, degree)
    return jnp.asarray(moments) @ jnp.exp(-beta * jnp.asarray(gaps))


def _most_swelling(tolerance: float, dtype: Any) -> float:
    """The largest Σ|a_k| whose rounding stays below the tolerance, or near that of any sum."""
    return max(4.0, tolerance / (8 * float(jnp.finfo(dtype).eps)))


@lru_cache(maxsize=16)
def _quadrature(dim: int, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights times P_ℓ, shape (degree + 1, N), and 1 − s at N nodes equally spaced in angle."""
    count = 4 * degree + 8  # exact for polynomials of degree 4K, and e^{βs} is one of degree ≈ K
    theta = np.pi * (np.arange(count) + 0.5) / count
    if dim == 2:
        weights = np.full(count, 1 / count)
    else:
        j = np.arange(1, count // 2 + 1)
        weights = (1 - 2 * (np.cos(2 * np.outer(theta, j)) / (4 * j**2 - 1)).sum(1)) / count
    # The kernel lives near s = 1, where the usual recursion loses ℓ² digits: go by differences,
    # (ℓ+d−2)(P_{ℓ+1} − P_ℓ) = ℓ(P_ℓ − P_{ℓ−1}) − (2ℓ+d−2)(1−s)P_ℓ.
    gaps = 2 * np.sin(theta / 2) ** 2
    p = np.ones((degree + 1, count))
    step = -gaps
    for ell in range(degree):
        p[ell + 1] = p[ell] + step
        n = ell + 1
        step = (n * step - (2 * n + dim - 2) * gaps * p[n]) / (n + dim - 2)
    return p * weights, gaps


class ZonalSum(Sum):
    """A sum by harmonics up to `degree` on S^{d−1}, d = `dim` from 2 to 8."""

    kind: eqx.AbstractClassVar[str]  # how the name begins
    dim: eqx.AbstractVar[int]
    degree: eqx.AbstractVar[int]
    tolerance: eqx.AbstractVar[float]

    def __check_init__(self) -> None:
        """Refuse a series that does not exist or does not fit."""
        if self.dim not in MAX_DEGREE:
            raise ValueError(
                f"dim must be from 2 to 8 for a harmonic series; got {self.dim}: use Dense()."
            )
        checks.integer("degree", self.degree, 1)
        if self.degree > MAX_DEGREE[self.dim]:
            raise ValueError(
                f"degree must be at most {MAX_DEGREE[self.dim]} in dimension {self.dim}; got "
                f"{self.degree}: use Dense(), or a larger tolerance."
            )
        checks.positive("tolerance", self.tolerance)

    @property
    def name(self) -> str:
        return f"{self.kind}, degree {self.degree}, tolerance {self.tolerance:.0e}"

    def attend_by(
        self,
        convolve: Callable[[Float[Array, "n c"], Array], Float[Array, "m c"]],
        kernel: Kernel,
        values: Float[Array, "n v"],
    ) -> Attended:
        """Attention from `convolve(q, c)`, the sum Σ_j k(x_i, y_j) q_j of the series with
        coefficients c: the spectrum for d = 2 and 3, `power_coefficients` beyond.

        A place that sees no more mass than the error of the sum gets NaN rather than noise, and so
        does every place when β is beyond the reach of the degree.
        """
        if not kernel.zonal or kernel.left.shape[1] != self.dim:
            extra = "" if kernel.zonal else " with query, key, mask or position"
            raise ValueError(
                f"this sum serves e^(beta <x,y>) on the unit sphere in dimension {self.dim} only; "
                f"got dimension {kernel.left.shape[1]}{extra}: leave sum unset, or use Dense()."
            )
        dtype = values.dtype
        mass = jnp.exp(kernel.column)
        charges = mass[:, None] * jnp.concatenate([jnp.ones((mass.size, 1), dtype), values], axis=1)
        c, kept = self._series(kernel.beta, dtype)
        total = convolve(charges, c.astype(dtype))
        seen = jnp.where(kept & (total[:, :1] > self.tolerance), total[:, :1], jnp.nan)
        return kernel.beta.astype(dtype) + jnp.log(seen[:, 0]), total[:, 1:] / seen

    def _series(self, beta: Float[Array, ""], dtype: Any) -> tuple[Array, Array]:
        """The coefficients at β, and whether the degree is enough for it."""
        dim = self.dim if self.dim <= 3 else 2
        c = spectrum(beta, dim, self.degree + 1)
        # A traced β beyond the reach of this degree shows in the first coefficient it drops.
        kept = multiplicity(self.degree + 1, dim) * jnp.abs(c[-1]) <= self.tolerance
        if self.dim <= 3:
            return c[:-1], kept
        a = power_coefficients(beta, self.degree)
        return a, kept & (jnp.sum(jnp.abs(a)) <= _most_swelling(self.tolerance, dtype))
