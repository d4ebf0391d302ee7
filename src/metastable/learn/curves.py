"""What experiments in learning answer with: curves, points on their way, charts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from metastable.core.outcome import Outcome
from metastable.core.result import Answer


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


def losses(training: Any, caption: str, y: str = "loss", step: str = "step") -> Curves:
    """The losses of a training, on its batches and on held-out data."""
    taken = np.arange(1, training.losses.size + 1)
    held_out = training.checks, training.validation
    lines = {"training": (taken, training.losses), "validation": held_out}
    return Curves(step, y, lines, caption=caption)


def make_answer(
    sentence: str, facts: Mapping[str, Any], figures: Mapping[str, Any], outcome: Outcome
) -> Answer:
    """An answer whose data are what its curves show: name → label → (2, n) of x and y."""
    data = {
        name: {label: np.stack([np.asarray(v, float) for v in xy]) for label, xy in f.lines.items()}
        for name, f in figures.items()
        if isinstance(f, Curves)
    }
    return Answer(outcome, facts, data=data, figures=figures, sentence=sentence)
