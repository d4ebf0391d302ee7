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
from typing import Any, NamedTuple

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
        _check_head(beta, dim)
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


class CosineGenerator(NamedTuple):
    """Mean change and variance of every ρ_ij = ⟨x_i,x_j⟩ in a unit of time, each (n, n)."""

    drift: np.ndarray
    variance: np.ndarray

    @property
    def mean(self) -> float:
        """Mean change of the mean cosine of two different tokens."""
        n = len(self.drift)
        return float((self.drift.sum() - np.trace(self.drift)) / (n * (n - 1)))


def cosine_generator(gram: Any, beta: float, dim: int) -> CosineGenerator:
    """What common noise does to the cosines of n tokens on S^{d−1}, exactly.

    With G = (ρ_ij), A = softmax(βG) by rows and M = AGAᵀ the inner products of what tokens see,

        drift_ij = M_ij(d−2+ρ_ij²) − ½(d−1)(M_ii+M_jj)ρ_ij
        variance_ij = (1−ρ_ij²)(M_ii+M_jj−2ρ_ijM_ij)                        (σ = 1)

    Derived here by Itô's formula from dx_i = P_{x_i}dW m_i − ½(d−1)‖m_i‖²x_i dt: dW m_i and dW m_j
    have the covariance M_ij I dt, and tr P_iP_j = d−2+ρ_ij². Both depend on G alone, so that G is
    a diffusion of its own. Valid for full Gaussian W of any n, equal weights; `beta` = ∞: M = G.

    >>> pair = PairDiffusion(beta=2.0, dim=4)
    >>> found = cosine_generator([[1.0, 0.3], [0.3, 1.0]], 2.0, 4)
    >>> bool(np.isclose(found.mean, pair.drift(0.3)))
    True
    """
    g = _gram(gram)
    _check_head(beta, dim)
    seen = g
    if beta < math.inf:
        weights = np.exp(beta * (g - g.max(axis=1, keepdims=True)))
        weights /= weights.sum(axis=1, keepdims=True)
        seen = weights @ g @ weights.T
    lengths = np.diag(seen)[:, None] + np.diag(seen)
    drift = seen * (dim - 2 + g * g) - (dim - 1) / 2 * lengths * g
    variance = (1 - g * g) * (lengths - 2 * g * seen)
    return CosineGenerator(drift, np.maximum(variance, 0.0))


def energy_drift(gram: Any, beta: float, dim: int) -> float:
    """Mean change of the energy E = Σ_ij e^{βρ_ij}/(2βn²) in a unit of time under common noise.

    LE = Σ_ij e^{βρ_ij}(drift_ij + ½β variance_ij)/(2n²), of `cosine_generator`; β > 0, finite.

    Derived here. Two tokens, s = 2pq: LE = ¼e^{βρ}(1−ρ²)·((d−2)s − (1−s)ρ + β(1−s)(1−ρ²)). For
    d ≥ 3 this is ≥ 0 whatever ρ and β: with u = β(1−ρ) and T = tanh(u/2) the bracket is, for
    ρ ≥ 0, at least the smaller of s + (1−s)u and u(1+T²) − T², and T² ≤ T ≤ u/2. So the gap to the
    largest energy falls on average, and stands still only at ρ = ±1. On the circle s drops out,
    and LE < 0 where β(1−ρ²) < ρ: close to consensus the mean energy falls, although tokens come
    together almost surely (`moment_exponent`). For more tokens the sign is not proved; 21 000
    random configurations of 2 to 32 tokens in each of d = 3, 4, 6, 16 had none with LE < 0.

    >>> [energy_drift([[1.0, 0.9], [0.9, 1.0]], 1.0, dim) > 0 for dim in (2, 3, 8)]
    [False, True, True]
    """
    if not 0 < beta < math.inf:
        raise ValueError(f"beta must be positive and finite; got {beta}: it is the energy's too.")
    g = _gram(gram)
    drift, variance = cosine_generator(g, beta, dim)
    return float(np.sum(np.exp(beta * g) * (drift + beta / 2 * variance)) / (2 * len(g) ** 2))


def moment_exponent(order: float, dim: int) -> float:
    """Rate of log E(1−ρ)^q near consensus: 2q² − (d−1)q, for any number of tokens.

    Derived here: there all differences are multiplied by one factor, and log(1−ρ) of every pair
    has the drift −(d−1) and variance 4 a unit of time, so that (1−ρ)^q is lognormal. Moments of
    order q < (d−1)/2 decay. The first, and with it the gap of the energy to its largest value,
    decays at the rate d−3: on S² it stands still on average, on the circle it grows, while tokens
    come together almost surely at the rate d−1. Rare tokens that are driven apart carry the mean.
    Within reach of consensus only: 1−ρ is bounded, so that growth ends.

    >>> [moment_exponent(1.0, dim) for dim in (2, 3, 8)]
    [1.0, 0.0, -5.0]
    """
    if not order >= 0:
        raise ValueError(f"order must be ≥ 0; got {order}: 1−ρ may be zero.")
    _check_head(0.0, dim)
    return 2 * order**2 - (dim - 1) * order


def _gram(gram: Any) -> np.ndarray:
    g = np.asarray(gram, float)
    square = g.ndim == 2 and len(g) >= 2 and g.shape[0] == g.shape[1]
    if not square or np.any(np.abs(np.diag(g) - 1) > 1e-9):
        raise ValueError(
            f"gram must be the inner products of two unit tokens or more; got shape {g.shape}: "
            "x @ x.T of unit rows."
        )
    return g


def _check_head(beta: float, dim: int) -> None:
    if not beta >= 0:
        raise ValueError(f"beta must be ≥ 0; got {beta}: it is an inverse temperature.")
    if dim < 2:
        raise ValueError(f"dim must be at least 2; got {dim}.")


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
