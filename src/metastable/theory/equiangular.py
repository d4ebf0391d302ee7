"""Orthogonal tokens stay equiangular: one cosine γ(t), known by a single quadrature.

With y = log((1+(n−1)γ)/(1−γ)) both flows become dt/dy = (a smooth function of y), so the time to
reach any γ is one integral, and γ(t) is its inverse. The same integral (n = 2) gives the merge
time of two clusters, see `pairs.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import solve_ivp

Array = NDArray[np.float64]

# dt/dy divided by e^{top}, as a function of the drop top − βn/(e^y+n−1) of the exponent.
Integrand = Callable[[Array], Array]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_UNIT_NODES, _UNIT_WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2
# Wider panels than these lose digits: the exponential needs a bounded drop per panel, and the
# map y → γ has poles at distance π from the real axis.
_PANEL_DROP, _PANEL_WIDTH = 6.0, 0.5
_LAST_DROP = 800.0  # e^{−800} is zero in double precision
_DIAMETER = 2.0  # largest possible difference of two cosines


def equiangular_rate(
    gamma: ArrayLike, beta: float, tokens: int, *, normalized: bool = True
) -> Array:
    """Speed of the common cosine of n equiangular tokens.

    SA: γ̇ = 2(1−γ)((n−1)γ+1)/(e^{β(1−γ)}+n−1);  USA: γ̇ = (2/n)e^{βγ}(1−γ)((n−1)γ+1).

    Source: [geshkovski2023mathematical, §6], slides Theorem 7. Valid for Q = K = V = I and n ≤ d
    tokens with all pairwise cosines equal; in the SA clock, or the USA clock.

    >>> round(float(equiangular_rate(0.0, beta=1.0, tokens=32)), 4)
    0.0593
    """
    _check(beta, tokens)
    g, n = np.asarray(gamma, dtype=float), tokens
    geometry = 2 * (1 - g) * ((n - 1) * g + 1)
    if normalized:
        # Divided by e^{βγ}, so that large β gives 0 and not inf/inf.
        with np.errstate(over="ignore"):
            return geometry / (np.exp(beta * (1 - g)) + n - 1)
    return geometry * np.exp(beta * g) / n


def equiangular_cosine(
    time: ArrayLike, beta: float, tokens: int, *, normalized: bool = True
) -> Array:
    """Common cosine γ_β(t) of n tokens that start pairwise orthogonal.

    Source: [geshkovski2023mathematical, §6], slides Theorem 7; the inversion is derived here and
    checked against 40-digit integration. Valid for Q = K = V = I, d ≥ n ≥ 2, β ≥ 0. Absolute
    error below 1e−12, unless t itself is so large that its last digit moves γ by more.

    `time` has any shape and the result the same. Expected: flat at 2t/(e^β+n−1), then a fast rise
    and 1−γ ~ e^{−2t} (SA) or e^{−2e^β t} (USA).

    >>> equiangular_cosine([0.0, 1.0, 5.0], beta=1.0, tokens=32).round(6).tolist()
    [0.0, 0.151849, 0.998284]
    """
    _check(beta, tokens)
    t = np.asarray(time, dtype=float)
    if not np.all(t >= 0):
        raise ValueError(f"time must be ≥ 0, got {t.min()}; the flow starts at time 0.")
    speed = _inverse_speed(beta, tokens, normalized)
    if not normalized:
        target = t.ravel()
    elif beta < 700:
        target = t.ravel() * np.exp(-beta)
    else:  # e^{−β} is no longer a normal number, t·e^{−β} may still be one
        with np.errstate(divide="ignore"):
            target = np.exp(np.log(t.ravel()) - beta)
    edges = _panel_edges(beta, tokens, 0.0, 40.0 + np.log(tokens))
    reached = np.concatenate([[0.0], np.cumsum(_panel_integrals(speed, beta, tokens, 0.0, edges))])
    panel = np.searchsorted(reached, target, side="right") - 1
    finished = panel == len(edges) - 1  # 1 − γ < e^{−40}
    panel = np.where(finished, 0, panel)
    target = np.where(finished, 0.0, target)
    left, y = edges[panel], edges[panel].copy()
    # t(y) is concave, so Newton from the left edge climbs to the root and never passes it.
    for _ in range(60):
        width = y - left
        nodes = left[:, None] + width[:, None] * _UNIT_NODES
        done = width * (speed(_drop(nodes, beta, tokens, 0.0)) @ _UNIT_WEIGHTS)
        move = (target - reached[panel] - done) / speed(_drop(y, beta, tokens, 0.0))
        y += move
        if np.all(np.abs(move) <= 1e-15 * (1 + y)):
            break
    # 1 − n/(e^y+n−1) would lose the digits of a small γ.
    gamma = np.expm1(y) / (np.exp(y) + tokens - 1)
    return np.where(finished, 1.0, gamma).reshape(t.shape)


def sink_cosine(time: ArrayLike, beta: float, tokens: int, sink: float) -> Array:
    """Common cosine of n tokens that start orthogonal, under softmax with a sink of logit s.

    γ̇ = 2e^{βγ}(1−γ)((n−1)γ+1)/(e^β + (n−1)e^{βγ} + n e^s), so that the time to any γ is that of SA
    plus e^s times that of USA: t(γ) = t_SA(γ) + e^s t_USA(γ). Derived.

    >>> sink_cosine([1.0, 5.0], beta=1.0, tokens=32, sink=0.0).round(4).tolist()
    [0.0498, 0.9089]
    """
    _check(beta, tokens)
    t = np.asarray(time, dtype=float)
    if not np.all(t >= 0):
        raise ValueError(f"time must be ≥ 0, got {t.min()}; the flow starts at time 0.")
    log_n = math.log(tokens)

    def speed(_: float, y: Array) -> Array:
        # y = log((1+(n−1)γ)/(1−γ)) has ẏ = nγ̇/((1−γ)(1+(n−1)γ)), which stays smooth to the end.
        gamma = np.expm1(y) / (np.exp(y) + tokens - 1)
        own, others = beta * (1 - gamma), math.log(tokens - 1) if tokens > 1 else -np.inf
        total = np.logaddexp(np.logaddexp(own, others), log_n + sink - beta * gamma)
        return 2 * np.exp(log_n - total)

    ends = np.unique(np.concatenate([[0.0], t.ravel()]))
    way = solve_ivp(
        speed, (0.0, max(ends[-1], 1e-300)), [0.0], "DOP853", ends, rtol=1e-12, atol=1e-14
    )
    y = np.minimum(np.interp(t, ends, way.y[0]), 700.0)
    return np.expm1(y) / (np.exp(y) + tokens - 1)


def log_phase_curve(
    beta: ArrayLike, tokens: int, delta: float = 1e-3, *, normalized: bool = True
) -> Array:
    """Logarithm of the time at which γ_β reaches 1 − δ: the curve Γ_{∞,δ}.

    SA: t(β) = ∫_0^{1−δ} (e^{β(1−γ)}+n−1)/(2(1−γ)((n−1)γ+1)) dγ.

    Source: [geshkovski2023mathematical, §6], slides eq. 46; quadrature derived here. Valid as the
    d → ∞ limit of the phase curve of n uniform tokens. `beta` has any shape.

    >>> log_phase_curve([0.0, 1000.0], tokens=32).round(4).tolist()
    [1.646, 992.3704]
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie in (0, 1), got {delta}; try 1e-3.")
    values = np.asarray(beta, dtype=float)
    end = float(np.log((1 + (tokens - 1) * (1 - delta)) / delta))
    result = np.empty(values.shape)
    for index, b in np.ndenumerate(values):
        _check(b, tokens)
        speed = _inverse_speed(float(b), tokens, normalized)
        top = float(b) if normalized else 0.0
        result[index] = top + log_time_integral(speed, float(b), tokens, 0.0, end)
    return result


def phase_curve(
    beta: ArrayLike, tokens: int, delta: float = 1e-3, *, normalized: bool = True
) -> Array:
    """Time at which γ_β reaches 1 − δ; `inf` where it passes 1e308 (use `log_phase_curve`).

    >>> phase_curve([0.0, 4.0, 9.0], tokens=32).round(3).tolist()
    [5.186, 6.954, 178.731]
    """
    with np.errstate(over="ignore"):
        return np.exp(log_phase_curve(beta, tokens, delta, normalized=normalized))


@dataclass(frozen=True)
class ConcentrationBound:
    """|⟨x_i,x_j⟩ − γ_β(t)| ≤ e^{log_bound} with probability ≥ `probability`, if not `vacuous`."""

    log_bound: float
    probability: float
    vacuous: bool


def concentration_bound(
    time: float,
    beta: float,
    *,
    dim: int,
    tokens: int,
    tail: tuple[float, float] | None = None,
) -> ConcentrationBound:
    """How far random tokens may be from the equiangular curve, by the published theorem.

    |⟨x_i,x_j⟩ − γ_β(t)| ≤ min{2c(β)^{nt}√(log d/d), Ce^{−λt}},  c(β) = e^{10 max(1,β)},
    with probability ≥ 1 − 2n²d^{−1/64}.

    Source: [geshkovski2023mathematical, Thm 6.9], slides Theorem 8 and Γ_{d,δ}. The theorem does
    not name C and λ: give them as `tail = (C, λ)`, or the first term alone is used. The constants
    are vacuous at any size that can be run: the probability is positive only for
    d > (2n²)^{64}. What is seen is the scaling √(log d/d).

    >>> concentration_bound(1.0, 1.0, dim=1024, tokens=32).vacuous
    True
    """
    _check(beta, tokens)
    if dim < 2:
        raise ValueError(f"dim must be at least 2, got {dim}; the bound contains log d.")
    log_dim = math.log(dim)  # `dim` may be an integer beyond any float
    log_bound = math.log(2) + 10 * max(1.0, beta) * tokens * time
    log_bound += (math.log(log_dim) - log_dim) / 2
    if tail is not None:
        constant, rate = tail
        log_bound = min(log_bound, math.log(constant) - rate * time)
    probability = -math.expm1(math.log(2) + 2 * math.log(tokens) - log_dim / 64)
    vacuous = probability <= 0 or log_bound >= math.log(_DIAMETER)
    return ConcentrationBound(log_bound, max(probability, 0.0), vacuous)


def _check(beta: float, tokens: int) -> None:
    if not beta >= 0:
        raise ValueError(f"beta must be ≥ 0, got {beta}; flip the sign of V to repel.")
    if tokens < 2:
        raise ValueError(f"tokens must be at least 2, got {tokens}; one token has no angle.")


def _inverse_speed(beta: float, tokens: int, normalized: bool) -> Integrand:
    """dt/dy: (e^{β−drop}+n−1)/(2n), divided by e^β, for SA; e^{−drop}/2 for USA."""
    if normalized:
        floor = (tokens - 1) * np.exp(-beta)
        return lambda drop: (np.exp(-drop) + floor) / (2 * tokens)
    return lambda drop: np.exp(-drop) / 2


def _drop(y: Array, beta: float, n: int, start: float) -> Array:
    """E(start) − E(y) with E(y) = βn/(e^y+n−1), without subtracting two numbers of size β."""
    base = np.exp(start) + n - 1
    return beta * n * np.exp(start) * np.expm1(y - start) / (base * (np.exp(y) + n - 1))


def _panel_edges(beta: float, n: int, start: float, end: float) -> Array:
    """Edges in y: never wider than `_PANEL_WIDTH`, nor a drop larger than `_PANEL_DROP`."""
    uniform = np.linspace(start, end, max(2, int(np.ceil((end - start) / _PANEL_WIDTH)) + 1))
    base = np.exp(start) + n - 1
    top = beta * n / base
    drops = np.arange(_PANEL_DROP, min(top, _LAST_DROP), _PANEL_DROP)
    levels = start + np.log1p(drops * base**2 / (np.exp(start) * (beta * n - drops * base)))
    return np.unique(np.concatenate([uniform, levels[levels < end]]))


def _panel_integrals(speed: Integrand, beta: float, n: int, start: float, edges: Array) -> Array:
    widths = np.diff(edges)
    nodes = edges[:-1, None] + widths[:, None] * _UNIT_NODES
    return widths * (speed(_drop(nodes, beta, n, start)) @ _UNIT_WEIGHTS)


def log_time_integral(speed: Integrand, beta: float, n: int, start: float, end: float) -> float:
    edges = _panel_edges(beta, n, start, end)
    return float(np.log(np.sum(_panel_integrals(speed, beta, n, start, edges))))
