"""Depth with random weights: tokens under common noise, dx_i = P_{x_i} dW m_i.

Two tokens are one diffusion. With ρ = ⟨x_1,x_2⟩, a = (‖m_1‖²+‖m_2‖²)/2 and b = ⟨m_1,m_2⟩,
averaged over what else is random,

    dρ = [b(d−2+ρ²) − a(d−1)ρ]dt + √(2(1−ρ²)(a−bρ)) dB        (σ = 1)

and for one head with Q = K = I, in y = artanh ρ with pq = p(1−p), p = 1/(1+e^{−β(1−ρ)}),

    dy = [2(d−2)pq + (1−2pq) tanh y]dt + √(2(1−2pq)) dB.

Derived here for layers x ← N(x + εW m), W common to all tokens, entries of variance 1, time ε²
a layer; the setting is that of [fedorov2026clustering] and [koubbi2026homogenized], of which the
abstracts were read. Noise of variance σ² makes time run σ² times as fast.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from scipy.integrate import simpson
from scipy.interpolate import CubicSpline

FAR = 40.0  # artanh ρ beyond which ρ is ±1 in doubles


class PairDiffusion:
    """Two tokens on S^{d−1} under common noise.

    - `beta`: of the head; `math.inf` for no attention, where each token sees itself alone.
    - `random_keys`: query and key are random too, so that logits are normal with variance β²
      times the inner products of their tokens (d large; two normal logit gaps are averaged over).

    >>> pair = PairDiffusion(beta=2.0, dim=4)
    >>> pair.consensus_exponent, round(pair.antipodal_exponent, 4)
    (-3.0, -1.788)
    >>> round(pair.antipodal_chance(), 4)
    0.2474
    """

    def __init__(self, beta: float, dim: int, *, random_keys: bool = False):
        if not beta >= 0:
            raise ValueError(f"beta must be ≥ 0; got {beta}: it is an inverse temperature.")
        if dim < 2:
            raise ValueError(f"dim must be at least 2; got {dim}.")
        self.beta, self.dim, self.random_keys = float(beta), int(dim), bool(random_keys)

    def shares(self, rho: float) -> tuple[float, float]:
        """E[2pq], and E[p_1p_2 + q_1q_2]: how far a token looks away from itself."""
        gap = 1 - rho
        if math.isinf(self.beta):
            return 0.0, 1.0
        if not self.random_keys:
            pq = 0.25 / math.cosh(min(self.beta * gap / 2, 300.0)) ** 2
            return 2 * pq, 1 - 2 * pq
        # z_1, z_2 normal with variance v = 2β²(1−ρ) and covariance −ρv.
        spread = self.beta * math.sqrt(2 * gap)
        mean, half = math.sqrt((1 - rho) / 2), math.sqrt((1 + rho) / 2)
        u, v = np.meshgrid(_NODES, _NODES)
        # Sum and difference of the two gaps are independent: variances v(1−ρ)/2 and v(1+ρ)/2.
        first, second = (spread * (mean * u + sign * half * v) for sign in (1, -1))
        weights = np.outer(_WEIGHTS, _WEIGHTS)
        s, t = np.tanh(first / 2), np.tanh(second / 2)
        return float(np.sum(weights * (1 - s * s)) / 2), float(np.sum(weights * (1 + s * t)) / 2)

    def drift(self, rho: float) -> float:
        """Mean change of ρ in a unit of time."""
        away, same = self.shares(rho)
        a, b = 1 - away * (1 - rho), 1 - same + same * rho
        return b * (self.dim - 2 + rho * rho) - a * (self.dim - 1) * rho

    def variance(self, rho: float) -> float:
        """Variance of ρ in a unit of time."""
        away, same = self.shares(rho)
        return 2 * (1 - rho * rho) * (1 - rho) * (1 - away + same * rho)

    def drift_of_y(self, y: float) -> float:
        """Mean change of y = artanh ρ, by Itô's formula, free of cancellation at the ends."""
        rho = math.tanh(y)
        away, same = self.shares(rho)
        if self.random_keys:
            flat = max(1 - rho * rho, 1e-300)
            return self.drift(rho) / flat + rho * self.variance(rho) / flat**2
        return (self.dim - 2) * away + same * rho

    def variance_of_y(self, y: float) -> float:
        """Variance of y in a unit of time."""
        rho = math.tanh(y)
        away, same = self.shares(rho)
        if self.random_keys:
            return 2 * (1 - away + same * rho) / max(1 + rho, 1e-300)
        return 2 * same

    @property
    def consensus_exponent(self) -> float:
        """Rate of log(1−ρ) as ρ → 1: −(d−1), and −2 without attention.

        All differences of tokens close together are multiplied by one common factor: the shape of
        a cluster freezes while it shrinks, whatever the number of tokens. log(1−ρ) has variance
        4t there, 8t without attention.
        """
        return -2.0 if math.isinf(self.beta) else -(self.dim - 1.0)

    @property
    def antipodal_exponent(self) -> float:
        """Rate of log(1+ρ) as ρ → −1: (d−1)/cosh²β − 2. Negative: antipodal pairs attract.

        Q = K = I. The same for two equal groups of tokens; unequal groups cannot stay opposite.
        """
        if self.random_keys:
            raise ValueError("random_keys must be False; the exponent is known for Q = K = I.")
        if self.beta > 300:
            return -2.0
        return (self.dim - 1) / math.cosh(self.beta) ** 2 - 2.0

    @property
    def volatility(self) -> float:
        """Standard deviation of log(1+ρ) at the antipode in a unit of time, √(8(p²+q²))."""
        return math.sqrt(8 * self.shares(-1.0)[1])

    @cached_property
    def _log_scale(self) -> CubicSpline:
        """log s′ of the scale density s′ = exp(−2∫ drift/variance), as a function of y."""
        y = np.linspace(-FAR, FAR, 16001)
        slopes = np.array([-2 * self.drift_of_y(v) / self.variance_of_y(v) for v in y])
        log = CubicSpline(y, slopes).antiderivative()(y)
        return CubicSpline(y, log - log.max())

    @cached_property
    def _scale(self) -> Any:
        """∫ s′ from −∞ on."""
        y = np.linspace(-FAR, FAR, 16001)
        return CubicSpline(y, np.exp(self._log_scale(y))).antiderivative()

    def antipodal_chance(self, rho: float = 0.0) -> float:
        """Probability that two tokens that start at ρ end opposite to each other.

        ∫_y^∞ s′/∫_{−∞}^∞ s′ with the scale density s′; 0 where antipodal pairs repel.
        """
        if not -1 < rho < 1:
            raise ValueError(f"rho must lie in (−1, 1); got {rho}.")
        if self.antipodal_exponent >= 0:
            return 0.0
        whole = self._scale(FAR)
        return float((whole - self._scale(math.atanh(rho))) / whole)

    def mean_exit_time(self, rho: float, low: float, high: float) -> float:
        """Mean time until ρ leaves (low, high): one quadrature of scale and speed.

        ∫ G(y,z) 2/(variance s′)(z) dz, G Green's function of the scale.
        """
        if not -1 < low < rho < high < 1:
            raise ValueError(f"rho must lie between low and high in (−1, 1); got {rho}.")
        z = np.linspace(math.atanh(low), math.atanh(high), 20001)
        here, left, right = math.atanh(rho), z[0], z[-1]
        scale, whole = self._scale(z), self._scale(right) - self._scale(left)
        level = self._scale(here)
        green = (np.minimum(scale, level) - scale[0]) * (scale[-1] - np.maximum(scale, level))
        variance = np.array([self.variance_of_y(v) for v in z])
        return float(simpson(2 * green / variance * np.exp(-self._log_scale(z)), z) / whole)


def antipodal_beta(dim: int) -> float:
    """β_c = arcosh √((d−1)/2): antipodal pairs attract for β > β_c; 0 for d ≤ 3.

    Derived here: the antipodal exponent (d−1)/cosh²β − 2 changes its sign there.

    >>> [round(antipodal_beta(d), 4) for d in (3, 4, 8, 16, 64)]
    [0.0, 0.6585, 1.2389, 1.6655, 2.4101]
    """
    if dim < 2:
        raise ValueError(f"dim must be at least 2; got {dim}.")
    return math.acosh(math.sqrt(max((dim - 1) / 2, 1.0)))


def group_exponent(beta: float, dim: int) -> float:
    """Rate of log(1−ρ) inside each of two equal opposite groups: −(d−1) tanh²β.

    Derived here: a token sees m = ±tanh(β) c to first order, whatever its own small displacement.

    >>> round(group_exponent(1.0, 4), 4)
    -1.7401
    """
    return -(dim - 1) * math.tanh(beta) ** 2


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
