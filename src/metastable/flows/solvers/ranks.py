"""When the mean over tokens goes through a few of them: decided between segments of a run."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float

from metastable.core.numerics import is_traced, jax, jnp
from metastable.fields import Field
from metastable.fields.field import Places
from metastable.fields.sums import Dense, Kernel, Sum
from metastable.fields.sums.costs import dense_cost
from metastable.fields.sums.kernel import Attended
from metastable.fields.sums.low_rank import (
    NUGGET,
    SIZES,
    LowRankSum,
    Pivots,
    find_pivots,
    is_symmetric,
    low_rank_cost,
)
from metastable.measures import Points

WORTH = 2500.0  # microseconds of a dense evaluation; below, compiling once more costs more
PAYS = 0.75  # of the dense cost
HOPELESS = 1e6  # mean of R_ii over the tolerance: errors of the mean are 1e1 to 1e5 times smaller
DECADES = 2.5  # by which errors fall in the time in which the fastest token would cover a radian
LONELY = 30.0  # times the root mean square error, what a single token may be off
DRAWS = 128  # of tokens at which an error is measured: 2 standard errors are about a third
SHARE, USUAL = 0.05, 400  # of the cost so far and of 400 evaluations, what may be tried in vain
TINY = 1e-300
COUNTS = ("rank", "capacity", "first", "last", "refreshes", "repeats", "vain", "pairs")


class Ranks:
    """Whether a run may use a `LowRankSum`, and with which pivots.

    Between two segments `choose` looks at the tokens. Pivots are found by the largest residual, and
    their number is the smallest of `SIZES` at which the field is off by at most what is left of
    `budget`, measured against the sum over all pairs at a `_Sample` of tokens; none, if that many
    would not pay. At the end of the segment `holds` measures again, at the same tokens.

    **Error.** While clusters collapse the error ε falls by some 2.5 decades a unit of time, so that
    a segment adds its logarithmic mean, Δt (ε_0 − ε_1)/log(ε_0/ε_1), to the positions. A segment
    that adds more than half of what is left of the budget fails, and is to be done again with all
    pairs: all segments together stay within it.

    All this is a function of the tokens and of `state`: a resumed run decides as before.
    """

    def __init__(self, field: Field, measure: Points, base: Sum, budget: float):
        self.field, self.base, self.sum = field, base, base
        self.budget = budget  # of positions, over the whole run
        self.counts = dict.fromkeys(COUNTS, 0)
        self.error = 0.0  # gathered so far
        self.began = 0.0, 0.0  # time and error at the start of the segment
        self.sample: _Sample | None = None  # the tokens at which this segment is checked
        self.again = 0.0  # when the next attempt may succeed
        # On a GPU all pairs of tens of thousands of tokens take milliseconds, and pivots are found
        # on the host.
        plain = type(base) is Dense and jax.default_backend() == "cpu"
        large = dense_cost(measure.count, measure.dim, zonal=False) >= WORTH
        plain = plain and large and not is_traced(field, measure)
        kernel = _only_kernel(field, measure) if plain else None
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
        tolerance = max(min(self.left, limit), 1e-13)
        counts, was, self.sum = self.counts, self.counts["rank"], self.base
        if not self.possible or (not was and t < self.again):
            return self.base
        counts["rank"] = 0
        look = _Look(self.field, measure, t, real)
        most = min(look.most, 2 * next(s for s in SIZES if s >= was)) if was else look.most
        if not most or counts["vain"] > SHARE * (work + USUAL) * look.dense:
            return self.base
        hopeless = HOPELESS * tolerance
        pivots = look.find(most, enough=0.1 * tolerance, hopeless=hopeless)
        rank = len(pivots.indices)
        counts["pairs"] += rank * look.real
        counts["vain"] += look.cost_of_finding(rank)
        if pivots.traces[-1][1] > hopeless:
            return self.base
        self.sample = look.draw(pivots)
        counts["pairs"] += self.sample.rows.size * look.real
        columns = look.columns(pivots.indices)
        counts["pairs"] += look.matrices * rank * look.real
        sizes = [s for s in SIZES if s < rank] + [rank]
        errors = {rank: look.error(columns, rank, self.sample)}
        if not errors[rank] <= tolerance:
            counts["vain"] += look.cost_of_checking(rank)
            far = math.log10(min(errors[rank] / tolerance, 1 / tolerance))
            self.again = float(t) + far / DECADES / look.largest
            return self.base
        counts["vain"] -= look.cost_of_finding(rank)
        low, high = 0, len(sizes) - 1  # the answer lies between; `high` is known to be good
        while low < high:
            middle = (low + high) // 2
            errors[sizes[middle]] = look.error(columns, sizes[middle], self.sample)
            if errors[sizes[middle]] <= tolerance:
                high = middle
            else:
                low = middle + 1
        rank = sizes[high]
        self.began = t, errors[rank]
        counts["capacity"] = max(counts["capacity"], next(s for s in SIZES if s >= rank))
        counts |= {"rank": rank, "last": rank, "first": counts["first"] or rank}
        counts["refreshes"] += 1
        indices = np.zeros(counts["capacity"], int)
        indices[:rank] = pivots.indices[:rank]
        self.sum = LowRankSum(indices, rank)
        return self.sum

    def holds(self, measure: Points, t: float, limit: float = math.inf, real: int = 0) -> bool:
        """Whether the segment that ends here stayed within the budget."""
        if not isinstance(self.sum, LowRankSum):
            return True
        (start, first), (last, largest) = self.began, self._check(measure, t, real)
        added = (t - start) * largest * _mean(first, last)
        if added <= 0.5 * self.left and last <= max(limit, 1e-13):
            self.error += added
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
        look = _Look(self.field, measure, t, real)
        columns = look.columns(np.asarray(self.sum.pivots)[:rank])
        error = look.error(columns, rank, self.sample)
        rows = self.sample.rows.size + (1 + look.matrices) * rank
        self.counts["pairs"] += rows * look.real
        return error, look.largest

    def _refuse(self) -> bool:
        self.counts["repeats"] += 1
        self.counts["rank"], self.sum = 0, self.base
        return False

    def count(self, evaluations: int, tokens: int) -> None:
        """Enter the pairs behind the evaluations of a segment, with the sum in use."""
        pairs = tokens * (tokens + 1) // 2 if self.symmetric else tokens**2
        if isinstance(self.sum, LowRankSum):
            size = next(s for s in SIZES if s >= self.counts["rank"])
            pairs = self.sum.pairs(tokens, size, self.symmetric)
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


class _Sample(NamedTuple):
    """Tokens at which an error is measured, drawn with probabilities p in `DRAWS` draws."""

    rows: np.ndarray  # each once
    draws: np.ndarray  # how often it was drawn
    chance: np.ndarray  # p of one draw

    def mean_square(self, off: np.ndarray, count: int) -> float:
        """Σ_i off_i²/n over all `count` tokens, from those drawn, plus two standard errors.

        The estimator of Hansen & Hurwitz (Ann. Math. Stat. 14, 1943): the mean over draws of
        off²/(n p) is unbiased for any p > 0, and exact where p is proportional to off².
        """
        terms = off**2 / (count * self.chance)
        total = self.draws.sum()
        mean = float(self.draws @ terms / total)
        spread = float(self.draws @ (terms - mean) ** 2 / (total - 1))
        return mean + 2 * math.sqrt(spread / total)


class _Columns(NamedTuple):
    """Kernel columns of pivots at all tokens: exponentials that serve every smaller rank too."""

    pivots: np.ndarray
    left: np.ndarray  # G(place, pivot)
    right: np.ndarray  # G(token, pivot)


class _Look:
    """The tokens at one moment: what the field asks for there, and errors of answers to it."""

    largest = TINY  # norm of the longest vector of the field at the last error, before projection
    summed: tuple[np.ndarray, np.ndarray] | None = None  # the sums over all pairs at the sample

    def __init__(self, field: Field, measure: Points, t: Any, real: int):
        self.field, self.measure, self.t = field, measure, t
        self.real = real or measure.count
        self.kernel, self.values = jax.tree.map(np.asarray, _asked(field, measure, t))
        count, axes = self.kernel.right.shape
        self.matrices = 0 if is_symmetric(self.kernel) else 1  # besides that of the tokens
        self.dense = dense_cost(count, axes, not self.matrices)
        paying = [s for s in SIZES if low_rank_cost(count, s, axes) <= PAYS * self.dense]
        self.most = max(paying, default=0) if self.dense >= WORTH else 0
        half = lambda x: 0.5 * self.kernel.beta * np.sum(x * x, axis=1)
        self.left, self.right = half(self.kernel.left), half(self.kernel.right)
        heavy = self.kernel.column + self.right
        self.top = np.max(heavy)
        self.weights = np.exp(heavy - self.top)

    def find(self, most: int, **limits: float) -> Pivots:
        right, beta = self.kernel.right[: self.real], float(self.kernel.beta)
        return find_pivots(right, beta, self.weights[: self.real], most, **limits)

    def cost_of_finding(self, rank: int) -> int:
        """In microseconds, as `dense`."""
        return int(low_rank_cost(self.real, rank, 0) + 1e-4 * self.real * rank**2)

    def cost_of_checking(self, rank: int) -> int:
        """Of one error, in microseconds."""
        share = 2 * DRAWS / len(self.weights)
        return int(share * self.dense + low_rank_cost(self.real, rank, 0))

    def draw(self, pivots: Pivots) -> _Sample:
        """The tokens where an answer through these pivots, or the first of them, may be off.

        With places and tokens the same an error is at most √R_ii times what depends little on i
        (see `LowRankSum`), so that half of the draws go by R_ii, averaged over the ranks in
        question; the other half go evenly.
        """
        chance = np.full(self.real, 1 / self.real)
        if not self.matrices:
            rest = [r / r.sum() for r in pivots.residuals.values() if r.sum() > 0]
            chance = 0.5 * (chance + np.mean(rest, axis=0)) if rest else chance
        # One draw in each of `DRAWS` equal parts of [0, 1], the same in every run.
        parts = (np.arange(DRAWS) + np.random.default_rng(0).random(DRAWS)) / DRAWS
        drawn = np.minimum(np.searchsorted(np.cumsum(chance), parts), self.real - 1)
        rows, draws = np.unique(drawn, return_counts=True)
        return _Sample(rows, draws, chance[rows])

    def columns(self, pivots: np.ndarray) -> _Columns:
        kernel = self.kernel
        places, half = kernel.beta * kernel.right[pivots].T, self.right[pivots]
        gaussian = lambda rows, own: np.exp(rows @ places - own[:, None] - half)
        right = gaussian(kernel.right, self.right)
        return _Columns(pivots, gaussian(kernel.left, self.left) if self.matrices else right, right)

    def error(self, columns: _Columns, rank: int, sample: _Sample) -> float:
        """How far the field is off through the first `rank` pivots, before projection.

        Root mean square over tokens of ‖a_i − â_i‖, relative to max‖a_i‖: the norm in which the
        stepper holds its own error. A single token may be off by `LONELY` times as much. ∞ if any
        token's answer is NaN.
        """
        rows = sample.rows
        answer = self._attended(columns, rank)
        exact = tuple(part.copy() for part in answer)
        exact[0][rows], exact[1][rows] = self._summed(sample)
        got, expected = self._given(*answer), self._given(*exact)
        self.largest = max(float(np.nanmax(np.linalg.norm(expected, axis=1))), TINY)
        off = np.linalg.norm(got - expected, axis=1)[rows]
        if not np.isfinite(got).all():
            return math.inf
        spread = max(math.sqrt(sample.mean_square(off, self.real)), np.max(off) / LONELY)
        return float(spread / self.largest)

    def _summed(self, sample: _Sample) -> tuple[np.ndarray, np.ndarray]:
        """log of the mass and mean of the values over all tokens, at those of the sample."""
        if self.summed is None:
            kernel, rows = self.kernel, sample.rows
            logits = kernel.beta * (kernel.left[rows] @ kernel.right.T) + kernel.column
            top = np.max(logits, axis=1)
            held = np.exp(logits - top[:, None]) @ np.c_[np.ones(len(self.weights)), self.values]
            log_mass = top + np.log(held[:, 0]) + (0 if kernel.row is None else kernel.row[rows])
            self.summed = log_mass, held[:, 1:] / held[:, :1]
        return self.summed

    def _given(self, log_mass: np.ndarray, mean: np.ndarray) -> np.ndarray:
        given = _Given(jnp.asarray(log_mass), jnp.asarray(mean))
        return np.asarray(_drift(self.field, self.measure, self.t, given))[: self.real]

    def _attended(self, columns: _Columns, rank: int) -> tuple[np.ndarray, np.ndarray]:
        """What `LowRankSum` gives, without a compilation."""
        left, right = columns.left[:, :rank], columns.right[:, :rank]
        inner = right[columns.pivots[:rank]] + NUGGET * np.eye(rank)
        mass = self.weights[:, None]
        held = right.T @ np.concatenate([mass, mass * self.values], axis=1)
        total = left @ scipy.linalg.cho_solve(scipy.linalg.cho_factor(inner, lower=True), held)
        with np.errstate(invalid="ignore", divide="ignore"):
            log_mass = self.top + self.left + np.log(total[:, 0])
            mean = total[:, 1:] / total[:, :1]
        row = self.kernel.row
        return (log_mass if row is None else log_mass + row), mean


class _Given(Sum):
    """An answer that is known."""

    log_mass: Float[Array, " m"]
    mean: Float[Array, "m v"]

    @property
    def name(self) -> str:
        return "given"

    def attend(self, kernel: Kernel, values: Float[Array, "n v"]) -> Attended:
        return self.log_mass, self.mean


class _Recorder(Sum):
    """Records what a field asks for, and answers with zeros."""

    asked: list[tuple[Kernel, Array]] = eqx.field(static=True)

    @property
    def name(self) -> str:
        return "recorder"

    def attend(self, kernel: Kernel, values: Float[Array, "n v"]) -> Attended:
        self.asked.append((kernel, values))
        zeros = jnp.zeros((kernel.left.shape[0], values.shape[1]), values.dtype)
        return zeros[:, 0], zeros


def _mean(first: float, last: float) -> float:
    """The mean of an error that falls, or grows, like an exponential from first to last."""
    if not (math.isfinite(last) and min(first, last) > 0):
        return max(first, last)
    ratio = math.log(first / last)
    return (first - last) / ratio if abs(ratio) > 1e-6 else first


def _here(measure: Points) -> Places:
    return Places(measure.points, measure.positions, own=True)


@eqx.filter_jit
def _drift(field: Field, measure: Points, t: Any, sum: Sum) -> Array:
    return field.drift(measure, _here(measure), t, sum)


@eqx.filter_jit
def _asked(field: Field, measure: Points, t: Any) -> Any:
    recorder = _Recorder([])
    field.drift(measure, _here(measure), t, recorder)
    (only,) = recorder.asked
    return only


def _only_kernel(field: Field, measure: Points) -> Kernel | None:
    """The kernel of a field that asks for one mean, without mask or bias; abstract."""
    recorder = _Recorder([])
    try:
        eqx.filter_eval_shape(
            lambda f, m: f.drift(m, _here(m), jnp.asarray(0.0), recorder), field, measure
        )
    except ValueError:
        return None  # needs more of its sum than means of exponentials
    # Inside a loop of its own a field asks for more than is recorded here.
    if len(recorder.asked) != 1 or _loops(field, measure):
        return None
    kernel = recorder.asked[0][0]
    return None if kernel.biases else kernel


def _loops(field: Field, measure: Points) -> bool:
    """Whether the field evaluates its means inside a loop."""
    drift = lambda m: field.drift(m, _here(m), jnp.asarray(0.0), _Recorder([]))
    names = {str(step.primitive) for step in jax.make_jaxpr(drift)(measure).eqns}
    return bool(names & {"scan", "while", "cond"})
