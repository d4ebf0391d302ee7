"""Linear stability of the uniform measure: how fast each spherical harmonic grows.

A perturbation of degree ℓ of the uniform measure on S^{d−1} grows like e^{λ_ℓ t} (decays where
λ_ℓ < 0). Notation: ν = d/2 − 1, L = ℓ(ℓ+d−2). Rates count time on the clock of their own flow:
`normalized=True` is the SA (softmax) clock, `normalized=False` the USA clock, which is
c_0(β) = Γ(d/2)(2/β)^ν I_ν(β) times faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.optimize import root_scalar

from metastable.theory.bessel import (
    bessel_ratio,
    inverse_bessel_ratio,
    log_bessel_ratio,
    log_far_ratio,
    log_reduced_bessel,
)

# From this β on, rates of single degrees come from the uniform expansion, and ℓ* from its
# derivative: a list of all degrees up to ℓ* ≈ √(2β) would be long, and neighbours in it would
# differ by less than rounding.
FAR = 1e8


def growth_rates(
    beta: Any,
    dim: int,
    modes: int,
    *,
    normalized: bool = True,
    sign: int = 1,
    kappa: float = math.inf,
) -> np.ndarray:
    """Growth rates λ_1..λ_modes of the uniform measure under Q = K = I, V = ±I.

    SA: λ_ℓ = ±(L/β) I_{ℓ+ν}(β)/I_ν(β) − L/κ (SA clock).
    USA: λ_ℓ = ±(L/β) c_ℓ(β) − L/κ, c_ℓ = Γ(d/2)(2/β)^ν I_{ℓ+ν}(β) (USA clock).

    Derived here from the Funk–Hecke theorem, checked against 50-digit arithmetic. `sign` is that
    of V, `kappa` the noise of dX = drift dt + √(2/κ) dW (∞: none). β = 0 gives λ_1 = (d−1)/d and
    zero for the rest, on both clocks; β < 0 is allowed. Relative error of the drift part below
    1e−12; USA rates past the largest double are ∞ (see `log_growth_rates`).

    Returns shape `beta.shape + (modes,)`. For V = I, β > 0 and no noise all are positive.

    >>> growth_rates(5.0, 2, 4).round(6).tolist()
    [0.178677, 0.514117, 0.682678, 0.600089]
    """
    if sign not in (1, -1):
        raise ValueError(f"sign must be 1 (V = I) or -1 (V = -I), got {sign}; pick one of them.")
    _require_kappa(kappa)
    beta = np.asarray(beta, float)
    log_rates = log_growth_rates(np.abs(beta), dim, modes, normalized=normalized)
    degree = np.arange(1, modes + 1)
    # I_{ℓ+ν}/x^{ν} has the parity of ℓ, and the 1/β in front turns it around.
    parity = np.where((beta[..., None] < 0) & (degree % 2 == 0), -1, 1)
    with np.errstate(over="ignore", under="ignore"):
        return sign * parity * np.exp(log_rates) - _laplacian(degree, dim) / kappa


def log_growth_rates(beta: Any, dim: int, modes: int, *, normalized: bool = True) -> np.ndarray:
    """Logarithms of the noise-free rates λ_1..λ_modes for V = I and β ≥ 0.

    The form to use where USA rates overflow (β above about 700) or high modes underflow; −∞ for
    ℓ ≥ 2 at β = 0. Absolute error below 1e−12 while |log λ| < 745, relative error below 1e−14
    beyond. Shape `beta.shape + (modes,)`.

    >>> round(float(log_growth_rates(1e6, 2, 1, normalized=False)[0]))
    999978
    """
    _require_dim(dim)
    _require_count("modes", modes)
    beta = np.asarray(beta, float)[..., None]
    if not np.all((beta >= 0) & np.isfinite(beta)):
        raise ValueError(f"beta must be finite and >= 0, got {beta[..., 0]}; V = -I has sign=-1.")
    degree = np.arange(1, modes + 1)
    log_kernel = log_bessel_ratio if normalized else log_reduced_bessel
    # Below 1e−300 the product β·(1/d) leaves the normal numbers, and the limit β = 0 is exact.
    positive = beta > 1e-300
    x = np.where(positive, beta, 1)
    limit = np.where(degree == 1, -math.log(dim), -np.inf)
    log_coefficient = np.where(positive, log_kernel(dim / 2 - 1, degree, x) - np.log(x), limit)
    return log_coefficient + np.log(_laplacian(degree, dim))


def log_rates_at(beta: float, dim: int, degrees: Any, *, normalized: bool = True) -> np.ndarray:
    """Logarithms of the noise-free rates of chosen degrees ≥ 1, for V = I and β ≥ 0.

    As `log_growth_rates`, but from β = 1e8 (`FAR`) on the cost does not grow with the degree, and
    degrees past 2^53 are floats. Absolute error there below 1e−12 + 1e−15 d²/β of the SA logarithm.

    >>> round(math.exp(log_rates_at(1e300, 2, [1.4142135623730951e150])[0]), 12)  # 2/e
    0.735758882343
    """
    degrees = np.asarray(degrees)
    if beta < FAR:
        top = int(degrees.max())
        return log_growth_rates(beta, dim, top, normalized=normalized)[degrees.astype(int) - 1]
    ell, nu = degrees.astype(float), dim / 2 - 1
    logs = log_far_ratio(nu, ell, beta) + np.log(ell) + np.log(ell + dim - 2) - math.log(beta)
    return logs if normalized else logs + float(log_reduced_bessel(nu, 0, beta))


def potential_rates(
    potential: Callable[[np.ndarray], np.ndarray], dim: int, modes: int
) -> np.ndarray:
    """Growth rates λ_1..λ_modes of the uniform measure under v = ∇(W∗μ), W zonal and smooth.

    λ_ℓ = L ŵ_ℓ with the Funk–Hecke coefficient ŵ_ℓ = ∫ W(s) P_ℓ(s) dσ(s), σ ∝ (1−s²)^{(d−3)/2} of
    mass one and P_ℓ the Gegenbauer polynomial with P_ℓ(1) = 1, by Gauss–Gegenbauer quadrature.
    W(s) = e^{βs}/β gives the USA rates, on the USA clock.

    `potential` maps an array of inner products to an array. The nodes are doubled until all ŵ_ℓ
    settle to 1e−12 of max|W| at the nodes, so coefficients smaller than that are noise; a kink
    or a pole on [−1, 1] ends in a ValueError.

    >>> np.abs(potential_rates(lambda s: s**2, 3, 3)).round(12).tolist()  # only degree 2
    [0.0, 0.8, 0.0]
    """
    _require_dim(dim)
    _require_count("modes", modes)
    previous = None
    nodes = modes + 32
    while nodes <= max(2048, 4 * modes):
        s, weights = gegenbauer_quadrature(dim, nodes)
        values = np.asarray(potential(s), float)
        coefficients = np.array([p @ (weights * values) for p in _gegenbauer(s, dim, modes)])
        if previous is not None:
            change = np.max(np.abs(coefficients - previous))
            if change <= 1e-12 * np.max(np.abs(values)):
                return _laplacian(np.arange(1, modes + 1), dim) * coefficients
        previous, nodes = coefficients, 2 * nodes
    raise ValueError(
        "potential must be finite and smooth on [-1, 1], but its Gegenbauer coefficients have not "
        f"settled with {nodes // 2} nodes; smooth it at scale 1/modes."
    )


def multihead_rates(
    betas: Any,
    weights: Any,
    dim: int,
    modes: int,
    *,
    normalized: bool = True,
    kappa: float = math.inf,
) -> np.ndarray:
    """Growth rates λ_1..λ_modes of the uniform measure under isotropic heads V_h = w_h I.

    λ_ℓ = Σ_h w_h λ_ℓ(β_h) − L/κ: at first order around the uniform measure heads add, each with
    its own softmax (SA clock) or with none (USA clock). Derived here. Heads may have w_h < 0.

    `betas` and `weights` have shape (heads,); returns (modes,).
    """
    betas, weights = np.asarray(betas, float), np.asarray(weights, float)
    if betas.ndim != 1 or betas.shape != weights.shape:
        raise ValueError(
            f"betas and weights must be lists of one length, got shapes {betas.shape} and "
            f"{weights.shape}; give one weight per head."
        )
    _require_kappa(kappa)
    heads = growth_rates(betas, dim, modes, normalized=normalized)
    return weights @ heads - _laplacian(np.arange(1, modes + 1), dim) / kappa


def dominant_mode(
    beta: float, dim: int, *, normalized: bool = True, kappa: float = math.inf
) -> int:
    """The degree ℓ* whose growth rate is largest (V = I, β ≥ 0).

    Without noise ℓ* ≈ √(2β+ν²) − ν, the same for SA and USA; it is 1 up to the first of
    `switch_points`, asymptotically β = (2/3)d. Noise lowers it. Published for d = 2: β = 5 gives
    3, β = 7 gives 4 (arXiv:2410.23228). On a tie the smaller degree is returned. O(log β) steps for
    any finite β up to 1e300; exact but for β past 1e8 with noise: one off at most, or a
    relative 1e−12.

    >>> [dominant_mode(beta, 2) for beta in (5, 7, 1000, 1e6)]
    [3, 4, 45, 1414]
    """
    _require_dim(dim)
    _require_kappa(kappa)
    if not 0 <= beta < math.inf:
        raise ValueError(f"beta must be finite and >= 0, got {beta}; repulsion has no such mode.")
    nu = dim / 2 - 1
    if not normalized and kappa < math.inf:  # on the SA clock the same noise is c_0 times weaker
        log_weaker = math.log(kappa) + float(log_reduced_bessel(nu, 0, beta))
        kappa = math.exp(log_weaker) if log_weaker < 709 else math.inf
    if beta >= FAR:
        return _far_mode(beta, dim, kappa)
    # λ_{ℓ+1}/λ_ℓ falls with ℓ (both its factors do), so one crossing of 1 is the maximum.
    grows = lambda ell: (
        _laplacian(ell + 1, dim) * bessel_ratio(nu + ell, 1, beta) > _laplacian(ell, dim)
    )
    low, high = 0, math.ceil(math.sqrt(2 * beta + nu * nu) - nu) + 1
    while grows(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if grows(middle) else (low, middle)
    if kappa == math.inf:
        return high
    # Beyond the noise-free ℓ* the drift part falls and L/κ rises: the maximum is not there.
    return 1 + int(np.argmax(growth_rates(beta, dim, high, kappa=kappa)))


def _far_mode(beta: float, dim: int, kappa: float) -> int:
    """ℓ* for β ≥ `FAR`, on the SA clock.

    Without noise λ_{ℓ+1} > λ_ℓ iff log(L_{ℓ+1}/L_ℓ) > −log(I_{m+1}/I_m), m = ν+ℓ, and the right
    side is asinh((m+½)/β) + ½(m+½)/(m²+β²) to a relative 1/β²; both sides are small and exact to
    rounding, so the crossing is resolved while ℓ < 1e13. Past β = 1e24 ℓ* is the least k with
    k(k+d−1) + (d−1)/2 ≥ 2β, the switch points to O(1) of gaps 2k, in exact integers.

    With noise L(I_{ℓ+ν}/I_ν − β/κ) is log-concave in ℓ as L and I_{ℓ+ν} are, and the zero of its
    logarithmic derivative is taken to the nearest integer: one off at most, or a relative 1e−12.
    """
    nu = dim / 2 - 1
    if kappa < math.inf:
        return _far_mode_with_noise(beta, dim, kappa, nu)
    if beta >= 1e24:
        # (2k + d−1)² ≥ 8β + (d−1)² − 2(d−1), the root rounded up.
        square = 8 * int(beta) + (dim - 1) * (dim - 3)
        root = math.isqrt(square - 1) + 1
        return -(-(root - (dim - 1)) // 2)

    def grows(ell: int) -> bool:
        m = nu + ell + 0.5
        gain = math.log1p((2 * ell + dim - 1) / (ell * (ell + dim - 2)))
        return gain > math.asinh(m / beta) + m / (2 * (m * m + beta * beta))

    low, high = 0, 2 * math.ceil(math.sqrt(2 * beta))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if grows(middle) else (low, middle)
    return high


def _far_mode_with_noise(beta: float, dim: int, kappa: float, nu: float) -> int:
    share = beta / kappa
    excess = lambda ell: float(-np.expm1(log_far_ratio(nu, ell, beta)))  # 1 − I_{ℓ+ν}/I_ν
    if share >= 1 - excess(1.0):
        return 1

    def slope(ell: float) -> float:
        gap = excess(ell)
        pull = math.asinh((ell + nu) / beta) * (1 - gap)
        return (1 / ell + 1 / (ell + dim - 2)) * (1 - share - gap) - pull

    if slope(1.0) <= 0:
        return 1
    # In log ℓ, because the root may be hundreds of orders below the end of the bracket.
    ends = (0.0, math.log(2 * math.sqrt(2 * beta)))
    return round(math.exp(root_scalar(lambda y: slope(math.exp(y)), bracket=ends).root))


def max_rate(beta: float, dim: int, *, normalized: bool = True, kappa: float = math.inf) -> float:
    """The largest growth rate, λ_{ℓ*}, on the SA clock (or the USA clock if not `normalized`).

    SA without noise: → 2/e = 0.7358 as β → ∞ at fixed d. Negative where noise keeps the uniform
    measure stable.

    >>> round(max_rate(5.0, 3), 6)
    0.672349
    """
    mode = dominant_mode(beta, dim, normalized=normalized, kappa=kappa)
    with np.errstate(over="ignore", under="ignore"):
        free = np.exp(log_rates_at(beta, dim, [mode], normalized=normalized)[0])
        return float(free - _laplacian(float(mode), dim) / kappa)


def switch_points(dim: int, count: int) -> np.ndarray:
    """The inverse temperatures β_1 < … < β_count where the dominant mode goes from k to k+1.

    L_{k+1} I_{k+1+ν}(β_k) = L_k I_{k+ν}(β_k), for SA and USA alike, without noise. Rule of thumb
    β_k ≈ ½[k(k+d−1) + (d−1)/2] (k ≫ d); β_1 ≈ (2/3)d in high dimension. Derived here.

    >>> switch_points(2, 3).round(5).tolist()
    [1.04446, 3.16543, 6.2113]
    """
    _require_dim(dim)
    _require_count("count", count)
    nu = dim / 2 - 1
    return np.array(
        [
            inverse_bessel_ratio(nu + k, _laplacian(k, dim) / _laplacian(k + 1, dim))
            for k in range(1, count + 1)
        ]
    )


def exit_time(tokens: float, max_rate: float) -> float:
    """Time for n independent uniform tokens to leave the uniform state, on the clock of the rate.

    t = ln n/(2 λ_max): amplitudes start at n^{−1/2} and grow to order one. Derived here; ∞ when
    λ_max ≤ 0.

    >>> round(exit_time(1000, 0.682678), 2)
    5.06
    """
    if not tokens >= 1:
        raise ValueError(f"tokens must be >= 1, got {tokens}; give the number of tokens.")
    return math.log(tokens) / (2 * max_rate) if max_rate > 0 else math.inf


def log_exit_time(tokens: float, log_max_rate: float) -> float:
    """Logarithm of `exit_time` from that of the largest rate, for USA rates that overflow.

    >>> round(log_exit_time(1000, 800.0), 2)  # −∞ for a single token
    -798.76
    """
    if not tokens >= 1:
        raise ValueError(f"tokens must be >= 1, got {tokens}; give the number of tokens.")
    return math.log(math.log(tokens) / 2) - log_max_rate if tokens > 1 else -math.inf


def _laplacian(degree: Any, dim: int) -> Any:
    """L = ℓ(ℓ+d−2), minus the eigenvalue of the Laplacian on S^{d−1}."""
    return degree * (degree + dim - 2)


def _gegenbauer(s: np.ndarray, dim: int, modes: int) -> np.ndarray:
    """P_1..P_modes at s, shape (modes, len(s)), normalised to P_ℓ(1) = 1."""
    rows = [np.ones_like(s), s]
    for ell in range(1, modes):
        rows.append(((2 * ell + dim - 2) * s * rows[-1] - ell * rows[-2]) / (ell + dim - 2))
    return np.array(rows[1:])


def gegenbauer_quadrature(dim: int, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss nodes and weights (sum one) for ∝ (1−s²)^{(d−3)/2}, by Golub–Welsch.

    `scipy.special.roots_jacobi` normalises by a Beta function that under- and overflows in the
    dimensions needed here; the eigenvectors' first components carry probability weights directly.
    """
    n = np.arange(2.0, nodes)
    nu = dim / 2 - 1
    squares = np.r_[1 / dim, n * (n + 2 * nu - 1) / (4 * (n + nu) * (n + nu - 1))]
    s, vectors = eigh_tridiagonal(np.zeros(nodes), np.sqrt(squares))
    return s, vectors[0] ** 2


def _require_dim(dim: int) -> None:
    if dim != int(dim) or dim < 2:
        raise ValueError(f"dim must be an integer >= 2, got {dim}; the circle is dim=2.")


def _require_count(name: str, count: int) -> None:
    if count != int(count) or count < 1:
        raise ValueError(f"{name} must be an integer >= 1, got {count}; ask for at least one.")


def _require_kappa(kappa: float) -> None:
    if not kappa > 0:
        raise ValueError(f"kappa must be > 0, got {kappa}; use inf for no noise.")
