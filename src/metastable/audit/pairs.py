"""Pairs of which a fair coin chose one: the exact test that the coins themselves make valid."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metastable.core import checks

EXACT = 40  # pairs whose 2^K outcomes of the coins are all counted


def sign_flip_p(differences: ArrayLike, *, draws: int = 99_999, seed: int = 0) -> float:
    """One-sided p-value of Σ d_k > 0 when fair coins decided the sign of every difference.

    p = #{s ∈ {−1, 1}^K : Σ s_k |d_k| ≥ Σ d_k} / 2^K (Fisher, The Design of Experiments, 1935, §21).
    Exact whatever the law of the differences: the coins are the only chance in it. Up to 40 pairs
    every outcome is counted, the sums of one half of the pairs sorted and searched by those of the
    other; beyond, (b + 1)/(B + 1) over B random outcomes, which is never too small.

    >>> sign_flip_p([1.0, 2.0, 3.0]), sign_flip_p([1.0, -1.0])
    (0.125, 0.75)
    """
    checks.finite_array("differences", differences, 1)
    checks.integer("draws", draws, 1)
    d = np.asarray(differences, float)
    # Outcomes that tie must not be parted by rounding.
    least = d.sum() - 1e-10 * max(float(np.abs(d).sum()), 1e-300)
    if len(d) <= EXACT:
        half = len(d) // 2
        first = np.sort(_all_sums(d[:half]))
        beyond = len(first) - np.searchsorted(first, least - _all_sums(d[half:]), side="left")
        return int(beyond.sum()) / 2 ** len(d)
    return (int(np.sum(redraw_sums(d, draws, seed) >= least)) + 1) / (draws + 1)


def redraw_sums(differences: ArrayLike, draws: int, seed: int = 0) -> np.ndarray:
    """Σ s_k d_k for coins s thrown again, `draws` times."""
    d = np.asarray(differences, float)
    random = np.random.default_rng([checks.seed(seed), 11])
    rows = max(1, 4_000_000 // len(d))
    parts = [
        (2.0 * random.integers(0, 2, (min(rows, draws - k), len(d)), dtype=np.int8) - 1) @ d
        for k in range(0, draws, rows)
    ]
    return np.concatenate(parts)


def _all_sums(d: NDArray[np.float64]) -> NDArray[np.float64]:
    sums = np.zeros(1)
    for value in d:
        sums = np.concatenate([sums - value, sums + value])
    return sums
