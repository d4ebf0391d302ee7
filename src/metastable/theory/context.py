"""Long contexts: what one attention layer does when β grows like log n."""

from __future__ import annotations

import math


def critical_scaling(correlation: float) -> float:
    """Critical γ = 1/(1−ρ) in β_n = γ log n for tokens of common correlation ρ.

    Source: [chen2025critical, Thm 2.1]. Below it one layer collapses all tokens, above it the
    layer is the identity.

    >>> critical_scaling(0.5)
    2.0
    """
    _check(correlation)
    return 1 / (1 - correlation)


def layer_correlation(correlation: float, gamma: float, tokens: float = math.inf) -> float:
    """Correlation of the tokens after one attention layer with β = γ log n.

    n → ∞: ρ ↦ 1, 4ρ/(1+3ρ), ρ for γ below, at, above 1/(1−ρ).
    Finite n, exact: with p, q the weights on oneself and on each other token,
    a = p−q, σ = 1+(n−1)ρ and m = 2aqσ + q²nσ,  ρ' = (a²ρ+m)/(a²+m).

    Source: [chen2025critical, Thm 2.1] for the limit; the finite-n form is derived here. Valid for
    n unit tokens with all pairwise inner products ρ in (0, 1), Q = K = V = I, no residual branch,
    output normalised. The approach to the limit is slow, like n^{−|γ(1−ρ)−1|}.

    >>> layer_correlation(0.5, gamma=2.0)
    0.8
    >>> round(layer_correlation(0.5, gamma=2.0, tokens=1000), 4)
    0.8003
    """
    _check(correlation)
    rho = correlation
    if not gamma >= 0:
        raise ValueError(f"gamma must be ≥ 0, got {gamma}; it multiplies log n.")
    critical = critical_scaling(rho)
    if math.isinf(tokens):
        if math.isclose(gamma, critical, rel_tol=1e-12):
            return 4 * rho / (1 + 3 * rho)
        return 1.0 if gamma < critical else rho
    if tokens < 2:
        raise ValueError(f"tokens must be at least 2, got {tokens}; one token has no correlation.")
    n = tokens
    wall = n ** (-gamma * (1 - rho))  # e^{β(ρ−1)}: attention of another token relative to oneself
    p = 1 / (1 + (n - 1) * wall)
    q = p * wall
    a, sigma = p - q, 1 + (n - 1) * rho
    shared = 2 * a * q * sigma + q * q * n * sigma
    return (a * a * rho + shared) / (a * a + shared)


def _check(correlation: float) -> None:
    if not 0 < correlation < 1:
        raise ValueError(
            f"correlation must lie in (0, 1), got {correlation}; it is a common inner product."
        )
