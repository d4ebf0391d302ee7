"""What carrying out a spec gives: outcome, facts, verdicts, data, figures and a sentence."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from metastable.core.outcome import Outcome
from metastable.core.verdict import Comparison, Verdict


@dataclasses.dataclass(frozen=True)
class Answer:
    """The answer to a spec, as plain data.

    - `facts`: named in words; numbers, words, lists, or tables of them (lists of dictionaries).
    - `data`: arrays by name, and by label within a name.
    - `figures`: pictures as data, by name; shown in this order.
    - `sentence`: the answer in one line, which heads the page and the terminal.
    """

    outcome: Outcome
    facts: Mapping[str, Any]
    verdicts: tuple[Verdict, ...] = ()
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    figures: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sentence: str = ""

    def to_json(self) -> dict[str, Any]:
        """Everything but the figures, as plain numbers and words."""
        return {
            "sentence": self.sentence,
            "outcome": self.outcome.name,
            "message": self.outcome.message,
            "facts": _plain(self.facts),
            "verdicts": Comparison(self.verdicts, "none").to_dict(),
            "data": _plain(self.data),
        }

    def __str__(self) -> str:
        width = max(map(len, [*self.facts, "outcome"]))
        rows = [f"  {name:<{width}}  {_shown(value)}" for name, value in self.facts.items()]
        return "\n".join([self.sentence, *rows, f"  {'outcome':<{width}}  {self.outcome}"])


def _plain(value: Any) -> Any:
    """Lists and dictionaries; JSON has no word for what a diverged loss becomes."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(item)}" for name, item in value.items())
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return "".join(f"\n    {_shown(row)}" for row in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)
