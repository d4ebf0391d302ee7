"""The genealogy of clusters: which tokens became one, and when."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

COLUMNS = ("first", "second", "masses", "angles", "log_times", "log_waits")


class Merger(NamedTuple):
    """Tokens `first` and `second` become the token `becomes`; see `Mergers`."""

    first: int
    second: int
    becomes: int
    masses: tuple[float, float]
    angle: float
    log_time: float
    log_wait: float


@dataclasses.dataclass(frozen=True, eq=False)
class Mergers:
    """All mergers of a run in order: a tree whose leaves are the n tokens of the start.

    Merger k unites tokens `first[k]` and `second[k]`, of masses `masses[k]` and `angles[k]` apart
    (a distance in R^d), into token n + k at the time e^{log_times[k]}. `log_waits` is the logarithm
    of the time since the merger before, −∞ when at the same moment: next to t = 1e60 it would be
    forgotten. Three tokens that unite at once are two mergers.

    `len(mergers)`, `mergers[k]` and iteration give single `Merger` events.
    """

    tokens: int
    first: np.ndarray  # (M,)
    second: np.ndarray  # (M,)
    masses: np.ndarray  # (M, 2)
    angles: np.ndarray  # (M,)
    log_times: np.ndarray  # (M,)
    log_waits: np.ndarray  # (M,)

    @property
    def times(self) -> np.ndarray:
        """Times of the mergers; infinite past 1e308, where `log_times` goes on."""
        with np.errstate(over="ignore"):
            return np.exp(self.log_times)

    @property
    def counts(self) -> np.ndarray:
        """How many tokens remain after each merger."""
        return self.tokens - 1 - np.arange(len(self))

    @property
    def jumps(self) -> np.ndarray:
        """2α_iα_j: how far 2βe^{−β}E_β climbs at each merger as β → ∞ (arXiv:2410.06833)."""
        return 2 * self.masses[:, 0] * self.masses[:, 1]

    @property
    def linkage(self) -> np.ndarray:
        """The tree in the form of `scipy.cluster.hierarchy`, (n − 1, 4); heights are log(1 + t).

        Needs all tokens to have become one.
        """
        if len(self) != self.tokens - 1:
            raise ValueError(
                f"linkage needs a full tree, with one cluster at the end; got "
                f"{self.tokens - len(self)}: run on to a later horizon."
            )
        leaves = np.ones(self.tokens + len(self))
        for k in range(len(self)):
            leaves[self.tokens + k] = leaves[self.first[k]] + leaves[self.second[k]]
        height = np.logaddexp(0.0, self.log_times)
        return np.column_stack([self.first, self.second, height, leaves[self.tokens :]])

    def labels(self, count: int) -> np.ndarray:
        """Row in the frame with `count` tokens of the cluster that holds each token, shape (n,)."""
        merged = self.tokens - count
        if not 0 <= merged <= len(self):
            raise ValueError(
                f"count must lie between {self.tokens - len(self)} and {self.tokens}, the fewest "
                f"and most tokens of the run; got {count}."
            )
        root = np.arange(self.tokens + merged)
        root[self.first[:merged]] = root[self.second[:merged]] = root[self.tokens :]
        # Each pass doubles the reach, so a chain of all tokens takes log n passes.
        while not np.array_equal(root[root], root):
            root = root[root]
        _, start, label = np.unique(root[: self.tokens], return_index=True, return_inverse=True)
        return np.argsort(np.argsort(start))[label]

    def names(self, count: int) -> np.ndarray:
        """Names of the rows of the frame with `count` tokens; a merger takes its first's place."""
        merged = self.tokens - count
        place = np.arange(self.tokens + merged)
        for k in range(merged):
            place[self.tokens + k] = place[self.first[k]]
        parts = np.concatenate([self.first[:merged], self.second[:merged]])
        alive = np.setdiff1d(np.arange(len(place)), parts)
        return alive[np.argsort(place[alive])]

    def to_variables(self) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """The columns as variables of a dataset, along the dimension "merger"."""
        along = {"masses": ("merger", "pair")}
        return {f"merger_{c}": (along.get(c, ("merger",)), getattr(self, c)) for c in COLUMNS}

    @classmethod
    def from_variables(cls, data: Mapping[Hashable, Any], tokens: int) -> Mergers | None:
        """Read back what `to_variables` gave; None where there is nothing."""
        if "merger_first" not in data:
            return None
        return cls(tokens, *(np.asarray(data[f"merger_{c}"]) for c in COLUMNS))

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, k: int) -> Merger:
        k = range(len(self))[k]
        return Merger(
            first=int(self.first[k]),
            second=int(self.second[k]),
            becomes=self.tokens + k,
            masses=(float(self.masses[k, 0]), float(self.masses[k, 1])),
            angle=float(self.angles[k]),
            log_time=float(self.log_times[k]),
            log_wait=float(self.log_waits[k]),
        )

    def __repr__(self) -> str:
        return f"Mergers({len(self)}, from {self.tokens} tokens to {self.tokens - len(self)})"


class Ledger:
    """The book of a run that goes on: the tokens left, their masses, and the mergers so far."""

    def __init__(self, masses: Any):
        self.masses = np.array(masses, float)
        self.tokens = len(self.masses)
        self.names = np.arange(self.tokens)
        self.rows: list[tuple] = []

    def join(self, first: int, second: int, angle: float, log_time: float, log_wait: float) -> None:
        """Row `second` becomes part of row `first`; it stays in the book until dropped."""
        pair = [first, second]
        self.rows.append((*self.names[pair], *self.masses[pair], angle, log_time, log_wait))
        self.names[first] = self.tokens + len(self.rows) - 1
        self.masses[first] += self.masses[second]

    def drop(self, gone: Any) -> None:
        """Forget rows that became part of others."""
        self.names, self.masses = (np.delete(a, gone) for a in (self.names, self.masses))

    def mergers(self) -> Mergers:
        table = np.array(self.rows, float).reshape(-1, 7)
        first, second = table[:, :2].T.astype(int)
        return Mergers(self.tokens, first, second, table[:, 2:4], *table[:, 4:].T)


def log_difference(a: float, b: float) -> float:
    """log(e^a − e^b), −∞ unless a > b."""
    if not a > b:
        return -math.inf
    return a + math.log(-math.expm1(b - a)) if b > -math.inf else a
