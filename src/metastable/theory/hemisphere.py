"""Wendel's theorem: the chance that random tokens share an open hemisphere."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

# Above this many tokens the integers have thousands of digits and the logarithm takes over.
_EXACT_UP_TO = 1000


def wendel_exact(*, dim: int, tokens: int) -> Fraction:
    """Exact probability that n uniform tokens on S^{d−1} lie in one open hemisphere.

    P = 2^{−(n−1)} Σ_{k=0}^{d−1} C(n−1, k).

    Source: [wendel1962problem]; used in [geshkovski2023mathematical, §6.1] and slides Theorem 6,
    whose sum wrongly starts at k = 1. Valid for any law symmetric about the origin that puts no
    mass on hyperplanes. P = 1 for d ≥ n and exactly ½ at n = 2d. Cost: d additions of n-bit
    integers.

    >>> wendel_exact(dim=3, tokens=10)
    Fraction(23, 256)
    """
    _check(tokens, dim)
    total = term = 1
    for k in range(1, min(dim, tokens)):
        term = term * (tokens - k) // k
        total += term
    return Fraction(total, 2 ** (tokens - 1))


def wendel_probability(*, dim: int, tokens: int) -> float:
    """Probability that n uniform tokens on S^{d−1} lie in one open hemisphere, as a float.

    >>> wendel_probability(dim=500_000, tokens=1_000_000)
    0.5
    """
    if tokens <= _EXACT_UP_TO:
        return float(wendel_exact(dim=dim, tokens=tokens))
    if tokens == 2 * dim:
        return 0.5
    return math.exp(log_wendel_probability(dim=dim, tokens=tokens))


def log_wendel_probability(*, dim: int, tokens: int) -> float:
    """Natural logarithm of Wendel's probability, for n up to 10⁶ and any d.

    Derived here: the largest term C(n−1, d−1) in Stirling–deviance form times a sum of falling
    ratios; for d > n/2 the identity P(n, d) = 1 − P(n, n−d) is used. Error of the logarithm: a few
    units in its last place.

    >>> round(log_wendel_probability(dim=3, tokens=1_000_000), 6)
    -693119.54954
    """
    _check(tokens, dim)
    if dim >= tokens:
        return 0.0
    if 2 * dim > tokens:
        return math.log1p(-math.exp(log_wendel_probability(dim=tokens - dim, tokens=tokens)))
    if 2 * dim == tokens:
        return -math.log(2)
    m, k = tokens - 1, dim - 1
    j = np.arange(k, 0, -1, dtype=float)
    ratios = np.cumprod(j / (m - j + 1))  # C(m, j−1)/C(m, j)
    return _log_half_binomial(m, k) + math.log1p(float(ratios.sum()))


def _log_half_binomial(m: int, k: int) -> float:
    """log[C(m, k) 2^{−m}] without subtracting log-factorials of size m log m."""
    if k == 0:
        return -m * math.log(2)
    u = (m - 2 * k) / m
    deviance = m / 2 * ((1 + u) * math.log1p(u) + (1 - u) * math.log1p(-u))
    spread = 0.5 * math.log(m / (2 * math.pi * k * (m - k)))
    return spread - deviance + _stirling_error(m) - _stirling_error(k) - _stirling_error(m - k)


def _stirling_error(n: int) -> float:
    """log n! − log(√(2πn)(n/e)^n)."""
    if n < 20:
        return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2 * math.pi)
    x = 1 / (n * n)
    return (1 / 12 - x * (1 / 360 - x * (1 / 1260 - x * (1 / 1680 - x / 1188)))) / n


def _check(tokens: int, dim: int) -> None:
    if tokens < 1 or dim < 1:
        raise ValueError(
            f"tokens and dim must be at least 1, got {tokens} and {dim}; count from one."
        )
