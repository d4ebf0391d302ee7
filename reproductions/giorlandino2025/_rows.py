"""Entropy of softmax rows: exact at n Gaussian logits, and of random attention."""

from __future__ import annotations

import numpy as np


def mean_log_sum(deviation: float, tokens: float) -> float:
    """E log Σ_j e^{a g_j} of n Gaussian g_j: ∫ (e^{−u} − φ(u)^n)/u du, φ(u) = E e^{−u e^{ag}}."""
    a, log_n = deviation, np.log(tokens)
    # Trapezoids of an analytic function of s = log u: exact to many digits at these steps.
    low = -log_n - min(a * a / 2, a * (np.sqrt(2 * log_n) + 8)) - 30
    s = np.arange(low, max(6 * a + 5 - log_n, 4.5), 0.2)
    far = np.sqrt(2 * log_n) + 8  # beyond the largest of n
    g = np.arange(-far, far, min(0.5, 0.35 / max(a, 1e-3)))
    weights = np.exp(-g * g / 2)
    weights /= weights.sum()
    # 1 − φ keeps its digits where u is small and n large.
    missing = -np.expm1(-np.exp(np.minimum(s[:, None] + a * g, 7.0))) @ weights
    kept = np.exp(tokens * np.log1p(-np.minimum(missing, 1 - 1e-15)))
    return float(np.sum(np.exp(-np.exp(s)) - kept) * 0.2)


def mean_entropy(deviation: float, tokens: float) -> float:
    """E −Σ w log w = E log Z − a d(E log Z)/da."""
    h = 1e-3 * max(deviation, 0.1)
    high, low = (mean_log_sum(deviation + s, tokens) for s in (h, -h))
    return mean_log_sum(deviation, tokens) - deviation * (high - low) / (2 * h)


def random_rows(tokens: int, width: int, deviation: float, seed: int) -> np.ndarray:
    """Attention weights of independent tokens under random queries and keys, logits of that a."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((tokens, width))
    query, key = rng.standard_normal((2, width, width)) * np.sqrt(deviation / width)
    logits = (x @ query) @ (x @ key).T / np.sqrt(width)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)
