"""Gaussians under softmax attention: closed forms, blow-up, limit rank, and finite samples.

Notation: A = βKᵀQ (β includes 1/√d_k), S = Lᵀ(A+Aᵀ)L with Σ_0 = LLᵀ. Nothing is inverted: all
formulas hold for singular covariances too.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.special import gammaincinv

__all__ = [
    "SampleError",
    "blow_up_time",
    "collapsed_shape",
    "covariance_at",
    "effective_tokens",
    "limit_covariance",
    "limit_rank",
    "logit_variance",
    "longest_truncated_step",
    "mean_at",
    "sample_error",
]

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
    equation k̇ = s/(2(1−ts)) k. Checked against an ODE solver. For other A there is none.
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
    return math.exp(t) * (mean + (turned * phi) @ (turned.T @ (bilinear @ mean)))


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


def effective_tokens(variance: float, tokens: int) -> float:
    """How many of n Gaussian tokens a softmax effectively averages, 1/Σp_j², at logit variance s².

    s² ≤ log n/2, where the weights obey a law of large numbers: n e^{−s²}.
    s² > 2 log n, frozen: 1/(1 − √(2 log n)/s), a few tokens however large n is.
    Between the two Σp_j² is carried by its largest terms: (n e^{s²/2})² e^{−2s√(2 log n)}.

    Source: the random energy model, derrida1981random, at temperature 1/s.
    Leading order as n → ∞ at fixed s²/log n, so only an order of magnitude near s² = 2 log n. The
    closed form of a layer is the limit n → ∞ at fixed s²: tokens agree with it in the first line.

    >>> round(effective_tokens(1.0, 10_000)), round(effective_tokens(256.0, 20_000), 2)
    (3679, 1.39)
    """
    if variance <= 0.5 * math.log(tokens):
        return tokens * math.exp(-variance)
    deviation, edge = math.sqrt(variance), math.sqrt(2 * math.log(tokens))
    if deviation > edge:
        return 1 / (1 - edge / deviation)
    return max(1.0, math.exp(2 * math.log(tokens) + variance - 2 * deviation * edge))


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
