"""What an experiment in learning leaves behind: facts, curves and an outcome."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from metastable.core.outcome import Outcome

__all__ = ["Chart", "Curves", "Frames", "Lesson", "at"]


@dataclasses.dataclass(frozen=True)
class Curves:
    """Lines of one figure: label → (x, y). `levels` are horizontal lines.

    `bars` are error bars, label → half their height. `powers` says that a law of powers is
    expected, which is straight on two logarithmic scales.
    """

    x: str
    y: str
    lines: Mapping[str, tuple[np.ndarray, np.ndarray]]
    levels: Mapping[str, float] = dataclasses.field(default_factory=dict)
    caption: str = ""
    bars: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    powers: bool = False


@dataclasses.dataclass(frozen=True)
class Frames:
    """Points of the plane on their way: `places` (t, n, 2) at `times` (t,), of `classes` (n,)."""

    times: np.ndarray
    places: np.ndarray
    classes: np.ndarray
    caption: str = ""


@dataclasses.dataclass(frozen=True)
class Chart:
    """One number over two parameters: `values` (rows, columns). `lines` lie over it, as theory."""

    x: str
    y: str
    value: str
    columns: np.ndarray
    rows: np.ndarray
    values: np.ndarray
    lines: Mapping[str, tuple[np.ndarray, np.ndarray]] = dataclasses.field(default_factory=dict)
    caption: str = ""


@dataclasses.dataclass(frozen=True)
class Lesson:
    """The result of an experiment: facts in words and numbers, curves, pictures, how it ended."""

    name: str
    facts: Mapping[str, Any]
    curves: Mapping[str, Curves]
    outcome: Outcome
    pictures: Mapping[str, Frames | Chart] = dataclasses.field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Everything as plain numbers and words."""
        lines = {
            name: {label: [_plain(v) for v in line] for label, line in curves.lines.items()}
            for name, curves in self.curves.items()
        }
        return {
            "lesson": self.name,
            "outcome": self.outcome.name,
            "message": self.outcome.message,
            "facts": dict(self.facts),
            "curves": lines,
        }

    def __str__(self) -> str:
        width = max(map(len, [*self.facts, "outcome"]))
        rows = [f"  {name:<{width}}  {_shown(value)}" for name, value in self.facts.items()]
        return "\n".join([self.name, *rows, f"  {'outcome':<{width}}  {self.outcome}"])


def at(values: np.ndarray, place: int) -> float | None:
    """One entry of a history, or None where a run ended before its first look."""
    return float(values[place]) if values.size else None


def _plain(values: np.ndarray) -> list[float | None]:
    """A list; JSON has no word for what a diverged loss becomes."""
    return [v if np.isfinite(v) else None for v in np.asarray(values).tolist()]


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(one)}" for name, one in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)
