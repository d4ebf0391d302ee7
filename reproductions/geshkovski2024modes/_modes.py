"""Modes of a Gaussian kernel density estimate: counted, and expected by the Kac–Rice formula."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

CELLS = 16  # grid points a bandwidth


def count_modes(sample: np.ndarray, beta: float) -> np.ndarray:
    """Places of the maxima of Σ_i e^{−β(t−X_i)²/2}, by its values on a fine grid.

    All terms are positive and the kernel is cut at twelve bandwidths, so that no rounding makes a
    maximum in an empty stretch.
    """
    step = 1 / (CELLS * math.sqrt(beta))
    low = sample.min() - 13 / math.sqrt(beta)
    counts = np.bincount(np.rint((sample - low) / step).astype(int), minlength=1)
    counts = np.pad(counts, (0, 13 * CELLS)).astype(float)
    u = np.arange(-12 * CELLS, 12 * CELLS + 1) * step
    density = np.convolve(counts, np.exp(-beta * u * u / 2), mode="same")
    inner = density[1:-1]
    peaks = np.flatnonzero((inner > density[:-2]) & (inner >= density[2:])) + 1
    return low + step * peaks


def mode_density(t: np.ndarray, tokens: float, beta: float) -> np.ndarray:
    """Expected modes per length at t for a sample of N(0,1), with P' and P'' taken for Gaussian.

    Kac and Rice: ∫ y p(0, −y) dy over y > 0, p the joint density of (P', P'') with the exact means
    and covariances of the sums; every moment is that of a Gaussian of variance 1/(1+2β).
    """
    t = np.asarray(t, float)
    mean = np.exp(-beta * t * t / (2 * (1 + beta))) / math.sqrt(1 + beta)
    a = beta / (1 + beta)
    first, second = -a * t * mean, (a * a * t * t - a) * mean
    base = np.exp(-beta * t * t / (1 + 2 * beta)) / math.sqrt(1 + 2 * beta)
    m, v = t / (1 + 2 * beta), 1 / (1 + 2 * beta)
    u2, u3 = m * m + v, m**3 + 3 * m * v
    u4 = m**4 + 6 * m * m * v + 3 * v * v
    var1 = (beta**2 * u2 * base - first**2) / tokens
    var2 = ((beta**4 * u4 - 2 * beta**3 * u2 + beta**2) * base - second**2) / tokens
    both = ((-(beta**3) * u3 + beta**2 * m) * base - first * second) / tokens
    at_zero = np.exp(-first * first / (2 * var1)) / np.sqrt(2 * math.pi * var1)
    drift = second - both / var1 * first
    spread = np.sqrt(np.maximum(var2 - both**2 / var1, 1e-300))
    z = -drift / spread
    return at_zero * spread * (np.exp(-z * z / 2) / math.sqrt(2 * math.pi) + z * ndtr(z))


def expected_modes(tokens: float, beta: float, low: float = 0.0, high: float = math.inf) -> float:
    """Modes with |t| between `low` and `high`."""
    top = min(high, math.sqrt(2 * math.log(tokens)) + 1.0)
    if top <= low:
        return 0.0
    t = np.linspace(low, top, 4001)
    return float(2 * np.trapezoid(mode_density(t, tokens, beta), t))


def belt(tokens: float, beta: float) -> tuple[float, float]:
    """|t| at the edges of the belt t² ∈ [2 log n − 3 log β, 2 log n − log β]."""
    low = max(2 * math.log(tokens) - 3 * math.log(beta), 0.0)
    return math.sqrt(low), math.sqrt(2 * math.log(tokens) - math.log(beta))
