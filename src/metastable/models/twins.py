"""The untrained twins of an inspected model: the same shape, several seeds, and their spread."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.flows import Trajectory
from metastable.models.depthwise import Depthwise
from metastable.models.groups import Groups
from metastable.models.representation import intrinsic_dimension

FEW = 0.05  # share of the tokens by which a model must differ from its twins to be told apart


@dataclass(frozen=True, eq=False)
class Range:
    """Something of every twin, state by state: mean, lowest and highest; NaN where none came."""

    mean: np.ndarray  # (T,)
    low: np.ndarray
    high: np.ndarray

    @property
    def band(self) -> np.ndarray | None:
        """Low and high, (2, T); None where there is no spread to show."""
        return np.array([self.low, self.high]) if (self.high > self.low).any() else None

    @property
    def known(self) -> bool:
        """Whether any twin came to the last state."""
        return bool(np.isfinite(self.mean[-1]))

    def end(self, digits: int, unit: str = "") -> str:
        """The last state, such as "0.37 (0.36 to 0.39)"; a dash where no twin came so far."""
        if not self.known:
            return "–"
        mean, low, high = (f"{each[-1]:.{digits}f}" for each in (self.mean, self.low, self.high))
        return f"{mean}{unit}" if low == high else f"{mean}{unit} ({low} to {high}{unit})"

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name).tolist() for name in ("mean", "low", "high")}


@dataclass(frozen=True, eq=False)
class Twins:
    """What several seeds without training do with the text: one entry each, the first in full.

    All ranges are over the T states of the model. A twin that left the range of numbers before is
    in those of the states it came to.
    """

    times: np.ndarray  # (T,) layers, those of the model
    chosen: np.ndarray  # (S,) indices of states at which dimensions are known
    tables: Sequence[Depthwise]  # of others than the first without what `thorough` adds
    groups: Sequence[Groups]  # at the cosine of the pictures
    loose: Sequence[Groups]  # at the looser one
    dimensions: Sequence[np.ndarray]  # (S,) intrinsic

    def __len__(self) -> int:
        return len(self.loose)

    def of_tables(self, name: str, column: int | None = None) -> Range:
        """The range of a series of the tables."""
        series = [np.asarray(getattr(table, name), float) for table in self.tables]
        chosen = [each if column is None else each[:, column] for each in series]
        return range_of(chosen, len(self.times))

    @property
    def shares(self) -> Range:
        """Of the tokens in clusters of two or more, at the looser cosine."""
        return range_of([each.shares for each in self.loose], len(self.times))

    @property
    def counts(self) -> Range:
        """Clusters, single tokens counted, at the cosine of the pictures."""
        return range_of([each.counts for each in self.groups], len(self.times))

    @property
    def dimension(self) -> Range:
        """Intrinsic, at the chosen states."""
        return range_of(self.dimensions, len(self.chosen))

    @property
    def note(self) -> str:
        """What a caption says of bands."""
        if len(self) == 1:
            return ""
        return f" Untrained: mean of {len(self)} seeds, with a band from the lowest to the highest."

    @property
    def gathered(self) -> str:
        """From first to last state, such as "0 % → 12 % (10 to 15 %)"."""
        return f"{100 * self.shares.mean[0]:.0f} % → {_percent(self.shares)}"

    def beside(self, own: Groups) -> str:
        """How the tokens of a model gather beside those of its twins, and whether that differs."""
        shares, one = self.shares, len(self) == 1
        said = f"in {'its untrained twin' if one else f'{len(self)} untrained twins'} "
        said += f"{self.gathered}: "
        if not shares.known:
            return f"{said}no state to compare the last one with"
        more = float(own.shares[-1] - shares.high[-1])
        fewer = float(shares.low[-1] - own.shares[-1])
        if max(more, fewer) < max(FEW, 2 / len(own.words)):
            told = "no difference to speak of"
        else:
            which = "more" if more > 0 else "fewer"
            told = f"in the end the model gathers {which} tokens than "
            told += "its twin" if one else "every one of them"
        return f"{said}{told} (one seed of the twin)" if one else f"{said}{told}"


def _percent(shares: Range) -> str:
    """The last state of shares in percent."""
    return Range(*(100 * each for each in (shares.mean, shares.low, shares.high))).end(0, " %")


def range_of(values: Sequence[Any], states: int) -> Range:
    """Mean, lowest and highest of series, one a twin, over so many states.

    >>> three = range_of([[1.0, 2.0], [3.0, 6.0], [5.0]], states=2)
    >>> three.mean, three.low, three.high
    (array([3., 4.]), array([1., 2.]), array([5., 6.]))
    """
    every = np.full((len(values), states), np.nan)
    for row, each in zip(every, values, strict=True):
        row[: len(each)] = each[:states]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # states to which no twin came
        reduced = (reduce(every, axis=0) for reduce in (np.nanmean, np.nanmin, np.nanmax))
        return Range(*reduced)


def twins_of(
    run: Trajectory, chosen: np.ndarray, controls: Sequence[Trajectory],
    tables: Sequence[Depthwise], groups: Sequence[Groups], loose: Sequence[Groups],
) -> Twins:  # fmt: skip
    """Twins of a `run` that were looked at; their intrinsic dimensions are taken here."""
    dimensions = []
    for twin in controls:
        states = [twin.frames[k].directions() for k in chosen if k < len(twin.frames)]
        dimensions.append(np.array([intrinsic_dimension(state) for state in states]))
    return Twins(np.asarray(run.times), chosen, tables, groups, loose, dimensions)
