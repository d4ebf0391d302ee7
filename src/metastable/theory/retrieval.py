"""Lost in the middle: how well the last token of a causal chain knows each earlier one.

Token i of N on the circle is pulled by the earlier tokens with weights π_ij that depend on position
alone, and from uniform independent starts. The retrieval of source j in Fourier mode k is
R_j = N E cos k(θ_N(t) − θ_j(0)). To first order the amplitude m_i of mode k in the law of token i
obeys ṁ_i = a_k Σ_{j<i} π_ij m_j, so that R_j = N (e^{a_k t Π})_{Nj}, Π strictly lower triangular: a
token exerts no force on itself. That is exact in the limit of many tokens, and at finite N not: a
chain of two tokens already follows a nonlinear equation. With c = a_k t the law has two readings,
`retrieval_law` (N → ∞) and `retrieval_row` (N tokens, still linear); what particles show beyond the
second is nonlinear, of order 1/N (measured: benchmarks/retrieval.py).

Several heads add: m_i obeys ṁ_i = Σ_h o_h a_k(β_h) Σ_j π^h_ij m_j, so that the kernel of a mean of
heads is the mean of their kernels, each times its own rate: R_j = N (e^{tB})_{Nj} with
B = Σ_h o_h a_k(β_h)Π_h. Kernels of different slopes do not commute, and have no closed form
together: `retrieval_row` sums their series at any N, and `critical_retrieval_time` knows the limit.

a_k = k²I_k(β)/β on the USA clock, `growth_rates(beta, 2, modes, normalized=False)`; the paper's
clock, of the force βe^{β cos}sin, has a_k = k²I_k(β).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import i1e


def retrieval_law(
    position: Any, slope: float, strengths: Any = 1.0, weights: Any = 1.0
) -> np.ndarray:
    """Retrieval profile of causal attention with ALiBi: source at s in (0, 1), last token at 1.

    g(s) = Σ_k w_k λe^{λs}/(e^λ−1) ψ_{c_k}(log((e^λ−1)/(e^{λs}−1))), ψ_c(y) = √(c/y) I_1(2√(cy)).

    Source: [duerinckx2026kinetic] (abstract and public code). Derived here: with z = log(e^{λs}−1)
    the weights λe^{λs'}/(e^{λs}−1) become the convolution e^{−(z−z')}, whose m-th power has the
    density y^{m−1}e^{−y}/(m−1)!; the exponential series then is Bessel's. Valid for N → ∞.
    λ = `slope` ≥ 0 (0: no decay, z = log s); c_k = a_k t = `strengths` of the modes that an
    observable weighs by w_k = `weights`.

    >>> retrieval_law([0.1, 0.5, 0.9], slope=1.0).round(4).tolist()
    [2.0721, 1.5092, 1.5514]
    """
    s = np.asarray(position, float)
    if not np.all((s > 0) & (s <= 1)):
        raise ValueError(f"position must lie in (0, 1], got {position}; 1 is the last token.")
    _check_slope(slope)
    c, w = np.broadcast_arrays(np.asarray(strengths, float), np.asarray(weights, float))
    y = _depth(s, slope)[..., None]
    front = 1.0 if slope == 0 else slope * np.exp(slope * (s - 1)) / -math.expm1(-slope)
    return front * np.sum(np.atleast_1d(w) * _bessel(np.atleast_1d(c), y), axis=-1)


def critical_retrieval_time(slope: Any, rates: Any, weights: Any = 1.0) -> float:
    """Time at which the profile is flat at the last token: recency is lost beyond it.

    One head: t = 2(1−e^{−λ}) Σw_k a_k / Σw_k a_k², 0 at λ = 0. Source: [duerinckx2026kinetic].
    Several: t = 2 Σ_k w_k Σ_h a_hk λ_hκ_h / Σ_k w_k (Σ_h a_hk κ_h)², κ_h = λ_h/(1−e^{−λ_h}).
    Derived here: of the powers of the kernel K = Σ_h a_hK_h, K_h(s,s') = λ_he^{λ_hs'}/(e^{λ_hs}−1)
    with K_h(1,1) = κ_h, only K and K² have a slope at s = 1. The clock is that of the rates.

    - `slope`: λ, or one λ_h for each head; then `rates` are (heads,) or (heads, modes), with the
      output o_h of each head in them.

    >>> round(critical_retrieval_time(1.0, 1.0), 6)
    1.264241
    >>> round(critical_retrieval_time([1.0, 0.0], [0.5, 0.5]), 6)  # half of it has no recency
    0.949195
    """
    slopes = np.atleast_1d(np.asarray(slope, float))
    for each in slopes:
        _check_slope(float(each))
    a = np.atleast_1d(np.asarray(rates, float))
    a = a[None] if np.ndim(slope) == 0 else a.reshape(len(a), -1)
    if len(a) != len(slopes):
        raise ValueError(
            f"rates must hold a row for each of {len(slopes)} slopes; got {len(a)}: one for each "
            "head."
        )
    safe = np.where(slopes > 0, slopes, 1.0)
    ends = np.where(slopes > 0, safe / -np.expm1(-safe), 1.0)  # κ_h
    rise, end = (slopes * ends) @ a, ends @ a
    return float(2 * np.sum(weights * rise) / np.sum(weights * end**2))


def least_retrieved(slope: float, strengths: Any = 1.0, weights: Any = 1.0) -> float:
    """Position s of the source that is retrieved worst: the bottom of the U.

    The lowest zero of g'; 1.0 where the last token is worst off. Past the critical time that is so
    at once for λ ≤ −log((√3−1)/2) ≈ 1.005; steeper profiles keep their bottom for a while, and
    have a hump before the end. 0.0 stands for a bottom below 1e−6. Derived here.

    >>> round(least_retrieved(1.0), 4), least_retrieved(1.0, 1.3), least_retrieved(5.0, 2.1) < 0.2
    (0.5925, 1.0, True)
    """
    c, w = np.broadcast_arrays(np.asarray(strengths, float), np.asarray(weights, float))
    if not slope > 0:
        return 1.0

    def rise(s: float) -> float:
        low, high = retrieval_law([s * (1 - 1e-5), s * (1 + 1e-5)], slope, c, w)
        return float(high - low)

    grid = np.linspace(0, 1, 2001)[1:]
    at = int(np.argmin(retrieval_law(grid, slope, c, w)))
    if at == len(grid) - 1 and critical_retrieval_time(slope, c, w) <= 1:
        return 1.0
    low, high = grid[at - 1] if at else 1e-6, min(grid[min(at + 1, len(grid) - 1)], 1 - 2e-5)
    if rise(low) > 0:
        return 0.0
    place: Any = brentq(rise, low, high, xtol=1e-10)
    return float(place)


def retrieval_row(pull: Any, strength: Any) -> np.ndarray:
    """Linear response N (e^{cΠ})_{Nj} of the last of N tokens to each earlier one.

    `pull`: rows π_ij of position weights, (N, N); only what lies below the diagonal acts. Several
    heads: (heads, N, N), and c_h = o_h a_k(β_h)t for each; cΠ is then Σ_h c_hΠ_h. All terms
    are positive, so that the series loses no digits. Shape (N−1,). With ALiBi it tends to
    `retrieval_law` at s = j/N like 1/N (N = 64, λ = c = 1, s = ½: 1.1 % above it for weights on
    j < i, 2.7 % below for j ≤ i). Cost N² for each of some 4c + 20 terms.

    >>> retrieval_row([[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]], 1.0).tolist()
    [0.9375, 0.75]
    """
    pull, strengths = np.asarray(pull, float), np.asarray(strength, float)
    if strengths.ndim > 1 or pull.shape[: max(pull.ndim - 2, 0)] != strengths.shape:
        raise ValueError(
            f"strength must be one number for each head of pull; got shapes {strengths.shape} and "
            f"{pull.shape}: pull is (N, N), or (heads, N, N)."
        )
    below = np.tril(np.tensordot(strengths, pull, axes=strengths.ndim), -1)
    if below.ndim != 2 or below.shape[0] != below.shape[1] or np.any(below < 0):
        raise ValueError(f"pull must be a square matrix of weights ≥ 0, got shape {pull.shape}.")
    term = np.zeros(len(below))
    term[-1] = 1.0
    total, order = term.copy(), 0
    while np.any(term > 1e-17 * total):
        order += 1
        term = term @ below / order
        total += term
    return len(below) * total[:-1]


def _depth(s: np.ndarray, slope: float) -> np.ndarray:
    """y = log((e^λ−1)/(e^{λs}−1)) ≥ 0."""
    if slope == 0:
        return -np.log(s)
    return slope * (1 - s) + np.log(-np.expm1(-slope)) - np.log(-np.expm1(-slope * s))


def _bessel(c: np.ndarray, y: np.ndarray) -> np.ndarray:
    """ψ_c(y) = √(c/y) I_1(2√(cy)), c at y = 0."""
    x = 2 * np.sqrt(c * y)
    safe = np.where(x > 1e-8, x, 1.0)
    return 2 * c * np.where(x > 1e-8, i1e(safe) * np.exp(safe) / safe, 0.5)


def _check_slope(slope: float) -> None:
    if not 0 <= slope < math.inf:
        raise ValueError(
            f"slope must be finite and ≥ 0, got {slope}; it is the decay over a chain."
        )
