"""What an entry found: verdict rows, figures, moving pictures, remarks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from metastable.core.figure import Figure, Film
from metastable.core.verdict import AGREE, DISAGREE, NOT_APPLICABLE, Verdict


@dataclasses.dataclass(frozen=True)
class Finding:
    """The outcome of one entry.

    The first row is the claim as the document states it; rows about its correction and its limits
    follow. A movie is a function that gives a film of at most so many frames.
    """

    rows: Sequence[Verdict]
    figures: Mapping[str, Figure]
    notes: Sequence[str] = ()
    movies: Mapping[str, Callable[[int], Film]] = dataclasses.field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """That of the claim; "disagree" also when one of the rows below it does.

        >>> row = lambda verdict: Verdict("", "", 1, 1, "", verdict)
        >>> Finding([row("agree"), row("disagree")], {}).verdict
        'disagree'
        """
        return self.rows[0].verdict if self._agrees_below else DISAGREE

    def as_known(self, known: str) -> bool:
        """Whether the claim came out as we know it does, and everything below it agrees.

        A claim that cannot be told here (weights that are not installed) is no surprise.

        >>> row = lambda verdict: Verdict("", "", 1, 1, "", verdict)
        >>> wrong, right = row("disagree"), row("agree")
        >>> [Finding([wrong, below], {}).as_known("disagree") for below in (right, wrong)]
        [True, False]
        """
        return self.rows[0].verdict in (known, NOT_APPLICABLE) and self._agrees_below

    @property
    def _agrees_below(self) -> bool:
        return DISAGREE not in [row.verdict for row in self.rows[1:]]


def holds(
    claim: str, source: str, true: Any, expected: Any, observed: Any, reason: str = ""
) -> Verdict:
    """A row for a claim that is no equality of two numbers: it is true of the run, or it is not.

    >>> holds("the energy grows", "eq. (14)", -1e-3 > 0, "never falls", "falls by 1e-3").verdict
    'disagree'
    """
    return Verdict(claim, source, expected, observed, "", AGREE if true else DISAGREE, reason)
