"""A density that drives itself, in harmonics: the one nonlinearity shared by SA, USA and zonal W.

Densities are relative to the uniform probability σ on S^{d−1} and move by
∂_t f + div(f ∇ψ[f]) = (1/κ) Δf. Zonal functions are kept as coefficients f̂_ℓ = ∫ f φ_ℓ dσ over the
orthonormal zonal harmonics φ_ℓ(s) = √N_ℓ P_ℓ(s), s = ⟨x, e⟩, N_ℓ their multiplicity, P_ℓ(1) = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from metastable.core import checks
from metastable.geometry.harmonics import gegenbauer, multiplicity
from metastable.theory.spectrum import gegenbauer_quadrature, growth_rates, potential_rates

# Degrees whose part in the potential is below this share of mode 1's are left out.
_NEGLIGIBLE = 1e-18
# Opposite a cluster the sum 1 + b p is of this order by rounding alone.
_FLOOR = 1e-15


@dataclass(frozen=True)
class Interaction:
    """How a density makes its own potential: ψ[f] = log(1 + b p)/b, p = Σ_{ℓ≥1} ŵ_ℓ f̂_ℓ φ_ℓ.

    b = 0 is linear, ψ = p = W∗f up to a constant (USA, or any zonal W); b = β with
    ŵ_ℓ = I_{ℓ+ν}(β)/(β I_ν(β)) is SA, ψ = (1/β) log ∫e^{β⟨x,y⟩}df(y) up to a constant.
    `weights` holds ŵ_0 = 0, ŵ_1, …, ŵ_K; higher degrees do not interact.
    """

    dim: int
    weights: np.ndarray
    softmax: float = 0.0

    @property
    def degree(self) -> int:
        return len(self.weights) - 1

    def growth_rates(self, degree: int, kappa: float = math.inf) -> np.ndarray:
        """λ_0..λ_degree of the uniform measure, λ_ℓ = ℓ(ℓ+d−2)(ŵ_ℓ − 1/κ)."""
        return laplacian(degree, self.dim) * (self.weights_to(degree) - 1 / kappa)

    def weights_to(self, degree: int) -> np.ndarray:
        """ŵ_0..ŵ_degree: cut, or continued by zeros."""
        cut = self.weights[: degree + 1]
        return np.pad(cut, (0, degree + 1 - len(cut)))

    def normalizer(self, p: np.ndarray) -> np.ndarray:
        """1 + b p at each place: for SA ∫e^{β⟨x,y⟩}df(y)/c_0, which is never negative."""
        return np.maximum(1 + self.softmax * p, _FLOOR)

    def drive(self, p: np.ndarray) -> np.ndarray:
        """ψ = log(1 + b p)/b at each place, or p itself for b = 0."""
        return np.log(self.normalizer(p)) / self.softmax if self.softmax else p


def attention_interaction(
    beta: float, dim: int, *, normalized: bool = True, degree: int | None = None
) -> Interaction:
    """The interaction of SA, or of USA if not `normalized`, with Q = K = V = I.

    USA: ŵ_ℓ = c_ℓ(β)/β, c_ℓ = Γ(d/2)(2/β)^ν I_{ℓ+ν}(β). SA: ŵ_ℓ = I_{ℓ+ν}(β)/(β I_ν(β)), b = β.
    Degrees go as far as they matter in double precision, or to `degree`.

    >>> attention_interaction(0.0, 3).weights.round(6).tolist()  # at β = 0 both flows are linear
    [0.0, 0.333333]
    """
    checks.nonnegative("beta", beta, "Repulsion is zonal_potential with -exp(beta s)/beta.")
    count = checks.integer("degree", degree, 1) if degree is not None else 8
    while True:
        rates = growth_rates(beta, dim, count, normalized=normalized)
        weights = np.r_[0.0, rates] / np.maximum(laplacian(count, dim), 1)
        if not np.isfinite(weights).all():
            raise ValueError(
                f"beta must be at most about 700 without softmax, got {beta}; its kernel e^β "
                "leaves the doubles: use normalized=True."
            )
        size = weights * [multiplicity(ell, dim) for ell in range(count + 1)]
        matters = np.flatnonzero(size > _NEGLIGIBLE * size[1])
        if degree is not None or matters[-1] < count:
            kept = weights if degree is not None else weights[: matters[-1] + 1]
            return Interaction(dim, kept, float(beta) if normalized else 0.0)
        count *= 2


def zonal_potential(
    potential: Callable[[np.ndarray], np.ndarray], dim: int, degree: int
) -> Interaction:
    """The interaction ψ = W∗f of a smooth zonal potential W(⟨x,y⟩), to a given degree.

    Coefficients by quadrature, with noise at 1e−12 of max|W| (`potential_rates`).
    """
    rates = potential_rates(potential, dim, degree)
    return Interaction(dim, np.r_[0.0, rates / laplacian(degree, dim)[1:]])


def laplacian(degree: int, dim: int) -> np.ndarray:
    """L = ℓ(ℓ+d−2) for ℓ = 0..degree, minus the eigenvalues of the Laplacian on S^{d−1}."""
    ell = np.arange(degree + 1.0)
    return ell * (ell + dim - 2)


def zonal_harmonics(s: Any, dim: int, degree: int) -> np.ndarray:
    """φ_ℓ(s) = √N_ℓ P_ℓ(s) for ℓ = 0..degree, orthonormal for the uniform probability.

    Returns shape (degree + 1, *s.shape). φ_1 = √d s.
    """
    roots = np.sqrt([float(multiplicity(ell, dim)) for ell in range(degree + 1)])
    return gegenbauer(s, dim, degree) * roots.reshape(-1, *(1,) * np.ndim(s))


def zonal_slopes(s: Any, dim: int, degree: int) -> np.ndarray:
    """dφ_ℓ/ds for ℓ = 0..degree: √N_ℓ (L/(d−1)) times P_{ℓ−1} of dimension d + 2."""
    slopes = np.zeros((degree + 1, *np.shape(s)))
    roots = np.sqrt([float(multiplicity(ell, dim)) for ell in range(1, degree + 1)])
    factor = roots * laplacian(degree, dim)[1:] / (dim - 1)
    slopes[1:] = gegenbauer(s, dim + 2, degree - 1) * factor.reshape(-1, *(1,) * np.ndim(s))
    return slopes


@dataclass(frozen=True)
class ZonalGrid:
    """Gauss nodes s (n,), weights (n,) of sum one, and φ_0..φ_{n−1} there, `table` (n, n)."""

    s: np.ndarray
    weights: np.ndarray
    table: np.ndarray


@lru_cache(maxsize=32)
def zonal_grid(dim: int, nodes: int) -> ZonalGrid:
    """The grid on which zonal functions of S^{d−1} are integrated, exact to degree 2n − 1."""
    s, _ = gegenbauer_quadrature(dim, nodes)
    # Eigenvectors give the tiny weights near the poles with an absolute error only. This form is
    # relative, and on the circle stationary in the rounding of s.
    weights = 1 / ((1 - s) * (1 + s) * zonal_slopes(s, dim, nodes)[-1] ** 2)
    return ZonalGrid(s, weights / weights.sum(), zonal_harmonics(s, dim, nodes - 1))
