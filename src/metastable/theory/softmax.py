"""Softmax of Gaussian logits: moments of attention weights at random queries and keys."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Floats = NDArray[np.float64]
STEP = 0.35  # of log u and log y: a sum over e^{2t − e^t} is then off by e^{−π²/STEP} = 6e−13


def softmax_overlaps(variance: float, correlation: float, tokens: int) -> tuple[float, float]:
    """A = E Σ_j w_j² and A − B, B = E Σ_j w_j w'_j, for softmax weights of n Gaussian logits.

    w_j ∝ e^{a g_j}, w'_j ∝ e^{a g'_j}, a² = `variance`, pairs (g_j, g'_j) independent over j with
    correlation ρ. With 1/Z = ∫ e^{−uZ} du,
    A = n ∫ u E[y² e^{−uy}] φ(u)^{n−1} du,                          y = e^{ag}, φ(u) = E e^{−uy},
    B = n ∬ E[y y' e^{−uy−vy'}] φ(u, v)^{n−1} du dv,                φ(u, v) = E e^{−uy−vy'}.

    Derived here; exact at every n ≥ 2, to about 1e−10 (equal steps in log u, log v, in the common
    part of g and g' and in their own). Below a = 0.01 the leading order a²(1−ρ)(n−1)/n² stands for
    A − B. Cost: some milliseconds, tenths of a second at a = 20.

    >>> total, lost = softmax_overlaps(1.0, 0.5, tokens=128)
    >>> round(total, 5), round(lost, 5)
    (0.02019, 0.00757)
    """
    if not 0 <= correlation <= 1:
        raise ValueError(f"correlation must lie in [0, 1], got {correlation}.")
    n, a = tokens, _deviation(variance)
    if a < 0.01:
        first = variance * (n - 1) / n**2
        return 1 / n + first, first * (1 - correlation)
    s = _grid(a, n)
    c, w = _normal(a)
    y = _exp(s[:, None] + a * c)  # u e^{ag}: the factor u makes du of ds
    kept = np.exp(-y)
    total = n * STEP * np.sum(((y * y * kept) @ w) * (kept @ w) ** (n - 1))
    if correlation == 0:  # independent rows: B = n (1/n)²
        return float(total), float(total - 1 / n)
    own, w = _normal(a * math.sqrt(1 - correlation))
    common = a * math.sqrt(correlation)
    if common > 2 * STEP:  # common parts on the lattice of s: a function of one variable is enough
        m = math.ceil(9 * common / STEP)
        t = s[0] + STEP * np.arange(-m, len(s) + m)
        weights = np.exp(-0.5 * (STEP * np.arange(-m, m + 1) / common) ** 2)
    else:
        nodes, weights = _normal(0.0)
        t = (s[:, None] + common * nodes).ravel()
    y = _exp(t[:, None] + a * math.sqrt(1 - correlation) * own)
    kept = np.exp(-y)
    columns = [kept @ w, (y * kept) @ w]
    if common > 2 * STEP:
        zeroth, first = (sliding_window_view(each, len(weights)) for each in columns)
    else:
        zeroth, first = (each.reshape(len(s), -1) for each in columns)
    weights = weights / weights.sum()
    pair = (first * weights) @ first.T * ((zeroth * weights) @ zeroth.T) ** (n - 1)
    return float(total), float(total - n * STEP**2 * pair.sum())


def frozen_share(variance: float, tokens: float) -> float:
    """Limit of E Σ_j w_j² as n → ∞ with a² = `variance` of the order of log n.

    max(0, 1 − √(2 log n)/a): zero below the freezing point a² = 2 log n, where no token has a share
    of order one; above it a few tokens take all. Two rows of correlation ρ < 1 then freeze on
    different tokens, so their overlap B vanishes on both sides.

    Source: the random energy model (Derrida, Physical Review B 24, 1981), as arXiv:2505.24333 uses
    it. The approach is like 1/log n: at n = 128 use `softmax_overlaps`.

    >>> round(frozen_share(8 * math.log(128), 128), 12)
    0.5
    """
    return max(0.0, 1 - math.sqrt(2 * math.log(tokens) / variance)) if variance > 0 else 0.0


@lru_cache(maxsize=4096)
def softmax_spread(variance: float, tokens: int) -> float:
    """E Σ_jl (∂w_j/∂s_l)² = E[Σw² − 2 Σw³ + (Σw²)²] for softmax weights of n Gaussian logits.

    By the integrals of `softmax_overlaps`, with 1/Z^k = ∫ u^{k−1} e^{−uZ} du/(k−1)!; same validity.

    >>> round(softmax_spread(0.0, tokens=4), 6)
    0.1875
    """
    n, a = tokens, _deviation(variance)
    if a < 0.01:
        return (n - 1) / n**2
    s = _grid(a, n)
    c, w = _normal(a)
    y = _exp(s[:, None] + a * c)
    kept = np.exp(-y)
    zeroth, second, third, fourth = ((y**k * kept) @ w for k in (0, 2, 3, 4))
    one = (second - third + fourth / 6) * zeroth ** (n - 1)  # 1/(k−1)! of ∫ u^{k−1} e^{−uZ} du
    two = (n - 1) / 6 * second**2 * zeroth ** (n - 2)
    return float(n * STEP * np.sum(one + two))


@lru_cache(maxsize=64)
def overlap_table(beta: float, tokens: int) -> tuple[Any, Any]:
    """A and (A − B)/x as polynomials in x = 1 − ρ for a² = β²x: tokens of mean square 1.

    Chebyshev through 49 nodes of `softmax_overlaps`; off by less than 1e−9 for β ≤ 6.
    """
    nodes = 0.5 + 0.5 * np.polynomial.chebyshev.chebpts1(49)
    values = np.array([softmax_overlaps(beta**2 * x, 1 - x, tokens) for x in nodes])
    share, lost = values[:, 0], values[:, 1] / nodes
    fit = np.polynomial.Chebyshev.fit
    return fit(nodes, share, 48, domain=[0.0, 1.0]), fit(nodes, lost, 48, domain=[0.0, 1.0])


def _deviation(variance: float) -> float:
    if not 0 <= variance <= 400:
        raise ValueError(
            f"variance must lie in [0, 400], got {variance}: beyond, rows look at one token each, "
            "and frozen_share is close."
        )
    return math.sqrt(variance)


def _exp(s: Floats) -> Floats:
    return np.exp(np.minimum(s, 6.6))  # e^{−y} has vanished long before y = e^{6.6}


def _grid(a: float, n: int) -> Floats:
    """log u from where u Z is negligible to where e^{−uZ} is."""
    low = -math.log(n) - a * min(a / 2 + 6, math.sqrt(2 * math.log(n)) + 6) - 24
    return np.arange(low, 6 * a + 5 - math.log(n), STEP)


def _normal(a: float) -> tuple[Floats, Floats]:
    """Nodes and weights of a Gaussian mean of functions of a·g that are smooth on the scale 1."""
    x = np.arange(-9.0, 9.0, min(0.5, STEP / max(a, 1e-9)))
    w = np.exp(-x * x / 2)
    return x, w / w.sum()


@lru_cache(maxsize=16)
def gauss(nodes: int) -> tuple[Floats, Floats]:
    """Nodes and weights of the mean over a standard Gaussian."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    return x, w / w.sum()
