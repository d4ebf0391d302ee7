"""Verdict rows of a whole diagram, in words: what stands behind a row, and a row in a sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from metastable.core.verdict import Verdict

_OF = re.compile(r"^(.*) \((\w+)\)$")
_BEHIND = re.compile(r"(\d+) cells, at (.*?)(?:; beside chance (.*?))?(?:; (\d+) not judged: .*)?$")


def claim_of(claim: str, observable: str) -> str:
    """The claim of a row, with the observable that it is about."""
    return f"{claim} ({observable})"


def observable_of(row: Verdict) -> str:
    """The observable that a row is about; "" where it names none."""
    found = _OF.match(row.claim)
    return found[2] if found else ""


def reason_of(cells: int, worst: str, silent: Sequence[str], slack: str = "") -> str:
    """How many cells stand behind a row, which fits least, and why others are not judged.

    `slack` says what is allowed beside chance.
    """
    slack = f"; beside chance {slack}" if slack else ""
    rest = f"; {len(silent)} not judged: {silent[0]}" if silent else ""
    return f"worst of {cells} cells, at {worst}{slack}{rest}"


def slack_of(row: Verdict) -> str:
    """What a row allows beside chance; "" for most.

    >>> slack_of(Verdict("", "", 1, 1, "", "agree", reason_of(3, "β = 4", [], "± 6% of the mean")))
    '± 6% of the mean'
    """
    behind = _BEHIND.search(row.reason)
    return (behind[3] or "") if behind else ""


def row_in_words(row: Verdict) -> str:
    """A judged row: its claim, the cells, and what was expected and observed where it fits least.

    >>> reason = reason_of(12, "β = 4", ["too short"])
    >>> row_in_words(Verdict("mean (late_order)", "", 2.0, 2.5, "", "agree", reason, error=0.25))
    'mean, in 12 of 13 cells; where it fits least, at β = 4: 2.5 observed, 2 ± 0.2 expected'
    """
    claim = found[1] if (found := _OF.match(row.claim)) else row.claim
    error = f" ± {row.error:.1g}" if row.error else ""
    values = f"{shown(row.observed)} observed, {shown(row.expected)}{error} expected"
    behind = _BEHIND.search(row.reason)
    if behind is None:
        return f"{claim}: {values}"
    judged, silent = int(behind[1]), int(behind[4] or 0)
    if judged + silent == 1:
        return f"{claim}, at {behind[2]}: {values}"
    of = f"{judged} of {judged + silent}" if silent else f"all {judged}"
    return f"{claim}, in {of} cells; where it fits least, at {behind[2]}: {values}"


def shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
