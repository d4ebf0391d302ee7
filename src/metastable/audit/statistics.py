"""Two samples of evidence against each other: protected and control, one number a document.

Evidence is a score turned so that larger speaks against the null. Documents are the units: windows
of one document are not independent, and are averaged before they come here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from metastable.core import checks

KEPT = 2_000_000  # numbers of relabellings that are held at once


@dataclass(frozen=True)
class Interval:
    """An estimate between its confidence limits."""

    low: float
    mid: float
    high: float

    def to_list(self) -> list[float]:
        return [self.low, self.mid, self.high]


def auc(protected: ArrayLike, control: ArrayLike, confidence: float = 0.95) -> Interval:
    """Chance that a protected document shows more evidence than a control, ties halved.

    Variance by DeLong's placements (Biometrics 44, 1988), limits on the logit scale. Where the two
    sets do not overlap that variance is 0; min(m, n) disjoint pairs then give an exact limit. Where
    evidence is one of two values, the area is (1 + p − q)/2 and has the limits of `share_effect`:
    DeLong's held the truth in 66 % of draws there, since most documents tie (`audit validate`).

    >>> found = auc([3.0, 4.0, 5.0], [1.0, 2.0, 4.0])
    >>> round(found.mid, 4)
    0.8333
    """
    x, y = _samples(protected, control)
    m, n = len(x), len(y)
    above = (x[:, None] > y).astype(float) + 0.5 * (x[:, None] == y)
    area = float(above.mean())
    least = min(x.min(), y.min())
    if len(np.unique([*x, *y])) <= 2:
        shift = share_effect(x > least, y > least, confidence)
        return Interval((1 + shift.low) / 2, area, (1 + shift.high) / 2)
    if area in (0.0, 1.0):
        low, high = proportion(int(area) * min(m, n), min(m, n), confidence).to_list()[::2]
        return Interval(low, area, high)
    variance = sum(
        float(np.var(placed, ddof=1)) / len(placed) if len(placed) > 1 else 0.25
        for placed in (above.mean(1), above.mean(0))
    )
    z = stats.norm.ppf(0.5 + confidence / 2)
    logit = math.log(area / (1 - area))
    wide = z * math.sqrt(variance) / (area * (1 - area))
    low, high = (1 / (1 + math.exp(-(logit + side * wide))) for side in (-1, 1))
    return Interval(low, area, high)


def roc(
    protected: ArrayLike, control: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """False and true positive rates at every threshold, from (0, 0) to (1, 1).

    >>> [rates.tolist() for rates in roc([2.0, 3.0], [1.0, 2.0])]
    [[0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0]]
    """
    x, y = _samples(protected, control)
    cuts = np.unique(np.concatenate([x, y]))[::-1]
    rates = [1 - np.searchsorted(np.sort(v), cuts, side="left") / len(v) for v in (y, x)]
    return np.concatenate([[0.0], rates[0]]), np.concatenate([[0.0], rates[1]])


def tpr_at_fpr(
    protected: ArrayLike, control: ArrayLike, level: float, confidence: float = 0.95
) -> Interval:
    """Share of protected documents above a threshold that at most `level` of the controls pass.

    Clopper–Pearson limits, given the threshold. A level below 1/|control| is refused: no set of
    controls of that size can show it.

    >>> tpr_at_fpr([3.0, 4.0, 5.0, 6.0], [1.0, 2.0, 3.0, 3.5], level=0.25).mid
    0.75
    """
    x, y = _samples(protected, control)
    if not 1 / len(y) <= level < 1:
        raise ValueError(
            f"level must lie between 1/|control| = {1 / len(y):.4g} and 1 to be seen at all; got "
            f"{level:g}: bring at least {math.ceil(1 / level) if level > 0 else 1} control "
            "documents, or ask for a higher level."
        )
    # The small addition is for level = k/n, which need not be k/n in floating point.
    allowed = int(level * len(y) + 1e-9)
    threshold = np.sort(y)[::-1][allowed]
    return proportion(int(np.sum(x > threshold)), len(x), confidence)


def proportion(hits: int, trials: int, confidence: float = 0.95) -> Interval:
    """A share with exact Clopper–Pearson limits.

    >>> [round(v, 4) for v in proportion(0, 80).to_list()]
    [0.0, 0.0, 0.0451]
    """
    tail = (1 - confidence) / 2
    low = float(stats.beta.ppf(tail, hits, trials - hits + 1)) if hits > 0 else 0.0
    high = float(stats.beta.ppf(1 - tail, hits + 1, trials - hits)) if hits < trials else 1.0
    return Interval(low, hits / trials, high)


def relabellings(protected: int, control: int, most: int) -> int:
    """Ways to choose which documents are called protected, or `most` where there are more.

    >>> relabellings(2, 2, 100), relabellings(10**9, 10**9, 100)
    (6, 100)
    """
    few, many = sorted((protected, control))
    ways = 1
    for k in range(1, few + 1):
        ways = ways * (many + k) // k
        if ways >= most:
            return most
    return ways


def permutation_p(
    protected: ArrayLike, control: ArrayLike, *, draws: int = 9999, seed: int = 0
) -> float:
    """One-sided p-value of mean(protected) > mean(control) over relabelled documents.

    p = (b + 1)/(B + 1) with b of B random relabellings at least as large; over all relabellings
    when there are at most B + 1 of them. The mean and not a rank: with an overlap of a tenth, a few
    documents stand far out and the others are as the controls.

    >>> permutation_p([3.0, 4.0], [1.0, 2.0])  # 1 of 6 relabellings
    0.16666666666666666
    """
    x, y = _samples(protected, control)
    checks.integer("draws", draws, 1)
    pooled = np.concatenate([x, y])
    count = len(x)
    # Centred first: relabellings that tie must not be parted by rounding.
    pooled = pooled - pooled.mean()
    observed = pooled[:count].sum()
    least = observed - 1e-10 * max(float(np.abs(pooled).sum()), 1e-300)
    total = relabellings(len(x), len(y), draws + 2)
    if total <= draws + 1:
        sums = [sum(chosen) for chosen in combinations(pooled, count)]
        return float(np.sum(np.array(sums) >= least)) / total
    beyond = 0
    for chosen in _relabelled(checks.seed(seed), len(pooled), count, draws):
        beyond += int(np.sum(pooled[chosen].sum(1) >= least))
    return (beyond + 1) / (draws + 1)


def _relabelled(seed: int, size: int, count: int, draws: int) -> Iterator[np.ndarray]:
    """Places of the documents called protected in each relabelling: (rows, count), in parts."""
    if draws * size <= KEPT:
        yield (_many if draws * size <= KEPT // 40 else _few)(seed, size, count, draws)
        return
    random = np.random.default_rng([seed, 2])
    for first in range(0, draws, KEPT // size):
        yield _draw_places(random, size, count, min(draws - first, KEPT // size))


def _draw_places(
    random: np.random.Generator | int, size: int, count: int, draws: int
) -> np.ndarray:
    random = np.random.default_rng([random, 2]) if isinstance(random, int) else random
    places = np.broadcast_to(np.arange(size, dtype=np.int32), (draws, size))
    return random.permuted(places, axis=1)[:, :count].copy()


# Questions of an audit share their relabellings; audits that follow share those of re-splits.
_few, _many = lru_cache(4)(_draw_places), lru_cache(512)(_draw_places)


def adjust_holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: the chance of one false finding among all stays below the level.

    >>> [round(p, 3) for p in adjust_holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, float)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted.tolist()


def effect(
    protected: ArrayLike,
    control: ArrayLike,
    confidence: float = 0.95,
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Difference of mean evidence, with BCa bootstrap limits over documents of each set.

    >>> found = effect([3.0, 4.0, 5.0, 4.5], [1.0, 2.0, 1.5, 0.5])
    >>> found.low > 0, found.mid
    (True, 2.875)
    """
    x, y = _samples(protected, control)
    mid = float(x.mean() - y.mean())
    if np.ptp(x) == 0 and np.ptp(y) == 0:
        return Interval(mid, mid, mid)
    limits = stats.bootstrap(
        (x, y),
        lambda a, b, axis: a.mean(axis) - b.mean(axis),
        n_resamples=resamples,
        confidence_level=confidence,
        method="BCa",
        rng=np.random.default_rng([checks.seed(seed), 3]),
    ).confidence_interval
    return Interval(float(limits.low), mid, float(limits.high))


def share_effect(protected: ArrayLike, control: ArrayLike, confidence: float = 0.95) -> Interval:
    """Difference p − q of mean shares, each document's in [0, 1].

    p − q − √((p − l_p)² + (u_q − q)²) to p − q + √((u_p − p)² + (q − l_q)²), with Wilson's limits
    l and u of each mean: method 10 of Newcombe (Stat. Med. 17, 873, 1998). Good for documents that
    come out or not, also where few do and a bootstrap has little to draw from; wider than need be
    for shares between 0 and 1, whose variance is less than p(1 − p).

    >>> found = share_effect([1.0] * 56 + [0.0] * 14, [1.0] * 48 + [0.0] * 32)
    >>> [round(v, 4) for v in found.to_list()]
    [0.0524, 0.2, 0.3339]
    """
    z = float(stats.norm.ppf(0.5 + confidence / 2))
    sides = []
    for values in _samples(protected, control):
        n, mean = len(values), float(values.mean())
        middle = (mean + z**2 / (2 * n)) / (1 + z**2 / n)
        half = z * math.sqrt(mean * (1 - mean) / n + (z / (2 * n)) ** 2) / (1 + z**2 / n)
        sides.append((middle - half, mean, middle + half))
    (p_low, p, p_high), (q_low, q, q_high) = sides
    low, high = math.hypot(p - p_low, q_high - q), math.hypot(p_high - p, q - q_low)
    return Interval(p - q - low, p - q, p - q + high)


def item_q_values(protected: ArrayLike, control: ArrayLike) -> NDArray[np.float64]:
    """The false discovery rate at which each protected item would just be named.

    p_i = (1 + #{controls with at least its evidence})/(|C| + 1), then Benjamini and Hochberg's
    step; it holds for such p-values although they share their controls (arXiv:2104.08279).

    >>> item_q_values([9.0, 8.0, 0.0], [1.0] * 9).round(3).tolist()
    [0.15, 0.15, 1.0]
    """
    x, y = _samples(protected, control)
    beyond = len(y) - np.searchsorted(np.sort(y), x, side="left")
    return stats.false_discovery_control((1 + beyond) / (len(y) + 1))


def _samples(protected: ArrayLike, control: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    pair = []
    for name, values in (("protected", protected), ("control", control)):
        checks.finite_array(name, values, 1)
        pair.append(np.asarray(values, float))
    return pair[0], pair[1]
