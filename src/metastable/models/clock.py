"""Theory's one cosine γ_β(t) laid over a trained model's, by a fitted clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from metastable.core import checks
from metastable.theory.equiangular import equiangular_cosine

BETAS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True, eq=False)
class FittedClock:
    """γ_β(start + rate·layer) beside the mean cosines it was fitted to; see `fit_clock`."""

    beta: float
    rate: float  # SA time per layer
    start: float  # SA time at layer 0
    error: float  # root mean square of the difference
    cosines: np.ndarray  # γ at the given layers

    def __str__(self) -> str:
        return (
            f"γ_β with β = {self.beta:g}, {self.rate:.3g} SA units a layer: "
            f"root-mean-square difference {self.error:.2g} (γ_β: the common cosine of orthogonal "
            "tokens under self-attention with Q = K = V = I; SA units: its time)"
        )


def fit_clock(layers: Any, mean_cosine: Any, tokens: int) -> FittedClock:
    """The clock under which n orthogonal tokens of theory grow alike as these do.

    Minimises Σ_k (m_k − γ_β(t_0 + a k))² over the rate a ≥ 0 and β in 0, 0.5, 1, 2, 4, 8;
    γ_β(t_0) = m_0 (t_0 = 0 for m_0 ≤ 0). γ_β: arXiv:2312.10794, §6, for Q = K = V = I. γ only
    grows, so the error says how far a model is from that: it is an overlay, not a claim.
    """
    layers, m = np.asarray(layers, float), np.asarray(mean_cosine, float)
    checks.finite_array("mean_cosine", m, 1)
    tokens = checks.integer("tokens", tokens, 2)
    return min((_fit(layers, m, beta, tokens) for beta in BETAS), key=lambda clock: clock.error)


def _fit(layers: np.ndarray, m: np.ndarray, beta: float, tokens: int) -> FittedClock:
    # One table of γ serves every rate tried.
    times = np.concatenate([[0.0], np.geomspace(1e-6, 60.0 + np.exp(beta), 2000)])
    table = equiangular_cosine(times, beta, tokens)
    start = float(np.interp(m[0], table, times)) if m[0] > 0 else 0.0
    curve = lambda rate: np.interp(start + rate * layers, times, table)
    last = max(layers[-1], 1.0)
    miss = lambda log_rate: float(np.mean((curve(np.exp(log_rate)) - m) ** 2))
    # The error has several valleys: a grid finds the deepest, then it is followed to its floor.
    grid = np.linspace(np.log(1e-6 / last), np.log(times[-1] / last), 120)
    near = int(np.argmin([miss(log_rate) for log_rate in grid]))
    bounds = grid[max(near - 1, 0)], grid[min(near + 1, len(grid) - 1)]
    best: Any = minimize_scalar(miss, bounds=bounds, method="bounded")
    rate = float(np.exp(best.x))
    cosines = curve(rate)
    return FittedClock(beta, rate, start, float(np.sqrt(np.mean((cosines - m) ** 2))), cosines)
