"""Conditions without which numbers are no evidence. Each one can stop the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from metastable.audit.blind import Blind
from metastable.audit.evidence import Question, Row, permutation_p_values, questions
from metastable.audit.statistics import adjust_holm, permutation_p, relabellings
from metastable.core import checks
from metastable.core.progress import Bar

# Nulls that need models or items of their own; the label permutation is made from the rows.
NULLS = ("overlap_zero", "random_weights", "shuffled_targets")
WORDS = {
    "overlap_zero": "model without the protected set",
    "random_weights": "model of random weights",
    "shuffled_targets": "shuffled texts",
    "permuted_labels": "permuted labels",
}
STOP = 0.01  # chance that nulls as they should be stop a verdict
UNIFORM = 0.001  # the same for re-splits, which are many: only gross faults count


@dataclass(frozen=True)
class Condition:
    """`held` is None for a condition that was not examined: told, and stopping nothing."""

    name: str
    held: bool | None
    told: str
    numbers: dict[str, Any] = field(default_factory=dict)


def in_words(name: str) -> str:
    """The name of a condition as readers meet it.

    >>> in_words("shuffled_targets"), in_words("matched control")
    ('shuffled texts', 'matched control')
    """
    return WORDS.get(name, name.replace("_", " "))


def check_size(asked: Sequence[Question], level: float, draws: int) -> Condition:
    """Whether the sets are large enough for any p-value to reach the level after adjustment."""
    ways = max(relabellings(len(q.protected), len(q.control), draws + 1) for q in asked)
    least = len(asked) / ways
    told = f"the smallest adjusted p-value these sets can show is {least:.2g}"
    if least > level:
        told += f", above the level {level:g}: bring more documents, or ask fewer questions"
    return Condition("enough documents", least <= level, told)


def check_blind(blind: Blind) -> Condition:
    """Whether protected and control texts cannot be told apart without asking M."""
    low, mid, high = blind.auc.to_list()
    told = f"a classifier that never asks M has area {mid:.2f} [{low:.2f}, {high:.2f}]"
    if blind.mirrored:
        told += (
            ": below what chance can give, as if documents stood in both sets; look for copies or "
            "pairs of documents and take them out"
        )
    elif not blind.matched:
        told += ": the sets differ before any model; choose controls drawn like the protected set"
    return Condition("matched control", blind.matched, told, {"auc": blind.auc.to_list()})


def check_nulls(nulls: Mapping[str, float]) -> list[Condition]:
    """Whether nothing is found where nothing can be; Holm over the checks that were run."""
    adjusted = dict(zip(nulls, adjust_holm(list(nulls.values())), strict=True))
    made = []
    for name in dict.fromkeys([*NULLS, *nulls]):
        if name not in nulls:
            made.append(Condition(name, None, "not run"))
            continue
        held = adjusted[name] > STOP
        told = f"p = {nulls[name]:.3g}, adjusted {adjusted[name]:.3g}"
        told += "" if held else ": the audit finds replication where there can be none"
        made.append(Condition(name, held, told, {"p_value": nulls[name]}))
    return made


def null_p(rows: Iterable[Row], *, draws: int = 9999, seed: int = 0) -> float:
    """The smallest adjusted p-value of rows collected where nothing can be found."""
    return min(permutation_p_values(questions(rows), draws=draws, seed=seed)[1])


def main_p(rows: Iterable[Row], *, draws: int = 9999, seed: int = 0) -> float:
    """The p-value of the main question alone: uniform under the null, as adjusted ones are not."""
    main = questions(rows)[0]
    return permutation_p(main.protected, main.control, draws=draws, seed=seed)


def permuted_p(asked: Sequence[Question], *, draws: int = 9999, seed: int = 0) -> float:
    """The same for the rows of the audit after its documents have changed labels at random."""
    random = np.random.default_rng([checks.seed(seed), 5])
    orders: dict[tuple[int, int], np.ndarray] = {}
    p = []
    for q in asked:
        sizes = (len(q.protected), len(q.control))
        order = orders.setdefault(sizes, random.permutation(sum(sizes)))
        mixed = np.concatenate([q.protected, q.control])[order]
        p.append(permutation_p(mixed[: sizes[0]], mixed[sizes[0] :], draws=draws, seed=seed + 1))
    return min(adjust_holm(p))


def resplit(
    values: ArrayLike, *, splits: int = 500, draws: int = 399, seed: int = 0
) -> list[float]:
    """p-values of one half of some documents against the other, over random halves.

    Of controls, which M has never seen: there is nothing to find, and p-values must be uniform.
    """
    pooled = np.asarray(values, float)
    random = np.random.default_rng([checks.seed(seed), 6])
    half = len(pooled) // 2
    p_values = []
    with Bar("re-splits") as bar:
        for k in range(splits):
            mixed = random.permutation(pooled)
            p_values.append(permutation_p(mixed[:half], mixed[half:], draws=draws, seed=seed + k))
            bar.update((k + 1) / splits)
    return p_values


def calibration(p_values: Sequence[float]) -> tuple[float, float]:
    """Kolmogorov–Smirnov p-values against the uniform law: two-sided, and for too many small ones.

    >>> both, small = calibration(((np.arange(100) + 0.5) / 100).tolist())
    >>> both > 0.99, small > 0.99
    (True, True)
    """
    # p-values on a grid of 1/(B + 1) may tie; the law of the statistic is that without ties, which
    # only makes it say "not uniform" more rarely.
    uniform = stats.uniform.cdf
    both = stats.ks_1samp(p_values, uniform).pvalue  # pyright: ignore[reportAttributeAccessIssue]
    small = stats.ks_1samp(p_values, uniform, alternative="greater")
    return float(both), float(small.pvalue)  # pyright: ignore[reportAttributeAccessIssue]


def check_calibration(name: str, p_values: Sequence[float]) -> Condition:
    """Whether null p-values are not too small too often.

    Too large is safe, and scores that tie make them so: that side stops nothing.
    """
    if len(p_values) < 5:
        return Condition(name, None, f"not run: {len(p_values)} p-values")
    _, small = calibration(p_values)
    share = float(np.mean(np.asarray(p_values) <= 0.05))
    told = f"{len(p_values)} null p-values, {share:.1%} at or below 0.05, KS p = {small:.3g}"
    if small <= UNIFORM:
        told += ": p-values are too small under the null"
    return Condition(name, small > UNIFORM, told, {"p_values": list(p_values)})
