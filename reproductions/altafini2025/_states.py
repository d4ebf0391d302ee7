"""Tokens on one eigenvector of V, and the rates that the linearisation gives them."""

from __future__ import annotations

import numpy as np

from metastable.measures import Points

__all__ = ["consensus_rates", "line_rates", "on_a_line"]


def on_a_line(direction: np.ndarray, plus: int, minus: int) -> Points:
    """`plus` tokens at a unit vector and `minus` at its opposite."""
    return Points(np.concatenate([np.tile(direction, (plus, 1)), np.tile(-direction, (minus, 1))]))


def consensus_rates(values: np.ndarray, k: int, tokens: int) -> np.ndarray:
    """Rates of n tokens at the k-th eigenvector: λ_j − λ_k together, −λ_k apart."""
    others = np.delete(values, k)
    return np.sort(
        np.concatenate([others - values[k], np.repeat(-values[k], len(others) * (tokens - 1))])
    )


def line_rates(values: np.ndarray, k: int, plus: int, minus: int, logit: float) -> np.ndarray:
    """Rates of groups at ± the k-th eigenvector, `logit` = β⟨Qu,Ku⟩.

    A token of a group of share a gives its own side the weight p = a e^ℓ/(a e^ℓ + b e^{−ℓ}) and
    feels λ(2p − 1) along it. Differences inside the group decay at that rate; the groups' means
    move as λ_j A − λ diag(2p − 1), A the 2 × 2 matrix of weights, in each other eigendirection.
    """
    a, b = plus / (plus + minus), minus / (plus + minus)
    p = a * np.exp(logit) / (a * np.exp(logit) + b * np.exp(-logit))
    q = b * np.exp(logit) / (b * np.exp(logit) + a * np.exp(-logit))
    weights, hold = np.array([[p, 1 - p], [1 - q, q]]), values[k] * np.array([2 * p - 1, 2 * q - 1])
    rates = []
    for other in np.delete(values, k):
        rates += list(np.real(np.linalg.eigvals(other * weights - np.diag(hold))))
        rates += [-hold[0]] * (plus - 1) + [-hold[1]] * (minus - 1)
    return np.sort(rates)
