"""Conditions without which numbers are no evidence. Each one can stop a finding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from metastable.audit.blind import Blind
from metastable.audit.evidence import (
    GROUPS,
    REPRODUCES,
    TRAINED,
    Question,
    Row,
    by_document,
    number,
    permutation_p_values,
    questions,
)
from metastable.audit.power import FINDINGS
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
REFUSALS = 0.2  # share of answers that may decline, of a model that one can only talk to
STOP = 0.01  # chance that nulls as they should be stop a finding
UNIFORM = 0.001  # the same for re-splits, which are many: only gross faults count


@dataclass(frozen=True)
class Condition:
    """`held`: True, False, or None if it was not examined; a False one stops the named findings."""

    name: str
    held: bool | None
    told: str
    numbers: dict[str, Any] = field(default_factory=dict)
    stops: tuple[str, ...] = (TRAINED, REPRODUCES)


def in_words(name: str) -> str:
    """The name of a condition as readers meet it.

    >>> in_words("shuffled_targets"), in_words("matched control")
    ('shuffled texts', 'matched control')
    """
    return WORDS.get(name, name.replace("_", " "))


def check_size(asked: Sequence[Question], family: str, level: float, draws: int) -> Condition:
    """Whether the sets are large enough for any p-value of a family to reach the level."""
    name = f"enough documents, {family}"
    own = [q for q in asked if q.family == family]
    if not own:
        return Condition(name, None, "no question", {}, (family,))
    count = lambda q: q.outcomes or relabellings(len(q.protected), len(q.control), draws + 1)
    ways = max(map(count, own))
    least = FINDINGS * len(own) / ways
    told = f"the smallest adjusted p-value these sets can show is {least:.2g}"
    if least > level:
        told += f", above the level {level:g}: bring more documents, or ask fewer questions"
    return Condition(name, least <= level, told, {}, (family,))


def check_answers(rows: Sequence[Row], seed: int = 0) -> list[Condition]:
    """Whether M writes anything at all after most prompts, and declines seldom and evenly."""
    declined = _check_refusals(rows, seed)
    outputs = [str(row.get("output", "")) for row in rows if row["generator"] != "likelihood"]
    if not outputs:
        return declined
    empty = sum(not output.strip() for output in outputs) / len(outputs)
    told = f"{100 * empty:.0f} % of answers are empty"
    if empty > 0.5:
        told += ": M answers nothing, or its end token comes first; look at items.csv"
    return [Condition("M answers", empty <= 0.5, told, {}, (REPRODUCES,)), *declined]


def _check_refusals(rows: Sequence[Row], seed: int) -> list[Condition]:
    """Whether few answers decline, and those of protected and control documents alike.

    Refusals hide what M knows, and uneven ones look like knowledge: by document, either way, at
    level `STOP`.
    """
    own = [row for row in rows if number(row, "refused") is not None]
    if not own:
        return []
    refused = [number(row, "refused") or 0.0 for row in own]
    sides = [by_document(own, refused, groups) for groups in (GROUPS[:2], GROUPS[2:])]
    shares = [float(np.mean(side)) for side in sides]
    share = float(np.mean(refused))
    told = f"{100 * share:.0f} % of answers decline or are empty"
    few = share <= REFUSALS
    p = min(1.0, 2 * min(permutation_p(a, b, seed=seed) for a, b in (sides, sides[::-1])))
    if not few:
        told += f", more than {100 * REFUSALS:.0f} %: what M knows stays hidden"
    if p <= STOP:
        told += f": {shares[0]:.0%} for protected, {shares[1]:.0%} for control (p = {p:.2g})"
    numbers = {"protected": shares[0], "control": shares[1], "p_value": p}
    return [Condition("M does not decline", few and p > STOP, told, numbers)]


def check_blind(blind: Blind, works: bool = False) -> Condition:
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
    stops = (TRAINED,) if works else (TRAINED, REPRODUCES)
    return Condition("matched control", blind.matched, told, {"auc": blind.auc.to_list()}, stops)


def ask_nulls(
    nulls: Mapping[str, Sequence[Row]], asked: Sequence[Question], works: bool, **settings: int
) -> list[Condition]:
    """`check_nulls` over rows by name and permuted labels; of whole works, each family alone."""
    if not works:
        null = {name: null_p(rows, **settings) for name, rows in nulls.items()}
        return check_nulls(null | {"permuted_labels": permuted_p(asked, **settings)})
    made: list[Condition] = []
    for family in (TRAINED, REPRODUCES):
        null = {}
        for name, rows in nulls.items():
            own = [r for r in rows if (r["generator"] == "likelihood") is (family == TRAINED)]
            null |= {name: null_p(own, **settings)} if own else {}
        some = [question for question in asked if question.family == family]
        null |= {"permuted_labels": permuted_p(some, **settings)} if some else {}
        for each in check_nulls(null):
            made.append(replace(each, name=f"{in_words(each.name)}, {family}", stops=(family,)))
    return made


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
        told += "" if held else ": the audit finds something where there can be nothing"
        made.append(Condition(name, held, told, {"p_value": nulls[name]}))
    return made


def null_p(rows: Iterable[Row], *, draws: int = 9999, seed: int = 0) -> float:
    """The smallest adjusted p-value of rows collected where nothing can be found."""
    return min(permutation_p_values(questions(rows), draws=draws, seed=seed)[1])


def main_p(rows: Iterable[Row], *, draws: int = 9999, seed: int = 0) -> float:
    """The p-value of the first question, a likelihood: uniform under the null, not adjusted."""
    return questions(rows)[0].p_value(draws=draws, seed=seed)


def permuted_p(asked: Sequence[Question], *, draws: int = 9999, seed: int = 0) -> float:
    """The same for the rows of the audit after its documents have changed labels at random."""
    random = np.random.default_rng([checks.seed(seed), 5])
    orders: dict[tuple[int, int], np.ndarray] = {}
    p = []
    for q in asked:
        sizes = (len(q.protected), len(q.control))
        order = orders.setdefault(sizes, random.permutation(sum(sizes)))
        mixed = np.concatenate([q.protected, q.control])[order]
        if q.paired:  # the coins thrown again
            sides = np.array([q.protected, q.control])
            mixed = np.where(random.integers(0, 2, sizes[0]) > 0, sides, sides[::-1]).ravel()
        again = replace(q, protected=mixed[: sizes[0]], control=mixed[sizes[0] :])
        p.append(again.p_value(draws=draws, seed=seed + 1))
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
