"""How much of the protected set M was trained on: a lower limit of the share ρ.

Evidence of protected documents follows ρ F₁ + (1 − ρ) F₀; controls give F₀, and F₁ is not known.
Above a threshold that h of n controls pass lie at most all members and, of the others, as many as
controls would: so a count above it limits ρ from below, whatever F₁ is (the one-sided mixture
proportion of Blanchard, Lee and Scott, JMLR 11, 2010; exact here by exchangeability). Nothing
limits ρ from above: a member that looks like a control can hide. So without known members only the
lower limit is told.

With known members (documents that M was surely trained on and that were drawn like the protected
ones: background, inserted canaries, members of a shadow model) the rate τ at which members pass is
measured, and so is ρ = (share − f)/(τ − f): the debiased count of Tong et al. (How much of my
dataset did you use?, ICLR 2025).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln

from metastable.core import checks

Beta = tuple[float, float]  # the two parameters of a law of rates
# Shares of controls above the thresholds, fixed beforehand; each costs a part of the level. High
# thresholds see few members known by heart, low ones many that are known a little.
LEVELS = (0.0, 0.05, 0.2, 0.5)


@dataclass(frozen=True)
class Overlap:
    """Limits of ρ; `mid` and `high` are None where no members are known."""

    low: float
    mid: float | None
    high: float | None
    confidence: float
    basis: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def estimate_overlap(
    protected: ArrayLike,
    control: ArrayLike,
    members: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
) -> Overlap:
    """The share of protected documents that M was trained on: at least `low`.

    The limit is the smallest number K of members of these N documents under which a count as large
    as that above a threshold is not in the tail: given K, it is at most K and a beta-binomial of
    N − K. Over `LEVELS` by Bonferroni. It holds for every law of members and controls; documents
    are taken as drawn alike and apart from each other. With `members` both limits are given, by a
    beta-binomial for members too.

    >>> random = np.random.default_rng(0)
    >>> control, protected = random.normal(size=80), random.normal(size=80)
    >>> protected[:40] += 8
    >>> found = estimate_overlap(protected, control)
    >>> 0.4 < found.low < 0.5, found.high
    (True, None)
    """
    for name, values in (("protected", protected), ("control", control)):
        checks.finite_array(name, values, 1)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1); got {confidence}.")
    y, x0 = np.sort(np.asarray(protected, float)), np.sort(np.asarray(control, float))
    if members is None:
        return _without_members(y, x0, confidence)
    checks.finite_array("members", members, 1)
    return _with_members(y, x0, np.sort(np.asarray(members, float)), confidence)


def _without_members(y: np.ndarray, x0: np.ndarray, confidence: float) -> Overlap:
    n, size = len(x0), len(y)
    tail = (1 - confidence) / len(LEVELS)
    limits = []
    for level in LEVELS:
        hits = int(level * n)
        # Above the (h + 1)-th largest of n controls, of r like them: a beta-binomial with h + 1 and
        # n − h, whatever their law. So these limits are exact.
        count = int(_above(y, x0[n - 1 - hits]))
        limits.append(_limits(count, size, (hits + 1, n - hits), None, tail)[0])
    return Overlap(max(limits), None, None, confidence, "members are not known: lower limit only")


def _with_members(y: np.ndarray, x0: np.ndarray, x1: np.ndarray, confidence: float) -> Overlap:
    # The median of controls and known members together: a threshold chosen to part them best would
    # flatter both rates.
    cut = float(np.median(np.concatenate([x0, x1])))
    f, t = int(_above(x0, cut)), int(_above(x1, cut))
    fpr, tpr = f / len(x0), t / len(x1)
    if tpr <= fpr:
        silent = "known members do not stand out: nothing can be said"
        return Overlap(0.0, None, 1.0, confidence, silent)
    count = int(_above(y, cut))
    # Jeffreys' prior: rates of 0 or 1 of a finite sample are not taken for certain.
    beliefs = [(hits + 0.5, len(x) - hits + 0.5) for hits, x in ((f, x0), (t, x1))]
    low, high = _limits(count, len(y), beliefs[0], beliefs[1], (1 - confidence) / 2)
    mid = float(np.clip((count / len(y) - fpr) / (tpr - fpr), low, high))
    basis = f"true positive rate measured on {len(x1)} known members"
    return Overlap(low, mid, high, confidence, basis)


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
