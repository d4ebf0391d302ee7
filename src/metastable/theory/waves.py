"""Maxima of random waves: mean and variance of their number on the circle and S²."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def expected_maxima(power: Any, dim: int) -> float:
    """Mean number of maxima of a Gaussian function with power S_1..S_K in degrees 1..K.

    Circle: √(Σ k⁴S_k/Σ k²S_k) (Rice). S²: 1 + 2q/√(3 + 1/q), q = C″(1)/C′(1) the ratio of the
    derivatives of the covariance C(s) = Σ S_ℓ P_ℓ(s), P_ℓ′(1) = L/2 and P_ℓ″(1) = L(L−2)/8.

    Source: the Kac–Rice formula, worked out here: gradient and Hessian are independent, and the
    Hessian is uI plus a traceless part of variances 2C″ + C′ and C″. Exact for every spectrum of
    independent coefficients, S_ℓ the variance of the whole degree. A single degree ℓ on S² has
    L/(2√3) maxima for large ℓ.

    >>> expected_maxima([0, 0, 1.0], 2)
    3.0
    """
    power = np.asarray(power, float)
    degree = np.arange(1.0, power.size + 1)
    if dim == 2:
        return math.sqrt(float(power @ degree**4) / float(power @ degree**2))
    if dim != 3:
        raise ValueError(f"dim must be 2 or 3, got {dim}; counts are known on these only.")
    laplacian = degree * (degree + 1)
    quotient = float(power @ (laplacian * (laplacian - 2))) / (4 * float(power @ laplacian))
    return 1.0 if quotient <= 0 else 1 + 2 * quotient / math.sqrt(3 + 1 / quotient)


def maxima_variance(power: Any) -> float:
    """Variance of the number of maxima on the circle, power as in `expected_maxima`.

    Maxima are half of the zeros of the derivative Y, and for a stationary Gaussian Y of covariance
    r (r(0) = 1) the factorial second moment of its zeros is 2π ∫ (E|XX′|/(2π√(1−r²))) dt over the
    circle, X and X′ normal with variance −r″(0) − r′²/(1−r²) and covariance
    −r″ − r r′²/(1−r²), E|XX′| = (2/π)σ²(√(1−ρ²) + ρ asin ρ).

    Source: Cramér and Leadbetter, Stationary and Related Stochastic Processes (1967), ch. 10. By
    the midpoint rule; a spectrum so narrow that the number is almost sure gives 0 or more.
    """
    power = np.asarray(power, float)
    degree = np.arange(1.0, power.size + 1)
    share = power * degree**2 / float(power @ degree**2)
    size = max(8192, 2 ** math.ceil(math.log2(64 * power.size)))
    half = np.exp(1j * np.pi * degree / size)  # midpoints: t = 0 is a removable 0/0
    curve = lambda weights: (
        np.fft.irfft(np.r_[0, weights * half / 2], size)[: size // 2].astype(float) * size
    )
    r, slope, bend = curve(share), curve(1j * degree * share), curve(-(degree**2) * share)
    second = float(share @ degree**2)
    free = 1 - r * r
    variance = np.maximum(second - slope**2 / free, 1e-300)
    correlation = np.clip((-bend - r * slope**2 / free) / variance, -1, 1)
    mixed = np.sqrt(1 - correlation**2) + correlation * np.arcsin(correlation)
    pairs = (
        2 * math.pi * 2 * math.pi * float(np.mean(variance * mixed / np.sqrt(free))) / math.pi**2
    )
    zeros = 2 * math.sqrt(second)
    return max(0.0, (pairs + zeros - zeros**2) / 4)
