"""When the mean over tokens goes through a few of them: decided between segments of a run."""

from __future__ import annotations

import bisect
import math
from typing import Any

import numpy as np

from metastable.core.numerics import is_traced
from metastable.fields import Field
from metastable.fields.sums import Dense, Sum
from metastable.fields.sums.low_rank import LowRankSum, is_symmetric
from metastable.fields.sums.pivots import SIZES, compiled_size
from metastable.flows.solvers.looks import Look, Sample, is_slow, only_kernel
from metastable.measures import Points

HOPELESS = 1e6  # mean of R_ii over the tolerance: errors of the mean are 1e1 to 1e5 times smaller
DECADES = 2.5  # by which errors fall in the time in which the fastest token would cover a radian
STRICTER = 0.1  # of the error at the start, where a segment has failed
SHARE, USUAL = 0.05, 400  # of the cost so far and of 400 evaluations, what may be tried in vain
COUNTS = ("rank", "capacity", "first", "last", "refreshes", "repeats", "vain", "pairs")


class Ranks:
    """Whether a run may use a `LowRankSum`, and with which pivots.

    Between two segments `choose` looks at the tokens. Pivots are found by the largest residual, and
    their number is the smallest of `SIZES` at which the field is off by at most what is left of
    `budget`, measured against the sum over all pairs at a `Sample` of tokens; none, if that many
    would not pay. At the end of the segment `holds` measures again, at the same tokens.

    **Error.** While clusters collapse the error ε falls by some 2.5 decades a unit of time, so that
    a segment adds its logarithmic mean, Δt (ε_0 − ε_1)/log(ε_0/ε_1), to the positions. A segment
    that adds more than half of what is left of the budget fails, and is to be done again: with
    pivots that leave a tenth of the error, and if that fails too with all pairs. All segments
    together stay within the budget.

    All this is a function of the tokens and of `state`: a resumed run decides as before.
    """

    def __init__(self, field: Field, measure: Points, base: Sum, budget: float):
        self.field, self.base, self.sum = field, base, base
        self.budget = budget  # of positions, over the whole run
        self.counts = dict.fromkeys(COUNTS, 0)
        self.error = 0.0  # gathered so far
        self.began = 0.0, 0.0  # time and error at the start of the segment
        self.sample: Sample | None = None  # the tokens at which this segment is checked
        self.again = 0.0  # when the next attempt may succeed
        self.failed = 0  # attempts at this segment
        # The kernel in single precision is faster, and takes tolerances at which errors decide.
        plain = type(base) is Dense and not is_traced(field, measure)
        plain = plain and is_slow(base, measure)
        kernel = only_kernel(field, measure) if plain else None
        self.possible = kernel is not None
        self.symmetric = kernel is None or is_symmetric(kernel)

    @property
    def left(self) -> float:
        """Of the budget."""
        return self.budget - self.error

    def choose(
        self, measure: Points, t: float, work: int, limit: float = math.inf, real: int = 0
    ) -> Sum:
        """The sum for the next segment.

        `work` counts the evaluations so far, `limit` bounds the error at any moment, and `real`
        tokens come first: the others are padding.
        """
        tolerance = min(self.left, limit)
        if self.failed:
            tolerance = min(tolerance, STRICTER * self.began[1])
        tolerance = max(tolerance, 1e-13)
        counts, was, self.sum = self.counts, self.counts["rank"], self.base
        if not self.possible or self.failed > 1 or (not was and t < self.again):
            return self.base
        counts["rank"] = 0
        look = Look(self.field, measure, t, real)
        with look.threads():
            return self._through(look, tolerance, was, work)

    def _through(self, look: Look, tolerance: float, was: int, work: int) -> Sum:
        """The sum through so few pivots that it pays; else that over all pairs."""
        counts, t = self.counts, float(look.t)
        most = min(look.most, 2 * next(s for s in SIZES if s >= was)) if was else look.most
        if not most or counts["vain"] > SHARE * (work + USUAL) * look.dense:
            return self.base
        hopeless = HOPELESS * tolerance
        low, errors = 0, {}
        for pivots in look.search(most, enough=0.1 * tolerance, hopeless=hopeless):
            rank = len(pivots.indices)
            if pivots.traces[-1][1] > hopeless:
                continue
            self.sample = sample = look.draw(pivots)
            columns = look.columns(pivots.indices, pivots.columns)
            errors[rank] = look.error(columns, rank, sample)
            again = look.matrices + (pivots.columns is None)
            counts["pairs"] += (sample.rows.size + again * rank) * look.real
            if errors[rank] <= tolerance:
                break
            low = bisect.bisect(SIZES, rank)
        counts["pairs"] += rank * look.real
        if not errors.get(rank, math.inf) <= tolerance:
            counts["vain"] += look.cost_of_finding(rank)
            if rank in errors:
                counts["vain"] += look.cost_of_checking(rank)
                far = math.log10(min(errors[rank] / tolerance, 1 / tolerance))
                self.again = t + far / DECADES / look.largest
            return self.base
        sizes = [s for s in SIZES if s < rank] + [rank]
        high = len(sizes) - 1  # the answer lies from `low` on; `high` is known to be good
        while low < high:
            middle = (low + high) // 2
            errors[sizes[middle]] = look.error(columns, sizes[middle], sample)
            if errors[sizes[middle]] <= tolerance:
                high = middle
            else:
                low = middle + 1
        rank = sizes[high]
        self.began = t, errors[rank]
        counts["capacity"] = max(counts["capacity"], compiled_size(rank))
        counts |= {"rank": rank, "last": rank, "first": counts["first"] or rank}
        counts["refreshes"] += 1
        indices = np.zeros(counts["capacity"], int)
        indices[:rank] = pivots.indices[:rank]
        self.sum = LowRankSum(indices, rank)
        return self.sum

    def holds(self, measure: Points, t: float, limit: float = math.inf, real: int = 0) -> bool:
        """Whether the segment that ends here stayed within the budget."""
        if not isinstance(self.sum, LowRankSum):
            self.failed = 0
            return True
        (start, first), (last, largest) = self.began, self._check(measure, t, real)
        added = (t - start) * largest * _mean(first, last)
        if added <= 0.5 * self.left and last <= max(limit, 1e-13):
            self.error, self.failed = self.error + added, 0
            return True
        return self._refuse()

    def is_near(self, measure: Points, t: float) -> bool:
        """Whether the error is no larger here, inside a segment, than what was left."""
        if not isinstance(self.sum, LowRankSum):
            return True
        return self._check(measure, t, 0)[0] <= max(self.left, 1e-13) or self._refuse()

    def _check(self, measure: Points, t: float, real: int) -> tuple[float, float]:
        """Error with the pivots in use, and norm of the longest vector of the field."""
        assert isinstance(self.sum, LowRankSum) and self.sample is not None
        rank = self.counts["rank"]
        look = Look(self.field, measure, t, real)
        with look.threads():
            columns = look.columns(np.asarray(self.sum.pivots)[:rank])
            error = look.error(columns, rank, self.sample)
        rows = self.sample.rows.size + (1 + look.matrices) * rank
        self.counts["pairs"] += rows * look.real
        return error, look.largest

    def _refuse(self) -> bool:
        self.counts["repeats"] += 1
        self.failed += 1
        self.counts["rank"], self.sum = 0, self.base
        return False

    def count(self, evaluations: int, tokens: int) -> None:
        """Enter the pairs behind the evaluations of a segment, with the sum in use."""
        pairs = tokens * (tokens + 1) // 2 if self.symmetric else tokens**2
        if isinstance(self.sum, LowRankSum):
            pairs = self.sum.pairs(tokens, compiled_size(self.counts["rank"]), self.symmetric)
        self.counts["pairs"] += evaluations * pairs

    def statistics(self) -> dict[str, Any]:
        """What the result says: pairs evaluated, pivots chosen anew, segments done again."""
        if not self.counts["refreshes"]:
            return {}
        return {
            "pairs": self.counts["pairs"],
            "low_rank_error": self.error,
            "low_rank_refreshes": self.counts["refreshes"],
            "low_rank_repeats": self.counts["repeats"],
        }

    @property
    def log_again(self) -> float:
        """log of the time at which the next attempt may succeed."""
        return math.log(self.again) if self.again > 0 else -math.inf

    @property
    def name(self) -> str:
        first, last = self.counts["first"], self.counts["last"]
        ranks = f"{first}" if first == last else f"{first} to {last}"
        return f"{self.base.name}, then low rank ({ranks})" if first else self.base.name

    def state(self) -> np.ndarray:
        return np.array([*self.counts.values(), self.error, self.again])

    def restore(self, state: np.ndarray) -> None:
        self.counts = dict(zip(COUNTS, map(int, state[:-2]), strict=True))
        self.error, self.again = map(float, state[-2:])
        self.sum, self.sample = self.base, None


def _mean(first: float, last: float) -> float:
    """The mean of an error that falls, or grows, like an exponential from first to last."""
    if not (math.isfinite(last) and min(first, last) > 0):
        return max(first, last)
    ratio = math.log(first / last)
    return (first - last) / ratio if abs(ratio) > 1e-6 else first
