"""When the mean over tokens goes through a few of them: decided between segments of a run."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import numpy as np
import scipy.linalg
import scipy.special
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
SAMPLE = 64  # tokens looked at inside a segment
SHARE, USUAL = 0.05, 400  # of the cost so far and of 400 evaluations, what may be tried in vain
COUNTS = ("rank", "capacity", "first", "last", "refreshes", "repeats", "vain", "pairs")


class Ranks:
    """Whether a run may use a `LowRankSum`, and with which pivots.

    Between two segments `choose` looks at the tokens. Pivots are found by the largest residual, and
    their number is the smallest of `SIZES` at which the field is off by at most what is left of
    `budget`, measured at all tokens against the sum over all pairs; none, if that many would not
    pay. At the end of the segment `holds` measures again. Both measurements are one dense
    evaluation, shared by the segments that meet there.

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
        self.again = 0.0  # when the next attempt may succeed
        self.look: _Look | None = None
        # On a GPU all pairs of tens of thousands of tokens take milliseconds, and pivots are found
        # on the host.
        plain = type(base) is Dense and jax.default_backend() == "cpu"
        large = dense_cost(measure.count, measure.dim, zonal=False) >= WORTH
        plain = plain and large and not is_traced(field, measure)
        kernel = _only_kernel(field, measure) if plain else None
        self.possible = kernel is not None
        self.symmetric = kernel is None or is_symmetric(kernel)
        self.repeated = False  # whether the next reference was counted before the run was resumed

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
        look = self._look(measure, t, real)
        most = min(look.most, 2 * next(s for s in SIZES if s >= was)) if was else look.most
        if not most or counts["vain"] > SHARE * (work + USUAL) * look.dense:
            return self.base
        hopeless = HOPELESS * tolerance
        pivots, trace = look.find(most, enough=0.1 * tolerance, hopeless=hopeless)
        counts["vain"] += look.cost_of_finding(len(pivots))
        if trace > hopeless:
            return self.base
        self._refer(look)
        sizes = [s for s in SIZES if s < len(pivots)] + [len(pivots)]
        errors = {sizes[-1]: look.error(pivots)}
        if not errors[sizes[-1]] <= tolerance:
            counts["vain"] += int(look.dense)
            far = math.log10(min(errors[sizes[-1]] / tolerance, 1 / tolerance))
            self.again = float(t) + far / DECADES / look.largest
            return self.base
        counts["vain"] -= look.cost_of_finding(len(pivots))
        low, high = 0, len(sizes) - 1  # the answer lies between; `high` is known to be good
        while low < high:
            middle = (low + high) // 2
            errors[sizes[middle]] = look.error(pivots[: sizes[middle]])
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
        indices[:rank] = pivots[:rank]
        self.sum = LowRankSum(indices, rank)
        return self.sum

    def holds(self, measure: Points, t: float, limit: float = math.inf, real: int = 0) -> bool:
        """Whether the segment that ends here stayed within the budget."""
        if not isinstance(self.sum, LowRankSum):
            return True
        look = self._look(measure, t, real)
        self._refer(look)
        (start, first), last = self.began, look.error(self._pivots)
        added = (t - start) * look.largest * _mean(first, last)
        if added <= 0.5 * self.left and last <= max(limit, 1e-13):
            self.error += added
            return True
        return self._refuse()

    def is_near(self, measure: Points, t: float) -> bool:
        """Whether the error is no larger here than what was left, at a sample of tokens."""
        if not isinstance(self.sum, LowRankSum):
            return True
        look = _Look(self.field, measure, t, measure.count)
        self.counts["pairs"] += SAMPLE * look.real
        near = look.sampled_error(self._pivots) <= max(self.left, 1e-13)
        return near or self._refuse()

    @property
    def _pivots(self) -> np.ndarray:
        assert isinstance(self.sum, LowRankSum)
        return np.asarray(self.sum.pivots)[: self.counts["rank"]]

    def _refuse(self) -> bool:
        self.counts["repeats"] += 1
        self.counts["rank"], self.sum = 0, self.base
        return False

    def count(self, evaluations: int, tokens: int) -> None:
        """Enter the pairs behind the evaluations of a segment, with the sum in use."""
        pairs = tokens * (tokens + 1) // 2 if self.symmetric else tokens**2
        if isinstance(self.sum, LowRankSum):
            size = next(s for s in SIZES if s >= self.counts["rank"])
            pairs = size * (tokens + size)
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
        self.look, self.sum = None, self.base
        self.repeated = self.counts["rank"] > 0

    def _look(self, measure: Points, t: Any, real: int) -> _Look:
        last = self.look
        if last is None or not np.array_equal(last.measure.points, measure.points):
            self.look = last = _Look(self.field, measure, t, real or measure.count)
        return last

    def _refer(self, look: _Look) -> None:
        if look.expected is None:
            look.refer(self.base)
            self.counts["pairs"] += 0 if self.repeated else look.pairs
            self.repeated = False


class _Look:
    """The tokens at one moment: what the field asks for there, and errors of answers to it."""

    expected: np.ndarray | None = None  # the field over all pairs

    def __init__(self, field: Field, measure: Points, t: Any, real: int):
        self.field, self.measure, self.t, self.real = field, measure, t, real
        self.kernel, self.values = jax.tree.map(np.asarray, _asked(field, measure, t))
        count, axes = self.kernel.right.shape
        symmetric = is_symmetric(self.kernel)
        self.dense = dense_cost(count, axes, symmetric)
        self.pairs = count * (count + 1) // 2 if symmetric else count**2
        paying = [s for s in SIZES if low_rank_cost(count, s, axes) <= PAYS * self.dense]
        self.most = max(paying, default=0) if self.dense >= WORTH else 0
        half = lambda x: 0.5 * self.kernel.beta * np.sum(x * x, axis=1)
        self.left, self.right = half(self.kernel.left), half(self.kernel.right)
        heavy = self.kernel.column + self.right
        self.top = np.max(heavy)
        self.weights = np.exp(heavy - self.top)

    def find(self, most: int, **limits: float) -> tuple[np.ndarray, float]:
        """Pivots, and the mean residual they leave."""
        right, beta = self.kernel.right[: self.real], float(self.kernel.beta)
        found = find_pivots(right, beta, self.weights[: self.real], most, **limits)
        return found.pivots, found.traces[-1][1]

    def cost_of_finding(self, rank: int) -> int:
        """In microseconds, as `dense`."""
        return int(low_rank_cost(self.real, rank, 0) + 1e-4 * self.real * rank**2)

    @property
    def largest(self) -> float:
        """Norm of the longest vector of the field, before projection."""
        assert self.expected is not None
        return float(np.max(np.linalg.norm(self.expected[: self.real], axis=1)))

    def refer(self, base: Sum) -> None:
        self.expected = np.asarray(_drift(self.field, self.measure, self.t, base))

    def error(self, pivots: np.ndarray) -> float:
        """How far the field is off, before projection, over all tokens."""
        assert self.expected is not None
        got, rows = self._given(*self._attended(pivots)), slice(self.real)
        return _off(got[rows], self.expected[rows])

    def sampled_error(self, pivots: np.ndarray) -> float:
        """The same over `SAMPLE` tokens, evenly spaced."""
        rows = np.arange(SAMPLE) * self.real // SAMPLE
        log_mass, mean = self._attended(pivots)
        kernel = self.kernel
        logits = kernel.beta * (kernel.left[rows] @ kernel.right.T) + kernel.column
        exact = log_mass.copy(), mean.copy()
        exact[0][rows] = scipy.special.logsumexp(logits, axis=1)
        exact[1][rows] = np.exp(logits - exact[0][rows, None]) @ self.values
        if kernel.row is not None:
            exact[0][rows] += kernel.row[rows]
        return _off(self._given(log_mass, mean)[rows], self._given(*exact)[rows])

    def _given(self, log_mass: np.ndarray, mean: np.ndarray) -> np.ndarray:
        given = _Given(jnp.asarray(log_mass), jnp.asarray(mean))
        return np.asarray(_drift(self.field, self.measure, self.t, given))

    def _attended(self, pivots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What `LowRankSum` gives, without a compilation."""
        kernel = self.kernel
        places = kernel.beta * kernel.right[pivots].T
        half = self.right[pivots]
        right = np.exp(kernel.right @ places - self.right[:, None] - half)
        left = (
            right
            if is_symmetric(kernel)
            else np.exp(kernel.left @ places - self.left[:, None] - half)
        )
        inner = right[pivots] + NUGGET * np.eye(len(pivots))
        mass = self.weights[:, None]
        held = right.T @ np.concatenate([mass, mass * self.values], axis=1)
        total = left @ scipy.linalg.cho_solve(scipy.linalg.cho_factor(inner, lower=True), held)
        with np.errstate(invalid="ignore", divide="ignore"):
            log_mass = self.top + self.left + np.log(total[:, 0])
            mean = total[:, 1:] / total[:, :1]
        return (log_mass if kernel.row is None else log_mass + kernel.row), mean


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


def _off(got: np.ndarray, expected: np.ndarray) -> float:
    """Root mean square over tokens of ‖a_i − â_i‖, relative to max‖a_i‖; ∞ for NaN.

    That is the norm in which the stepper holds its own error. A single token may be off by
    `LONELY` times as much.
    """
    off = np.linalg.norm(got - expected, axis=1)
    if not np.isfinite(off).all():
        return math.inf
    spread = max(np.sqrt(np.mean(off**2)), np.max(off) / LONELY)
    return float(spread / np.max(np.linalg.norm(expected, axis=1)))


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
    # Inside a loop of its own a field asks for more than is seen here.
    if len(recorder.asked) != 1 or _loops(field, measure):
        return None
    kernel = recorder.asked[0][0]
    return None if kernel.biases else kernel


def _loops(field: Field, measure: Points) -> bool:
    """Whether the field evaluates its means inside a loop."""
    drift = lambda m: field.drift(m, _here(m), jnp.asarray(0.0), _Recorder([]))
    names = {str(step.primitive) for step in jax.make_jaxpr(drift)(measure).eqns}
    return bool(names & {"scan", "while", "cond"})
