"""How far the field is off when its mean goes through a few tokens, measured at a sample of all."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core.blas import one_thread
from metastable.core.numerics import jax, jnp
from metastable.fields import Field
from metastable.fields.field import Places
from metastable.fields.sums import Kernel, Sum
from metastable.fields.sums.calibration import costs_of, sum_cost
from metastable.fields.sums.costs import dense_cost, low_rank_cost, pivots_cost
from metastable.fields.sums.kernel import Attended
from metastable.fields.sums.low_rank import NUGGET, LowRankSum, is_symmetric
from metastable.fields.sums.pivots import SIZES, Pivots, search_pivots
from metastable.measures import Points

WORTH = 2500.0  # microseconds of a dense evaluation; below, compiling once more costs more
PAYS = 0.75  # of the dense cost
STAGES = (256, 512, 1024, 2048)  # numbers of pivots that are tried before more are chosen
LONELY = 30.0  # times the root mean square error, what a single token may be off
DRAWS = 128  # of tokens at which an error is measured: 2 standard errors are about a third
LITTLE = 2e9  # multiplications
TINY = 1e-300


class Sample(NamedTuple):
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


class Columns(NamedTuple):
    """Kernel columns of pivots at all tokens: exponentials that serve every smaller rank too.

    A GPU makes them anew for each rank, in arrays of one shape.
    """

    pivots: np.ndarray
    left: np.ndarray | None = None  # G(pivot, place)
    right: np.ndarray | None = None  # G(pivot, token)


class Look:
    """The tokens at one moment: what the field asks for there, and errors of answers to it."""

    largest = TINY  # norm of the longest vector of the field at the last error, before projection
    summed: tuple[np.ndarray, np.ndarray] | None = None  # the sums over all pairs at the sample

    def __init__(self, field: Field, measure: Points, t: Any, real: int):
        self.field, self.measure, self.t = field, measure, t
        self.real = real or measure.count
        # NumPy compiles nothing; on a GPU, where tokens are many, they stay.
        self.np: Any = np if _on_host() else jnp
        self.kernel, self.values = jax.tree.map(self.np.asarray, _asked(field, measure, t))
        count, axes = self.kernel.right.shape
        self.matrices = 0 if is_symmetric(self.kernel) else 1  # besides that of the tokens
        self.device = costs_of(jax.devices()[0])
        self.dense = dense_cost(count, axes, not self.matrices, self.device)
        cost = lambda size: low_rank_cost(count, size, axes, self.device)
        paying = [s for s in SIZES if cost(s) <= PAYS * self.dense]
        self.most = max(paying, default=0) if self.dense >= WORTH else 0
        half = lambda x: np.asarray(0.5 * self.kernel.beta * self.np.sum(x * x, axis=1))
        self.left, self.right = half(self.kernel.left), half(self.kernel.right)
        heavy = np.asarray(self.kernel.column) + self.right
        self.top = np.max(heavy)
        self.weights = np.exp(heavy - self.top)

    def threads(self) -> AbstractContextManager[None]:
        """Products are left to one thread where there is little to do, see `one_thread`."""
        few = self.real * self.most**2 < LITTLE
        return one_thread("numpy") if few else nullcontext()

    def search(self, most: int, **limits: float) -> Iterator[Pivots]:
        """Pivots, at each number of `STAGES` and at last; a GPU has all before one is tried."""
        right, beta = self.kernel.right, float(self.kernel.beta)
        stages = STAGES if _on_host() else ()
        asked = {"real": self.real, "stages": stages, **limits}
        return search_pivots(right, beta, self.weights, most, **asked)

    def cost_of_finding(self, rank: int) -> int:
        """In microseconds, as `dense`."""
        return int(pivots_cost(self.real, rank, self.device))

    def cost_of_checking(self, rank: int) -> int:
        """Of one error, in microseconds."""
        share = 2 * DRAWS / len(self.weights)
        return int(share * self.dense + low_rank_cost(self.real, rank, 0, self.device))

    def draw(self, pivots: Pivots) -> Sample:
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
        self.summed = None
        return Sample(rows, draws, chance[rows])

    def columns(self, pivots: np.ndarray, right: np.ndarray | None = None) -> Columns:
        """`right` where they are known."""
        if not _on_host():
            return Columns(pivots)
        kernel = self.kernel
        places, half = kernel.beta * kernel.right[pivots], self.right[pivots]
        places = np.concatenate([places, half[:, None], np.ones_like(half)[:, None]], axis=1)

        def own(rows: np.ndarray, square: np.ndarray) -> np.ndarray:
            ones = np.ones(self.real)
            rows = np.vstack([rows[: self.real].T, -ones, -square[: self.real]])
            near = places @ rows
            return np.exp(near, out=near)

        right = own(kernel.right, self.right) if right is None else right
        return Columns(pivots, own(kernel.left, self.left) if self.matrices else right, right)

    def error(self, columns: Columns, rank: int, sample: Sample) -> float:
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

    def _summed(self, sample: Sample) -> tuple[np.ndarray, np.ndarray]:
        """log of the mass and mean of the values over all tokens, at those of the sample."""
        if self.summed is None:
            kernel, rows = self.kernel, sample.rows
            places = kernel.beta * kernel.left[np.resize(rows, DRAWS)]  # always of one shape
            logits = places @ kernel.right.T + kernel.column
            top = self.np.max(logits, axis=1)
            near = self.np.exp(logits - top[:, None])
            top, mass, held = (
                np.asarray(each)[: len(rows)]
                for each in (top, self.np.sum(near, axis=1), near @ self.values)
            )
            log_mass = top + np.log(mass)
            log_mass += 0 if kernel.row is None else np.asarray(kernel.row)[rows]
            self.summed = log_mass, held / mass[:, None]
        return self.summed

    def _given(self, log_mass: np.ndarray, mean: np.ndarray) -> np.ndarray:
        given = _Given(jnp.asarray(log_mass), jnp.asarray(mean))
        return np.asarray(_drift(self.field, self.measure, self.t, given))[: self.real]

    def _attended(self, columns: Columns, rank: int) -> tuple[np.ndarray, np.ndarray]:
        """What `LowRankSum` gives; on a CPU without a compilation."""
        if columns.left is None or columns.right is None:
            pivots = np.zeros(self.most, int)
            pivots[:rank] = columns.pivots[:rank]
            answer = _attend(LowRankSum(pivots, rank), self.kernel, self.values)
            return np.asarray(answer[0]), np.asarray(answer[1])
        left, right = columns.left[:rank], columns.right[:rank]
        inner = right[:, columns.pivots[:rank]] + NUGGET * np.eye(rank)
        mass = self.weights[: self.real, None]
        held = right @ np.concatenate([mass, mass * self.values[: self.real]], axis=1)
        total = np.ones((len(self.left), held.shape[1]))  # of padding: anything
        total[: self.real] = left.T @ _solve(inner, held)
        with np.errstate(invalid="ignore", divide="ignore"):
            log_mass = self.top + self.left + np.log(total[:, 0])
            mean = total[:, 1:] / total[:, :1]
        row = self.kernel.row
        return (log_mass if row is None else log_mass + row), mean


def is_slow(sum: Sum, measure: Points) -> bool:
    """Whether an evaluation takes so long that a faster one is worth its compilation."""
    return sum_cost(sum, measure.count, measure.dim, zonal=False) >= WORTH


def _solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """By a Cholesky factor; NaN where there is none.

    In NumPy alone: the threads of SciPy's BLAS would fight with those of NumPy's over the cores.
    """
    try:
        lower = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return np.full_like(right, np.nan)
    x, parts = right.copy(), [slice(k, k + 64) for k in range(0, len(right), 64)]
    for part in parts:
        x[part] -= lower[part, : part.start] @ x[: part.start]
        x[part] = np.linalg.solve(lower[part, part], x[part])
    for part in reversed(parts):
        x[part] -= lower[part.stop :, part].T @ x[part.stop :]
        x[part] = np.linalg.solve(lower[part, part].T, x[part])
    return x


def _on_host() -> bool:
    return jax.default_backend() == "cpu"


@eqx.filter_jit
def _attend(sum: Sum, kernel: Kernel, values: Array) -> Attended:
    return sum.attend(kernel, values)


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


def only_kernel(field: Field, measure: Points) -> Kernel | None:
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
