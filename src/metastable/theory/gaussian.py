"""Gaussians under softmax attention: closed forms, blow-up, limit rank, and finite samples.

Notation: A = βKᵀQ (β includes 1/√d_k), S = Lᵀ(A+Aᵀ)L with Σ_0 = LLᵀ. Nothing is inverted: all
formulas hold for singular covariances too.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.special import gammaincinv, ndtr

from metastable.core import checks

FLAT = 1e-9  # eigenvalues of S below this share of the largest count as zero


def covariance_at(t: float, cov: np.ndarray, bilinear: np.ndarray) -> np.ndarray:
    """Covariance at time t under softmax attention with V = I.

    Σ(t) = (Σ_0⁻¹ − t(A+Aᵀ))⁻¹ = L(I − tS)⁻¹Lᵀ, A = `bilinear`. Only the symmetric part of A acts.
    For V = vI replace t by vt.

    Source: derived here from Σ̇ = ΣAΣ + ΣAᵀΣ [castin2025unified]; checked against an ODE solver.
    Valid for t below `blow_up_time`; an error beyond it.

    >>> covariance_at(0.25, np.eye(1), np.eye(1)).round(12).tolist()
    [[2.0]]
    """
    factor, rates, basis = _spectrum(cov, bilinear)
    if t * rates[-1] >= 1:
        raise ValueError(
            f"t must lie before the blow-up at {1 / rates[-1]:.6g}; got {t}: ask for an earlier "
            "time."
        )
    spread = (factor @ basis) / np.sqrt(1 - t * rates)
    return spread @ spread.T


def mean_at(t: float, mean: np.ndarray, cov: np.ndarray, bilinear: np.ndarray) -> np.ndarray:
    """Mean at time t under softmax attention with V = I and symmetric A.

    m(t) = e^t (I + L φ(S) LᵀA) m_0,  φ(s) = 2((1−ts)^{−1/2} − 1)/s.

    Source: derived here from ṁ = (I+ΣA)m: in the eigenvectors of S the linear part is the scalar
    equation k̇ = s/(2(1−ts)) k. Checked against an ODE solver. For other A there is none. Entries
    beyond the largest double are ±∞, from t ≈ 709 on.
    """
    if not np.allclose(bilinear, np.transpose(bilinear), rtol=1e-12, atol=0):
        raise ValueError("bilinear must be symmetric for this closed form; integrate the ODE.")
    factor, rates, basis = _spectrum(cov, bilinear)
    if t * rates[-1] >= 1:
        raise ValueError(f"t must lie before the blow-up at {1 / rates[-1]:.6g}; got {t}.")
    # (1−x)^{−1/2} − 1 with x = ts, without cancellation, and its limit 1/2 of the quotient at 0.
    x = t * rates
    root = np.sqrt(1 - x)
    phi = 2 * t / (root * (1 + root))
    turned = factor @ basis
    slow = np.asarray(mean + (turned * phi) @ (turned.T @ (bilinear @ mean)), float)
    with np.errstate(over="ignore", divide="ignore"):
        # e^t alone overflows before its product with a small entry does.
        grown = np.sign(slow) * np.exp(t + np.log(np.abs(slow)))
        return math.exp(t) * slow if t < 600 else grown


def blow_up_time(cov: np.ndarray, bilinear: np.ndarray) -> float:
    """When the covariance becomes infinite under V = I: 1/λ_max(S), or infinity if λ_max ≤ 0.

    Source: derived here, from `covariance_at`. For V = −I pass −A.

    >>> blow_up_time(np.eye(2), np.diag([1.0, -1.0]))
    0.5
    """
    _, rates, _ = _spectrum(cov, bilinear)
    return 1 / float(rates[-1]) if _positive(rates) else math.inf


def limit_covariance(cov: np.ndarray, bilinear: np.ndarray) -> np.ndarray:
    """lim Σ(t) for V = I and A+Aᵀ ≤ 0 on the range of Σ_0: LPLᵀ, P the projector on ker S.

    Source: derived here, from `covariance_at`; the other directions shrink like 1/t.
    """
    factor, rates, basis = _spectrum(cov, bilinear)
    if _positive(rates):
        raise ValueError(
            f"bilinear must have no positive direction (A + Aᵀ ≤ 0) to have a limit; this one "
            f"blows up at t = {1 / rates[-1]:.6g}."
        )
    kept = factor @ basis[:, np.abs(rates) <= FLAT * np.max(np.abs(rates), initial=1e-300)]
    return kept @ kept.T


def limit_rank(cov: np.ndarray, bilinear: np.ndarray) -> int:
    """Rank of `limit_covariance`: d − rank(A+Aᵀ) for a positive definite start.

    Source: derived here. At every finite time the rank is that of the start.

    >>> limit_rank(np.eye(3), np.diag([-1.0, -2.0, 0.0]))
    1
    """
    limit = np.linalg.eigvalsh(limit_covariance(cov, bilinear))
    return int(np.sum(limit > FLAT * np.linalg.eigvalsh(cov)[-1]))


def collapsed_shape(cov: np.ndarray, bilinear: np.ndarray) -> np.ndarray:
    """lim Σ(t)/tr Σ(t) at the blow-up for V = I: LP'Lᵀ normalised, P' on the top eigenspace of S.

    Source: derived here. Its rank is the multiplicity of λ_max(S): one, for a generic A. Growth
    collapses the rank as surely as decay does.
    """
    factor, rates, basis = _spectrum(cov, bilinear)
    if not _positive(rates):
        raise ValueError("bilinear must have a positive direction (A + Aᵀ) for a blow-up.")
    top = factor @ basis[:, rates >= (1 - FLAT) * rates[-1]]
    return top @ top.T / np.sum(top**2)


def longest_truncated_step(cov: np.ndarray, linear: np.ndarray) -> float:
    """Longest ε for which Σ + ε(BΣ+ΣBᵀ), B = `linear`, is still positive semidefinite.

    ε = −1/λ_min of the pencil (BΣ+ΣBᵀ, Σ), infinity when λ_min ≥ 0. Σ must be positive definite.

    Source: derived here. The exact layer (I+εB)Σ(I+εB)ᵀ has no such limit.

    >>> longest_truncated_step(np.eye(1), -2.0 * np.eye(1))
    0.25
    """
    turned = linear @ cov
    least = float(eigh(turned + turned.T, cov, eigvals_only=True)[0])
    return -1 / least if least < 0 else math.inf


class SampleError(NamedTuple):
    """Relative errors of an empirical mean (Euclidean) and covariance (Frobenius).

    `mean`, `cov`: root mean square; `mean_band`, `cov_band`: where 95 % of the errors fall.
    """

    mean: float
    cov: float
    mean_band: tuple[float, float]
    cov_band: tuple[float, float]


def sample_error(mean: np.ndarray, cov: np.ndarray, samples: int) -> SampleError:
    """Relative errors of the empirical mean and covariance of N samples of N(m, Σ).

    Root mean squares √(tr Σ/N)/‖m‖ and √((tr²Σ + ‖Σ‖²_F)/N)/‖Σ‖_F: the 1/√N law with its
    constants. The second grows with the effective rank tr²Σ/‖Σ‖²_F: √(d/N) for a flat spectrum.
    Bands: N times a squared error is a sum of squared normals, of variances λ_i for the mean and
    2λ_iλ_j with i ≤ j for the covariance; it is taken for the gamma law of its two moments.

    Source: fourth moments of a Gaussian (Isserlis), derived here and checked by simulation; exact
    means up to O(1/N).

    >>> sample_error(np.ones(1), np.eye(1), 200).cov
    0.1
    """
    values = np.linalg.eigvalsh(cov)
    trace, square, cube, fourth = (float(np.sum(values**k)) for k in (1, 2, 3, 4))
    size = float(np.linalg.norm(mean))
    size = size if size else math.nan  # no mean, no relative error of it
    mean_rms, mean_band = _band(trace, 2 * square, samples, size)
    # Parts of variance 2λ_iλ_j, i ≤ j, give the first term; the second, Var ‖x‖⁴/N from the
    # cumulants of ‖x‖², matters while N is not far above the effective rank.
    heavy = 8 * square * trace**2 + 8 * square**2 + 32 * cube * trace + 48 * fourth
    variance = 4 * (square**2 + fourth) + heavy / samples
    cov_rms, cov_band = _band(trace**2 + square, variance, samples, math.sqrt(square))
    return SampleError(mean_rms, cov_rms, mean_band, cov_band)


def _band(
    mean: float, variance: float, samples: int, size: float
) -> tuple[float, tuple[float, float]]:
    """Root mean square and 95 % band of an error whose N-fold square has these two moments."""
    quantiles = variance / mean * gammaincinv(mean**2 / variance, [0.025, 0.975])
    low, high = (math.sqrt(q / samples) / size for q in quantiles)
    return math.sqrt(mean / samples) / size, (low, high)


def logit_variance(places: np.ndarray, cov: np.ndarray, bilinear: np.ndarray) -> np.ndarray:
    """Variance s² = xᵀAᵀΣAx of the logits that a token at each place (row of `places`) sees."""
    turned = places @ np.transpose(bilinear)
    return np.einsum("ij,jk,ik->i", turned, cov, turned)


def effective_tokens(variance: float, tokens: float) -> float:
    """How many of n Gaussian tokens a softmax averages, 1/E Σp_j², at logit variance s².

    With X = sZ, Z standard normal, and 1/y² = ∫ u e^{−uy} du (u = e^v),
    E Σp_j² = n ∫ G(v) (1 − D(v))^{n−1} dv,
    G(v) = E e^{2(X+v) − e^{X+v}} and D(v) = E[1 − e^{−e^{X+v}}].
    Exact for every s² ≥ 0 and n ≥ 1; evaluated to 1e−10 for n to 1e18 and s² to 1e12.

    n e^{−s²} for s² < log n/2 and large n (a law of large numbers), and 1/(1 − √(2 log n)/s) deep
    in the frozen phase s² > 2 log n, a few tokens however large n is: the random energy model,
    derrida1981random, at temperature 1/s. The closed form of a layer is the limit n → ∞ at fixed
    s²: tokens agree with it in the first of these.

    >>> round(effective_tokens(1.0, 10_000)), round(effective_tokens(256.0, 20_000), 2)
    (3682, 1.33)
    """
    checks.nonnegative("variance", variance)
    if not 1 <= tokens < math.inf:
        raise ValueError(f"tokens must be a number >= 1; got {tokens}: give how many there are.")
    n, s = float(tokens), math.sqrt(variance)
    if n == 1 or s < 1e-8:
        return n
    # Both ends are where the integrand is below 1e−16 of its integral, which is 1/n at least.
    room = math.log(n)
    low = -room - 25 - s * min(2 * s, math.sqrt(4 * room + 80))
    high = 10 * s + 7
    step = max(1.0, s / 10) / 16
    v = np.arange(low, high + step, step)
    density, tail = _softmax_moments(v, s)
    with np.errstate(divide="ignore", under="ignore"):
        log_left = (n - 1) * np.log1p(-np.minimum(tail, 1.0))
        share = n * step * float(np.sum(density * np.exp(log_left)))
    return float(np.clip(1 / share, 1.0, n))


def _softmax_moments(v: np.ndarray, s: float) -> tuple[np.ndarray, np.ndarray]:
    """G(v) = E e^{2(X+v) − e^{X+v}} and D(v) = E[1 − e^{−e^{X+v}}] for X normal of deviation s."""
    bump = lambda y: np.exp(2 * y - np.exp(np.minimum(y, 7.0)))
    rise = lambda y: -np.expm1(-np.exp(np.minimum(y, 7.0)))
    if s <= 3:
        # The trapezoidal rule in Z: entire integrands, its error is below 1e−15.
        z = np.arange(-13.0, 19.0, 1 / 16)
        normal = np.exp(-z * z / 2) / (16 * math.sqrt(2 * math.pi))
        y = v[:, None] + s * z
        return bump(y) @ normal, rise(y) @ normal
    # A wide normal is smooth, and what it is integrated against is a step at 0 and a short bump.
    x, weights = np.polynomial.legendre.leggauss(24)
    edges = np.array([-100.0, -80, -60, -45, -30, -20, -13, -8, -4, -2, 0, 1, 2, 3, 4, 6])
    half = np.diff(edges)[:, None] / 2
    y = (edges[:-1, None] + half * (1 + x)).ravel()
    weights = (half * weights).ravel()
    gap = (y - v[:, None]) / s
    normal = np.exp(-gap * gap / 2) / (s * math.sqrt(2 * math.pi))
    step = ndtr(v / s)
    return normal @ (weights * bump(y)), step + normal @ (weights * (rise(y) - (y > 0)))


def _spectrum(cov: np.ndarray, bilinear: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """L with Σ = LLᵀ, and the eigenvalues (increasing) and eigenvectors of S = Lᵀ(A+Aᵀ)L."""
    cov, bilinear = np.asarray(cov, float), np.asarray(bilinear, float)
    if cov.ndim != 2 or cov.shape[0] != cov.shape[1] or bilinear.shape != cov.shape:
        raise ValueError(
            f"cov and bilinear must be square matrices of one size; got shapes {cov.shape} and "
            f"{bilinear.shape}."
        )
    values, vectors = np.linalg.eigh(cov)
    if values[0] < -1e-10 * abs(values[-1]):
        raise ValueError(f"cov must be positive semidefinite; got the eigenvalue {values[0]:.3g}.")
    factor = vectors * np.sqrt(np.maximum(values, 0.0))
    rates, basis = np.linalg.eigh(factor.T @ (bilinear + bilinear.T) @ factor)
    return factor, rates, basis


def _positive(rates: np.ndarray) -> bool:
    return bool(rates[-1] > FLAT * np.max(np.abs(rates)))
