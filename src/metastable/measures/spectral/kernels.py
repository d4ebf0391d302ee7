"""Zonal kernels by degree: what a convolution with them multiplies each harmonic by.

Funk–Hecke: ∫ W(⟨x,y⟩) Y_{ℓm}(y) dσ(y) = ŵ_ℓ Y_{ℓm}(x), σ the uniform probability. For W = e^{βs}
these are c_ℓ(β) = Γ(d/2)(2/β)^ν I_{ℓ+ν}(β), ν = d/2 − 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Array
from scipy.special import logsumexp

from metastable.core.numerics import jax, jnp
from metastable.measures.spectral.zonal import gauss, polynomials

MOST_NODES = 2000  # a quadrature of more costs seconds


def attention_kernel(beta: float, dim: int, degree: int) -> np.ndarray:
    """c_ℓ(β)/(βc_0(β)) for ℓ = 0..degree, with its limit 1/d at β = 0, ℓ = 1; entry 0 is 0.

    s_ℓ = I_{ℓ+ν}/(βI_{ℓ+ν−1}) obeys s_ℓ = 1/(2(ℓ+ν) + β² s_{ℓ+1}), downwards: all terms are
    positive, so every coefficient has full relative accuracy, also those below 1e−16. β may be
    negative or zero. Degree 0 has no gradient and moves nothing.
    """
    ratios = _ratios(beta, dim, degree)
    return np.concatenate([[0.0], ratios[:1], ratios[0] * np.cumprod(beta * ratios[1:])])


def exponential_kernel(beta: float, dim: int, degree: int) -> np.ndarray:
    """c_ℓ(β)/c_0(β) for ℓ = 0..degree: the coefficients of the von Mises–Fisher density."""
    return np.concatenate([[1.0], np.cumprod(beta * _ratios(beta, dim, degree))])


def _ratios(beta: float, dim: int, degree: int) -> np.ndarray:
    """s_1..s_degree."""
    # Where the recursion starts does not matter once Π (βs)² over the way down is below rounding.
    order = math.isqrt(int(degree**2 + 40 * abs(beta))) + 20 + dim / 2 - 1
    s = 1 / (order + 0.5 + math.hypot(order + 0.5, beta))
    ratios = []
    while order > dim / 2 - 0.5:
        s = 1 / (2 * order + beta * beta * s)
        ratios.append(s)
        order -= 1
    return np.array(ratios[::-1][:degree])


def log_mean_exponential(beta: float, dim: int) -> float:
    """log c_0(β) = log ∫ e^{βs} dσ(s): the logarithm of the potential of the uniform measure."""
    s, w = gauss(dim, 64 + int(6 * math.sqrt(abs(beta))))
    return float(np.asarray(logsumexp(beta * s, b=w)))


def potential_kernel(potential: Callable[[Array], Array], dim: int, degree: int) -> np.ndarray:
    """ŵ_ℓ = ∫ W(s) P_ℓ(s) dσ(s) by Gauss–Gegenbauer quadrature, P_ℓ(1) = 1; entry 0 is 0.

    The nodes are doubled until all coefficients settle to 1e−13 of max|W|. Smaller ones are set
    to 0, since the equation multiplies them by ℓ².
    """
    count = 2 * degree + 64
    kernel, scale = _projected(potential, dim, degree, count)
    change = math.inf
    while not change <= 1e-13 * scale:
        if count > MOST_NODES:
            raise ValueError(
                "potential must be finite and smooth on [-1, 1] to move a density; its harmonics "
                f"have not settled with {count} nodes (they change by {change:.2g}): smooth it."
            )
        count, before = 2 * count, kernel
        kernel, scale = _projected(potential, dim, degree, count)
        change = float(np.max(np.abs(kernel - before)))
    kernel[0] = 0.0
    return np.where(np.abs(kernel) > 1e-15 * scale, kernel, 0.0)


def _projected(potential: Any, dim: int, degree: int, count: int) -> tuple[np.ndarray, float]:
    s, w = gauss(dim, count)
    q = polynomials(s, dim, degree)
    at_one = polynomials(np.ones(1), dim, degree)
    values = np.asarray(jax.vmap(potential)(jnp.asarray(s)))
    return (q / at_one * w) @ values, float(np.max(np.abs(values)))
