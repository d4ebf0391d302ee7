"""Noise against attraction: when the uniform measure loses stability, and in what manner.

dX = drift dt + √(2/κ) dW on S^{d−1}, V = I, ν = d/2 − 1; large κ is weak noise. `normalized=True`
is SA, `normalized=False` is USA.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from metastable.theory.bessel import inverse_bessel_ratio
from metastable.theory.spectrum import dominant_mode, log_growth_rates


def critical_kappa(beta: Any, dim: int, *, normalized: bool = True) -> np.ndarray:
    """κ_#, below which the uniform measure is linearly stable and above which it is not.

    SA: κ_# = β I_ν(β)/I_{d/2}(β). USA: κ_# = β^{d/2}/(2^ν Γ(d/2) I_{d/2}(β)), as in
    arXiv:2606.05140 (there K_# = κ_#/2 with diffusion ½Δ). Mode 1 is the first to become unstable.
    Both tend to d as β → 0; for β → ∞ SA grows like β and USA falls like e^{−β}.

    Broadcasts over `beta` ≥ 0.

    >>> critical_kappa([0.0, 1.0, 5.0], 2, normalized=False).round(4).tolist()
    [2.0, 1.7694, 0.2055]
    """
    log_rate = log_growth_rates(beta, dim, 1, normalized=normalized)[..., 0]
    with np.errstate(under="ignore"):
        return (dim - 1) * np.exp(-log_rate)


def log_critical_kappa(beta: Any, dim: int, *, normalized: bool = True) -> np.ndarray:
    """Logarithm of `critical_kappa`, for USA past β ≈ 750, where κ_# underflows.

    >>> float(log_critical_kappa(800.0, 2, normalized=False).round(3))
    -789.054
    """
    log_rate = log_growth_rates(beta, dim, 1, normalized=normalized)[..., 0]
    return math.log(dim - 1) - log_rate


def tricritical_beta(dim: int) -> float:
    """β_*, where the USA transition at κ_# turns from continuous to discontinuous.

    I_{d/2+1}(β_*)/I_{d/2}(β_*) = 1/d (arXiv:2606.05140). Falls to 1 as d → ∞.

    >>> [round(tricritical_beta(dim), 5) for dim in (2, 3, 4)]
    [2.44692, 1.81615, 1.57526]
    """
    if dim != int(dim) or dim < 2:
        raise ValueError(f"dim must be an integer >= 2, got {dim}; the circle is dim=2.")
    return inverse_bessel_ratio(dim / 2, 1 / dim)


def transition_order(
    beta: float, dim: int, *, normalized: bool = True
) -> Literal["continuous", "discontinuous"] | None:
    """How order sets in as κ rises through κ_#: "continuous" iff β ≤ β_*, for USA.

    Source: arXiv:2606.05140. `None` for SA, where the global question is open: the branch leaves
    uniform towards larger κ at every β and d (`branches.first_bend`), so there is no β_*, and
    uniform is alone below β coth β (`branches.unique_kappa`); no fold was found in between.

    >>> transition_order(3.0, 2, normalized=False)
    'discontinuous'
    """
    if not beta >= 0:
        raise ValueError(f"beta must be >= 0, got {beta}; the theorem is for attraction.")
    if normalized:
        return None
    return "continuous" if beta <= tricritical_beta(dim) else "discontinuous"


def fastest_mode_with_noise(
    beta: float, dim: int, kappa: float, *, normalized: bool = True
) -> int | None:
    """The fastest growing degree where noise leaves the uniform measure unstable, else `None`.

    argmax_ℓ L(c_ℓ/β − 1/κ) for USA, argmax_ℓ L(I_{ℓ+ν}/(βI_ν) − 1/κ) for SA, if κ > κ_#. It is 1
    just above κ_# and rises to the noise-free `dominant_mode` as κ → ∞. Derived here.

    >>> [fastest_mode_with_noise(100.0, 2, kappa) for kappa in (100, 102, 120, 300, np.inf)]
    [None, 1, 4, 10, 14]
    """
    if not kappa > critical_kappa(beta, dim, normalized=normalized):
        return None
    return dominant_mode(beta, dim, normalized=normalized, kappa=kappa)
