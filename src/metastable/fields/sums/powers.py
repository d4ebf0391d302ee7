"""The kernel e^{β(s−1)} as a polynomial in s = ⟨x,y⟩, with coefficients in powers of s.

A polynomial of degree K in ⟨x,y⟩ is a sum over harmonics up to degree K in every dimension, so one
series serves them all; Chebyshev's needs the least degree for an error that holds on [−1, 1].
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from jaxtyping import Array, Float

from metastable.core.numerics import jnp


def power_coefficients(beta: Float[Array, ""], degree: int) -> Float[Array, " {degree}+1"]:
    """Coefficients a_0..a_K of the Chebyshev series of e^{β(s−1)} cut at K, in powers of s.

    e^{β(s−1)} = Σ_n π_n s^n with π_n = e^{−β}β^n/n!, and s^n = Σ_k q_{nk} s^k + higher Chebyshev
    polynomials, q_{nk} = δ_{nk} for n ≤ K. Hence a_k = π_k + Σ_{n>K} π_n q_{nk}: the corrections
    are weighted by the small tail of a Poisson law, so that no digits cancel while K exceeds β.
    Converting the Bessel coefficients instead costs a factor (1+√2)^K.
    """
    table = _table(degree)
    steps = beta.astype(jnp.float64) / np.arange(1, table.shape[1])
    first = jnp.exp(-beta.astype(jnp.float64))
    return jnp.asarray(table) @ (first * jnp.concatenate([jnp.ones(1), jnp.cumprod(steps)]))


def swelling(beta: float, degree: int) -> float:
    """Σ_k |a_k|: by how much rounding grows in the sum over powers, 1 where all are positive."""
    table = _table(degree)
    steps = beta / np.arange(1, table.shape[1])
    poisson = np.concatenate([[1.0], np.cumprod(steps)]) * math.exp(-beta)
    return float(np.abs(table @ poisson).sum())


@lru_cache(maxsize=128)
def _table(degree: int) -> np.ndarray:
    """q_{nk} at [k, n], n ≤ 2K + 60: the Chebyshev series of s^n cut at K, exact before rounding.

    s^n = 2^{1−n} Σ_ℓ C(n, (n−ℓ)/2) T_ℓ over ℓ of the parity of n, with half the term at ℓ = 0
    (DLMF 18.18.5); T_ℓ by its recursion, in whole numbers.
    """
    chebyshev = np.zeros((degree + 1, degree + 1), object)
    chebyshev[0, 0] = chebyshev[1, 1] = 1
    for ell in range(1, degree):
        chebyshev[ell + 1, 1:] = 2 * chebyshev[ell, :-1]
        chebyshev[ell + 1] -= chebyshev[ell - 1]
    table = np.eye(degree + 1, 2 * degree + 61)
    for n in range(degree + 1, table.shape[1]):
        ells = range(n % 2, degree + 1, 2)
        counts = np.array(
            [math.comb(n, (n - ell) // 2) * (2 if ell else 1) for ell in ells], object
        )
        table[:, n] = [whole / 2**n for whole in counts @ chebyshev[n % 2 :: 2]]
    return table
