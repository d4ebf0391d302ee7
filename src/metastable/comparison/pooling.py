"""Claims over many runs: each is tested in every run, and one row says in how many it holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scipy.stats import binom

from metastable.core import checks
from metastable.core.verdict import (
    AGREE,
    DISAGREE,
    LEVEL,
    NOT_APPLICABLE,
    Verdict,
    decide,
    not_applicable,
    sampled,
    settle,
)
from metastable.observe.equilibria import Share

Found = tuple[int, Verdict]  # a row and the seed of its run


def in_share(
    *, at_least: float = 0.0, at_most: float = 1.0
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Marks a claim that holds in a share of random starts, not in every one.

    `ms.ensemble` then tests the share by an exact binomial test; `ms.compare`, which sees one run,
    leaves the claim untested.

    >>> from metastable.core.verdict import decide
    >>> @in_share(at_least=0.5)
    ... def one_pole(case):
    ...     ends = case.run.frames[-1].points
    ...     return decide(bool((ends @ ends[0] > 0).all()), "one pole", "mine", "yes", "no", "")
    """
    for name, value in (("at_least", at_least), ("at_most", at_most)):
        checks.real(name, value)
    if not 0 <= at_least <= at_most <= 1:
        raise ValueError(
            f"at_least and at_most must be shares, 0 <= at_least <= at_most <= 1; got {at_least} "
            f"and {at_most}."
        )

    def mark(claim: Any) -> Any:
        claim.share = (float(at_least), float(at_most))
        return claim

    return mark


def name_of(claim: Any) -> str:
    """A claim by the name of its function, in words."""
    return str(getattr(claim, "__name__", type(claim).__name__)).replace("_", " ")


def pool(
    claims: Sequence[Any], judged: Mapping[int, Sequence[Sequence[Verdict]]], tried: int
) -> tuple[Verdict, ...]:
    """One row for each claim, from its rows in every run that was made, by seed.

    - A row without chance is a statement about every run: one run that contradicts it is enough,
      and the row names that run.
    - Rows of chance have a probability p each. Of honest ones one in a hundred has p < 0.01, by
      chance: how many have is tested by the exact binomial law, the smallest p by Bonferroni's
      rule, and twice the smaller of both is the p of all.
    - A claim marked by `in_share` is tested by the exact binomial law of its share.

    `tried` counts starts that did not reach the horizon too, which nothing is claimed of. The last
    two are judged together by Holm's method, as sampled rows are everywhere.
    """
    rows: list[Verdict] = []
    for k, claim in enumerate(claims):
        several = any(len(found[k]) > 1 for found in judged.values())
        groups: dict[str, list[Found]] = {}
        for seed, found in judged.items():
            for row in found[k]:
                groups.setdefault(row.claim if several else "", []).append((seed, row))
        if not groups:
            reason = f"it says nothing of any of these {tried} runs"
            rows.append(not_applicable(name_of(claim), "", reason))
        rows += [_pooled(group, getattr(claim, "share", None), tried) for group in groups.values()]
    return settle(rows)


def _pooled(found: list[Found], share: tuple[float, float] | None, tried: int) -> Verdict:
    first = found[0][1]
    tested = [(seed, row) for seed, row in found if row.verdict != NOT_APPLICABLE]
    if not tested:
        return not_applicable(first.claim, first.source, first.reason)
    notes, about = [], tested[0][1]
    if silent := tried - len(tested):
        why = next((row.reason for _, row in found if row.verdict == NOT_APPLICABLE), "")
        notes.append(f"{silent} of {tried} not tested{f' ({why})' if why else ''}")
    if share is not None:
        return _of_share(about, tested, share, notes)
    against = [(seed, row) for seed, row in tested if row.p is None and row.verdict == DISAGREE]
    chances = [(row.p, seed) for seed, row in tested if row.p is not None]
    if chances and not against:
        return _of_chance(about, chances, notes)
    kept = Share(len(tested) - len(against), len(tested))
    if against:
        seed, row = against[0]
        notes.insert(0, f"seed {seed}: expected {row.expected}, observed {row.observed}")
    else:
        least = math.floor(1000 * kept.interval[0]) / 10
        notes.insert(0, f"so in {least:g} % of all starts at least, at 95 %")
    words = f"{about.tolerance} in each run" if about.tolerance else "every run"
    observed = f"{kept.hits} of {kept.starts} runs"
    told = about.claim, about.source, "all runs", observed, words, "; ".join(notes)
    return decide(not against, *told)


def _of_chance(about: Verdict, chances: list[tuple[float, int]], notes: list[str]) -> Verdict:
    """Independent probabilities, each below α in a share α of honest runs at most, as one."""
    count, (least, seed) = len(chances), min(chances)
    low = sum(p < LEVEL for p, _ in chances)
    p = min(1.0, 2 * min(float(binom.sf(low - 1, count, LEVEL)), count * least))
    notes.insert(0, f"{low} with p < {LEVEL:g}; the smallest p is {least:.2g}, of seed {seed}")
    expected, observed = f"all runs, but {LEVEL:.0%} by chance", f"{count - low} of {count} runs"
    return sampled(about.claim, about.source, expected, observed, p, reason="; ".join(notes))


def _of_share(
    about: Verdict, tested: list[Found], share: tuple[float, float], notes: list[str]
) -> Verdict:
    """A share of all starts, by the exact binomial law of how many of the tested ones have it."""
    low, high = share
    held = Share(sum(settle([row])[0].verdict == AGREE for _, row in tested), len(tested))
    below = float(binom.cdf(held.hits, held.starts, low))
    above = float(binom.sf(held.hits - 1, held.starts, high))
    p = min(1.0, 2 * min(below, above)) if 0 < low and high < 1 else min(below, above)
    limits = [f"at least {low:.3g}"] if low > 0 else []
    limits += [f"at most {high:.3g}"] if high < 1 else []
    expected = f"{low:.3g}" if low == high else " and ".join(limits) or "any share"
    notes.insert(0, f"{held}")
    observed = f"{held.hits} of {held.starts} runs"
    told = about.claim, about.source, f"share {expected}", observed, p
    return sampled(*told, reason="; ".join(notes))
