"""Rows of a comparison: what was expected, what was observed, and whether they agree."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.core.show import Shown, print_comparison
from metastable.core.tables import Tabular

if TYPE_CHECKING:
    import pandas

LEVEL = 0.01  # of all sampled rows of a page together
AGREE, DISAGREE, NOT_APPLICABLE = "agree", "disagree", "not applicable"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One claim about a run.

    `tolerance` says what difference is allowed, in words; `reason` says why the verdict is what it
    is when that is not plain from the numbers. A sampled row has the standard `error` of its
    expectation and a probability `p` of a difference as large: `settle` gives its verdict.
    """

    claim: str
    source: str
    expected: Any
    observed: Any
    tolerance: str
    verdict: str
    reason: str = ""
    error: float | None = None
    p: float | None = None


@dataclasses.dataclass(frozen=True, repr=False)
class Comparison(Shown, Tabular):
    """All verdicts on one run."""

    rows: tuple[Verdict, ...]
    clock: str

    def count(self, verdict: str) -> int:
        return sum(row.verdict == verdict for row in self.rows)

    @property
    def agrees(self) -> bool:
        """Whether nothing disagrees."""
        return self.count(DISAGREE) == 0

    @property
    def tally(self) -> str:
        """How many claims that could be tested agree, and the first that does not.

        >>> Comparison((Verdict("a", "", 1, 1, "", "agree"),), "SA").tally
        '1 of 1 claim agrees'
        """
        tested = [row for row in self.rows if row.verdict != NOT_APPLICABLE]
        if not tested:
            return "no claim of theory could be tested"
        agree, one = self.count(AGREE), len(tested) == 1
        text = f"{agree} of {len(tested)} claim{' agrees' if one else 's agree'}"
        other = next((row.claim for row in tested if row.verdict == DISAGREE), None)
        return text if other is None else f"{text}, but not: {other}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "clock": self.clock,
            "rows": [dataclasses.asdict(row) for row in self.rows],
            "agree": self.count(AGREE),
            "disagree": self.count(DISAGREE),
            "not_applicable": self.count(NOT_APPLICABLE),
        }

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a verdict."""
        import pandas

        columns = [field.name for field in dataclasses.fields(Verdict)]
        return pandas.DataFrame([dataclasses.asdict(row) for row in self.rows], columns=columns)

    def print(self) -> None:
        """The rows as a table on the terminal."""
        print_comparison(self)

    def __repr__(self) -> str:
        return (
            f"Comparison({self.count(AGREE)} agree, {self.count(DISAGREE)} disagree, "
            f"{self.count(NOT_APPLICABLE)} not applicable)"
        )


def judge(
    claim: str,
    source: str,
    expected: float,
    observed: float,
    *,
    relative: float | None = None,
    absolute: float | None = None,
    error: float | None = None,
    reason: str = "",
) -> Verdict:
    """Agree when the difference is within the relative or the absolute tolerance.

    With a standard `error`, of a mean say, it is a matter of chance, by the normal law.
    """
    if error is not None:
        if not 0 < error < math.inf:
            return not_applicable(claim, source, f"no standard error: {observed:g} ± {error:g}")
        if not (math.isfinite(observed) and math.isfinite(expected)):
            return decide(False, claim, source, expected, observed, f"± {error:.2g}", reason)
        p = math.erfc(abs(observed - expected) / (math.sqrt(2) * error))
        return sampled(claim, source, float(expected), float(observed), p, float(error), reason)
    allowed = absolute if relative is None else relative * abs(expected)
    finite = bool(np.isfinite(observed) and np.isfinite(expected))
    near = finite and abs(observed - expected) <= (allowed or 0.0)
    words = f"{absolute:.3g}" if relative is None else f"{100 * relative:g} %"
    return decide(near, claim, source, float(expected), float(observed), words, reason)


def decide(
    holds: bool, claim: str, source: str, expected: Any, observed: Any, words: str, reason: str = ""
) -> Verdict:
    """Agree when it holds; `words` say what was allowed."""
    verdict = AGREE if holds else DISAGREE
    return Verdict(claim, source, expected, observed, words, verdict, reason)


def sampled(
    claim: str,
    source: str,
    expected: Any,
    observed: Any,
    p: float,
    error: float | None = None,
    reason: str = "",
) -> Verdict:
    """A row whose difference is a matter of chance: p is the probability of one as large."""
    around = "" if error is None else f"± {error:.2g}, "
    words = f"{around}p = {p:.2g}"
    return Verdict(claim, source, expected, observed, words, AGREE, reason, error, float(p))


def settle(rows: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Verdicts of sampled rows by Holm's method: on an honest page one disagrees in 1 % at most.

    Source: Holm, Scandinavian Journal of Statistics 6 (1979). The smallest of m probabilities is
    taken m times, the next m − 1 times, and so on; a row disagrees where that is below 0.01, and
    all smaller ones were.
    """
    rows = list(rows)
    order = sorted(
        (k for k, row in enumerate(rows) if row.p is not None), key=lambda k: rows[k].p or 0
    )
    for rank, k in enumerate(order):
        if not (rows[k].p or 0.0) * (len(order) - rank) < LEVEL:
            break
        rows[k] = dataclasses.replace(rows[k], verdict=DISAGREE)
    return tuple(rows)


def not_applicable(claim: str, source: str, reason: str) -> Verdict:
    """A claim this run cannot test, and why."""
    return Verdict(claim, source, None, None, "", NOT_APPLICABLE, reason)
