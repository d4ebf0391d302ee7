"""A ring of k equal clusters on the circle: how it holds together and how it falls apart.

With k points of mass 1/k at the angles 2πq/k and the force −h, h(φ) = e^{β cos φ} sin φ, both
flows rest by symmetry. All rates below follow from h′(φ) = e^{β cos φ}(cos φ − β sin²φ) on those
angles; SA rates are USA rates divided by Z = (1/k)Σ_q e^{β cos(2πq/k)}, because the force that
the softmax divides vanishes there. Derived here, checked against Jacobians of the particle field.
β may be negative. Each rate is on the clock of its own flow, SA or USA.
"""

from __future__ import annotations

import math

import numpy as np

from metastable.theory.spectrum import dominant_mode

__all__ = ["internal_contraction", "log_plateau_lifetime", "plateau_lifetime", "ring_rates"]


def ring_rates(beta: float, clusters: int, *, normalized: bool = True) -> np.ndarray:
    """Growth rates μ_1..μ_{k−1} of the collective modes of a ring of k equal clusters.

    USA: μ_p = −(1/k) Σ_q h′(2πq/k)(1 − cos(2πpq/k)); SA: μ_p/Z. Mode p displaces cluster q by
    cos(2πpq/k) or sin(2πpq/k), so μ_p = μ_{k−p}; p = 0 is the rotation, with rate zero. Equal to
    (1/β)[Σ_{m≡p} m²I_m(β) − Σ_{m≡0} m²I_m(β)] over all integers m mod k, a form that cancels.

    Returns shape (k−1,). Terms have one sign while k < 4√β; for denser rings rates far below the
    largest one are exact only to 1e−15 of it. The 3-ring is stable iff β < −2/3.

    >>> float(ring_rates(5.0, 3).max().round(5))
    0.00704
    """
    rates, log_scale = _scaled_rates(beta, clusters, normalized)
    with np.errstate(over="ignore", under="ignore"):
        return rates * np.exp(log_scale)


def internal_contraction(beta: float, clusters: int, *, normalized: bool = True) -> float:
    """Rate at which a token displaced inside its cluster of a k-ring returns to the others.

    USA: (1/k) Σ_q h′(2πq/k) = (2/β) Σ_{j≥1} (jk)² I_{jk}(β); SA: divided by Z. Positive for β > 0.
    Absolute error 1e−15 of the largest term; the sum cancels where k ≫ √β.

    >>> round(internal_contraction(5.0, 3), 4)
    0.9942
    """
    log_weight, slope = _neighbours(beta, clusters)
    top = max(0.0, np.max(log_weight, initial=-np.inf))
    total = math.exp(-top) + np.sum(np.exp(log_weight - top) * slope)
    log_scale = top + _log_clock(beta, log_weight, normalized)
    with np.errstate(over="ignore", under="ignore"):
        return float(total * np.exp(log_scale))


def plateau_lifetime(
    beta: float,
    clusters: int | None = None,
    *,
    normalized: bool = True,
    perturbation: float = 1 / math.e,
) -> float:
    """Time for which a ring of k equal clusters looks at rest.

    T = ln(1/δ)/max_p μ_p: cluster displacements that start at a fraction δ = `perturbation` of the
    spacing grow like e^{μt} and reach it at T. The default δ = 1/e gives the e-folding time
    1/max_p μ_p. ∞ for one cluster and for a stable ring. `clusters=None` takes k = ℓ*, the ring
    that a uniform start reaches first. Derived here.

    At k = ℓ* ≈ √(2β) the barrier β(1 − cos 2π/k) tends to π² whatever β, and T (SA clock) to
    e^{π²}/(8π² − 4) = 258; exponential growth in β belongs to fixed k.

    >>> round(plateau_lifetime(5.0))
    142
    """
    log_lifetime = log_plateau_lifetime(
        beta, clusters, normalized=normalized, perturbation=perturbation
    )
    return math.exp(log_lifetime) if log_lifetime < 709 else math.inf


def log_plateau_lifetime(
    beta: float,
    clusters: int | None = None,
    *,
    normalized: bool = True,
    perturbation: float = 1 / math.e,
) -> float:
    """Logarithm of `plateau_lifetime`, for coarse rings at large β whose lifetime overflows.

    >>> round(log_plateau_lifetime(1000.0, 3), 1)
    1492.3
    """
    if not 0 < perturbation < 1:
        raise ValueError(
            f"perturbation must lie strictly between 0 and 1, got {perturbation}; it is the "
            "starting displacement as a fraction of the spacing."
        )
    clusters = dominant_mode(beta, 2) if clusters is None else clusters
    rates, log_scale = _scaled_rates(beta, clusters, normalized)
    fastest = np.max(rates, initial=0.0)
    if fastest <= 0:
        return math.inf
    return math.log(-math.log(perturbation)) - math.log(fastest) - log_scale


def _neighbours(beta: float, clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """Of the clusters q = 1..k−1 seen from q = 0: log e^{β cos φ − β}, and h′(φ)e^{−β cos φ}."""
    if clusters != int(clusters) or clusters < 1:
        raise ValueError(f"clusters must be an integer >= 1, got {clusters}; a ring needs some.")
    if not math.isfinite(beta):
        raise ValueError(f"beta must be finite, got {beta}; give a number.")
    half = np.pi * np.arange(1, clusters) / clusters
    # 1 − cos φ = 2 sin²(φ/2) keeps its digits for close clusters.
    return -2 * beta * np.sin(half) ** 2, np.cos(2 * half) - beta * np.sin(2 * half) ** 2


def _log_clock(beta: float, log_weight: np.ndarray, normalized: bool) -> float:
    """Logarithm of the factor from (1/k)Σ(·)e^{−β} sums without their 1/k to the chosen clock."""
    if normalized:  # e^{−β}·k·Z is the sum of the weights, the token's own cluster included
        return -float(np.logaddexp.reduce(np.append(log_weight, 0.0)))
    return beta - math.log(len(log_weight) + 1)


def _scaled_rates(beta: float, clusters: int, normalized: bool) -> tuple[np.ndarray, float]:
    """The rates as (numbers of order one, logarithm of their common factor)."""
    log_weight, slope = _neighbours(beta, clusters)
    if clusters == 1:
        return np.empty(0), 0.0
    top = float(log_weight.max())
    p = np.arange(1, clusters)
    # The product pq is reduced mod k first: a large angle would cost digits of the sine.
    stretch = 2 * np.sin(np.pi * (np.outer(p, p) % clusters) / clusters) ** 2
    rates = -stretch @ (np.exp(log_weight - top) * slope)
    return rates, top + _log_clock(beta, log_weight, normalized)
