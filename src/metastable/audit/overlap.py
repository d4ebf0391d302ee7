"""How much of the protected set M was trained on: an estimate of ρ with an interval.

Evidence of protected documents follows ρ F₁ + (1 − ρ) F₀; controls give F₀. At a threshold with
false positive rate f and true positive rate τ a share ρτ + (1 − ρ)f of the protected documents
lies above, so that ρ = (share − f)/(τ − f): the debiased count of Tong et al. (How much of my
dataset did you use?, ICLR 2025).

What can be known depends on τ:
- With known members (documents that M was surely trained on and that were drawn like the protected
  ones: background, inserted canaries, members of a shadow model) τ is measured, and so is ρ.
- Without them F₁ is free. From τ ≤ 1 follows a lower limit that holds whatever F₁ is: a member that
  looks like a control can only hide. An upper limit needs an assumption; here, that every member
  shows more evidence than the share `reach` of controls shows (half, unless told). It is a mild
  demand of a model that has learnt by heart, and a false one of a model that has learnt nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln

from metastable.audit.statistics import Interval
from metastable.core import checks

Beta = tuple[float, float]  # the two parameters of a law of rates
# Shares of controls above the thresholds that may raise the lower limit. Few: each costs level.
LEVELS = (0.0, 0.05, 0.2)


@dataclass(frozen=True)
class Overlap:
    """ρ̂ between its limits; the rates behind it, and what they assume."""

    interval: Interval
    false_positive_rate: float
    true_positive_rate: float
    assumption: str


def estimate_overlap(
    protected: ArrayLike,
    control: ArrayLike,
    members: ArrayLike | None = None,
    *,
    confidence: float = 0.9,
    reach: float = 0.5,
) -> Overlap:
    """The share of protected documents that M was trained on, with its interval.

    Limits are all numbers K of members of these N documents under which the count above the
    threshold is not in a tail. Given K, it is a sum of two beta-binomials: of N − K non-members
    with the rate the controls show, and of K members with the rate known members show (or 1).
    Derived here. Documents are taken as drawn alike and apart from each other. Known members make
    the interval narrow: at 80 + 80 documents and full memorisation ±0.02 instead of ±0.1.

    >>> random = np.random.default_rng(0)
    >>> control, protected = random.normal(size=80), random.normal(size=80)
    >>> protected[:40] += 8
    >>> found = estimate_overlap(protected, control)
    >>> 0.4 < found.interval.low < 0.5 < found.interval.high < 0.75
    True
    """
    for name, values in (("protected", protected), ("control", control)):
        checks.finite_array(name, values, 1)
    for name, value in (("confidence", confidence), ("reach", reach)):
        if not 0 < value < 1:
            raise ValueError(f"{name} must lie in (0, 1); got {value}.")
    y, x0 = np.sort(np.asarray(protected, float)), np.sort(np.asarray(control, float))
    tail = (1 - confidence) / 2
    if members is None:
        return _without_members(y, x0, tail, reach)
    checks.finite_array("members", members, 1)
    return _with_members(y, x0, np.sort(np.asarray(members, float)), tail)


def _with_members(y: np.ndarray, x0: np.ndarray, x1: np.ndarray, tail: float) -> Overlap:
    cuts = np.unique(np.concatenate([x0, x1]))
    false, true = _above(x0, cuts) / len(x0), _above(x1, cuts) / len(x1)
    apart = true - false
    # The middle of the best thresholds: their ends lie on a document of one of the samples.
    best = np.flatnonzero(apart >= apart.max() - 1e-12)
    cut = cuts[best[0]] if len(best) == 1 else (cuts[best[0]] + cuts[best[-1]]) / 2
    f, t = int(_above(x0, cut)), int(_above(x1, cut))
    fpr, tpr = f / len(x0), t / len(x1)
    if tpr <= fpr:
        silent = "known members do not stand out: nothing can be said"
        return Overlap(Interval(0.0, 0.0, 1.0), fpr, tpr, silent)
    count = int(_above(y, cut))
    # Jeffreys' prior: rates of 0 or 1 of a finite sample are not taken for certain.
    beliefs = [(hits + 0.5, len(x) - hits + 0.5) for hits, x in ((f, x0), (t, x1))]
    low, high = _limits(count, len(y), beliefs[0], beliefs[1], tail)
    mid = float(np.clip((count / len(y) - fpr) / (tpr - fpr), low, high))
    basis = f"true positive rate measured on {len(x1)} known members"
    return Overlap(Interval(low, mid, high), fpr, tpr, basis)


def _without_members(y: np.ndarray, x0: np.ndarray, tail: float, reach: float) -> Overlap:
    n, size = len(x0), len(y)

    def at(hits: int, tail: float) -> tuple[int, tuple[float, float]]:
        # Above the (h + 1)-th largest of n controls, of r like them: a beta-binomial with h + 1 and
        # n − h, whatever their law. So these limits are exact.
        count = int(_above(y, x0[n - 1 - hits]))
        return count, _limits(count, size, (hits + 1, n - hits), None, tail)

    limits = []
    for level in LEVELS:
        hits = int(level * n)
        count, (low, _) = at(hits, tail / len(LEVELS))
        limits.append((low, (count / size - hits / n) / (1 - hits / n), hits / n))
    low, mid, fpr = max(limits)
    mid = max(low, mid)
    # By bad luck, or where the assumption fails, the threshold of the upper limit may say less.
    high = max(mid, at(n - max(1, int(reach * n)), tail)[1][1])
    basis = f"every member shows more evidence than {reach:.0%} of the controls (upper limit only)"
    return Overlap(Interval(low, mid, high), fpr, 1.0, basis)


def _limits(
    count: int, size: int, controls: Beta, members: Beta | None, tail: float
) -> tuple[float, float]:
    """Smallest and largest K/N for which `count` or more, and `count` or fewer, are likely."""
    low, high = size, 0
    for k in range(size + 1):
        law = _beta_binomial(size - k, *controls)
        sure = np.eye(1, k + 1, k)[0]
        law = np.convolve(law, sure if members is None else _beta_binomial(k, *members))
        if law[count:].sum() > tail:
            low = min(low, k)
        if law[: count + 1].sum() > tail:
            high = max(high, k)
    return low / size, high / size


def _beta_binomial(trials: int, a: float, b: float) -> np.ndarray:
    """Law of the hits in `trials` whose rate follows Beta(a, b)."""
    k = np.arange(trials + 1)
    ways = -betaln(trials - k + 1, k + 1) - np.log(trials + 1)
    return np.exp(ways + betaln(k + a, trials - k + b) - betaln(a, b))


def _above(ordered: np.ndarray, cuts: np.ndarray | float) -> np.ndarray:
    return len(ordered) - np.searchsorted(ordered, cuts, side="right")
