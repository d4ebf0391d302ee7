"""A ring of k equal clusters on the circle: how it holds together and how it falls apart.

With k points of mass 1/k at the angles 2πq/k and the force −h, h(φ) = e^{β cos φ} sin φ, both
flows rest by symmetry. All rates below follow from h′(φ) = e^{β cos φ}(cos φ − β sin²φ) on those
angles; SA rates are USA rates divided by Z = (1/k)Σ_q e^{β cos(2πq/k)}, because the force that
the softmax divides vanishes there. Derived here, checked against Jacobians of the particle field.
β may be negative. Each rate is on the clock of its own flow, SA or USA.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metastable.theory.spectrum import dominant_mode

_MOST_MODES = 4096
_MOST_NEIGHBOURS = 20_000


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
    _require(beta, clusters)
    p = np.arange(1, clusters)
    rates, log_scale = _scaled_rates(beta, clusters, normalized, p)
    with np.errstate(over="ignore", under="ignore"):
        return rates * np.exp(log_scale)


def internal_contraction(beta: float, clusters: int, *, normalized: bool = True) -> float:
    """Rate at which a token displaced inside its cluster of a k-ring returns to the others.

    USA: (1/k) Σ_q h′(2πq/k) = (2/β) Σ_{j≥1} (jk)² I_{jk}(β); SA: divided by Z. Positive for β > 0.
    Absolute error 1e−15 of the largest term; the sum cancels where k ≫ √β.

    >>> round(internal_contraction(5.0, 3), 4)
    0.9942
    """
    _require(beta, clusters)
    q, log_weight, slope = _neighbours(beta, clusters)
    top = max(0.0, np.max(log_weight, initial=-np.inf))
    total = math.exp(-top) + np.sum(_sides(q, clusters) * np.exp(log_weight - top) * slope)
    log_scale = top + _log_clock(beta, clusters, q, log_weight, normalized)
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
    e^{π²}/(8π² − 4) = 258; exponential growth in β belongs to fixed k. Cost and memory do not grow
    with β at k = ℓ*: few neighbours matter, and of rings past 8192 clusters 4097 modes are tried,
    p = k/2 among them.

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
    _require(beta, 1 if clusters is None else clusters)
    clusters = dominant_mode(beta, 2) if clusters is None else clusters
    half = clusters // 2
    # Rates are symmetric about k/2. Of a long ring a fine choice of modes is enough: nearest
    # neighbours make the alternating mode k/2 the fastest, and further ones a smooth curve in p/k.
    modes = sorted({1 + j * (half - 1) // _MOST_MODES for j in range(_MOST_MODES + 1)})
    modes = np.arange(1, half + 1) if half <= _MOST_MODES else modes
    rates, log_scale = _scaled_rates(beta, clusters, normalized, modes)
    fastest = np.max(rates, initial=0.0)
    if fastest <= 0:
        return math.inf
    return math.log(-math.log(perturbation)) - math.log(fastest) - log_scale


def _require(beta: float, clusters: int) -> None:
    if clusters != int(clusters) or clusters < 1:
        raise ValueError(f"clusters must be an integer >= 1, got {clusters}; a ring needs some.")
    if not math.isfinite(beta):
        raise ValueError(f"beta must be finite, got {beta}; give a number.")


def _neighbours(beta: float, clusters: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the clusters q = 1..k/2 on one side: q, log e^{β cos φ − β}, and h′(φ)e^{−β cos φ}.

    For β > 0 clusters whose weight is below e^{−745} of the nearest one's are left out: about nine
    are kept at k = √(2β), however large k is.
    """
    last = clusters // 2
    if beta > 0 and clusters > 2:
        sine = math.sqrt(min(1.0, math.sin(math.pi / clusters) ** 2 + 745 / (2 * beta)))
        last = min(last, math.ceil(math.asin(sine) * (clusters / math.pi)) + 1)
    if last > _MOST_NEIGHBOURS:
        raise ValueError(
            f"clusters must be few enough for {_MOST_NEIGHBOURS} neighbours to matter, got "
            f"{clusters} at beta {beta:g}; such a ring is a uniform measure (theory.spectrum)."
        )
    q = np.arange(1, last + 1)
    half = np.pi * (q / clusters)
    # 1 − cos φ = 2 sin²(φ/2) keeps its digits for close clusters.
    return q, -2 * beta * np.sin(half) ** 2, np.cos(2 * half) - beta * np.sin(2 * half) ** 2


def _sides(q: np.ndarray, clusters: int) -> np.ndarray:
    """How many clusters stand at distance q: two, or the one opposite."""
    return np.where(2 * q == clusters, 1.0, 2.0)


def _log_clock(
    beta: float, clusters: int, q: np.ndarray, log_weight: np.ndarray, normalized: bool
) -> float:
    """Logarithm of the factor from (1/k)Σ(·)e^{−β} sums without their 1/k to the chosen clock."""
    if normalized:  # e^{−β}·k·Z is the sum of the weights, the token's own cluster included
        logs = log_weight + np.log(_sides(q, clusters))
        return -float(np.logaddexp.reduce(np.append(logs, 0.0)))
    return beta - math.log(clusters)


def _scaled_rates(
    beta: float, clusters: int, normalized: bool, modes: Any
) -> tuple[np.ndarray, float]:
    """The rates of some modes as (numbers of order one, logarithm of their common factor)."""
    q, log_weight, slope = _neighbours(beta, clusters)
    if clusters == 1:
        return np.empty(0), 0.0
    top = float(log_weight.max())
    # The product pq is reduced mod k first: a large angle would cost digits of the sine. Past
    # 2^31 it does not fit 64 bits, and exact integers reduce it.
    kind = np.int64 if clusters < 2**31 else object
    turns = np.outer(np.asarray(modes, kind), q.astype(kind)) % clusters
    stretch = 2 * np.sin(np.pi * (turns / clusters).astype(float)) ** 2
    pull = _sides(q, clusters) * np.exp(log_weight - top) * slope
    return -stretch @ pull, top + _log_clock(beta, clusters, q, log_weight, normalized)
