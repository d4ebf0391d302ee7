"""Tokens that merge as they collapse, from many to the one final cluster."""

from __future__ import annotations

import math
from typing import Any

import diffrax
import equinox as eqx
import numpy as np
from jaxtyping import Array
from scipy.spatial import KDTree

from metastable.core.blas import one_thread
from metastable.core.numerics import is_traced, jnp
from metastable.core.outcome import Outcome
from metastable.fields import Field, SelfAttention
from metastable.fields.attention import act
from metastable.fields.sums import Sum, choose_sum
from metastable.flows.mergers import Ledger, log_difference
from metastable.flows.solvers.arclength import Motion, Pace, State, advance
from metastable.flows.solvers.frames import Frame, KeptFrames, MergingState
from metastable.flows.solvers.ranks import Ranks
from metastable.flows.solvers.solver import Choices, MergerSolver
from metastable.flows.solvers.steps import evaluations_per_step
from metastable.flows.steppers import Adaptive, Merging
from metastable.measures import Points

FEW = 512  # so few tokens are summed pair by pair
CROWD = 512  # beyond this many tokens, boxes come before pairs
SMALLEST = 32  # up to so many share one compilation
FLOOR = 1e-7  # typical speed below which only the sum over pairs has digits left
FLAT = 8  # axes in which near tokens are looked for
DIGITS = 1e-5  # of the typical speed, the most that a low-rank sum may be off
MANY_STEPS, FEW_STEPS = 5, 500  # tried between two looks at many, and at few, tokens


class MergingFlow(MergerSolver):
    """A merging run: the tokens left, the clock, the mergers and frames so far; see `Merging`.

    Kept frames are at least `spacing` apart in log t, but for mergers and times asked for. Each
    call of `advance` also pauses there, and its frame shows the tokens where it paused.
    """

    def __init__(self, measure: Points, field: Field, horizon: float, how: Choices):
        stepper: Merging = how.stepper
        self.field: SelfAttention = _checked_field(measure, field)
        _check_horizon(horizon, self.field)
        self.sum: Sum = how.sum or choose_sum(measure, field, 1e-12)
        # Shapes are checked here, abstractly, before anything is allocated or compiled.
        eqx.filter_eval_shape(lambda m, f: f.velocity(m, sum=self.sum), measure, field)
        self.stepper = stepper.stepper
        self.sharpness = _sharpness(self.field, measure.dim)
        self.radius = 1e-4 / self.sharpness if stepper.radius is None else stepper.radius
        _check_stepper(self.stepper, self.radius * self.sharpness)
        self.measure = measure
        self.frames = KeptFrames(how.frames, float(horizon), measure, how.spacing)
        # A value matrix moves a single token too: such a run ends at its horizon, if it has one.
        value = self.field.value
        self.drifts = horizon < math.inf and value is not None and value.ndim > 0
        self.many = measure.count > FEW
        self.ranks = None
        if self.many and how.sum is None:
            self.ranks = Ranks(self.field, measure, self.sum, budget=self.stepper.atol)
        self.speed = 0.0  # typical speed at the last look; 0 before the first

    def start(self) -> None:
        self.x = np.asarray(self.measure.points)
        self.ledger = Ledger(np.asarray(self.measure.weights))
        self.log_epoch = -math.inf  # the last merger; the wait since then belongs to the pace
        self.pace = Pace(0.1 * math.sqrt(len(self.x)) / self.sharpness, False, -math.inf)
        self.exact = False
        self.looks = self.steps = self.attempts = self.evaluations = 0
        self.whole = self._standing(-math.inf)  # the last whole state

    @property
    def log_time(self) -> float:
        return float(np.logaddexp(self.log_epoch, self.pace.log_wait))

    @property
    def share(self) -> float:
        return 1 - math.log(len(self.x)) / math.log(max(self.measure.count, 2))

    def _standing(self, log_time: float) -> MergingState:
        return MergingState(self.x, self.ledger.masses.copy(), self.ledger.names.copy(), log_time)

    def advance(self) -> list[Frame]:
        """Move until tokens merge or a frame is due, and see to both."""
        self.exact |= len(self.x) <= FEW
        state = self._move()
        speed = float(state.log_speed)
        if not self.exact and not self._is_fast(speed):
            self.exact = True
            return []
        if math.isnan(speed):
            self._close("blow_up", "Tokens left the range of floating point after {}.")
            return []
        reached, merged = bool(state.reached), self._merge(state)
        self.whole = x, masses, names, log_time = self._standing(self.log_time)
        self.frames.offer(self.whole, reached=reached, merged=merged)
        if self.frames.complete:
            self._close("done", "The run reached its horizon.")
        elif len(self.x) == 1 and not self.drifts:
            self._close("done", "All tokens are one since {}.", still=True)
        elif speed == -math.inf and not merged:
            message = "No token moves any more: at {} all speeds are rounding."
            self._close("done", message, still=True)
        elif self.attempts + self.looks >= self.stepper.max_steps:
            remedy = "Raise max_steps, loosen the tolerance, or shorten the horizon."
            self._close("step_limit", f"The solver tried {self.attempts} steps to {{}}. {remedy}")
        if log_time == -math.inf:
            return []
        time = math.exp(log_time) if log_time < 709 else math.inf
        return [Frame(time, log_time, Points.unchecked(x, masses), names)]

    def _move(self) -> State:
        count, dim = self.x.shape
        size = padded(count, self.measure.count)
        weights = jnp.asarray(np.pad(self.ledger.masses, (0, size - count)))
        padding = np.repeat(np.eye(1, dim), size - count, axis=0)
        x = jnp.asarray(np.concatenate([self.x, padding]))
        while True:
            sum = None if self.exact else self._choose(x, weights)
            state = self._step(x, weights, sum)
            if self._holds(state, weights, sum):
                break
        self.x = np.asarray(state.x)[:count]
        self.pace = Pace(*(leaf.item() for leaf in state.pace))
        self.speed = math.exp(self._log_typical(float(state.log_speed)))
        self.steps += int(state.steps)
        return state

    def _choose(self, x: Array, weights: Array) -> Sum:
        """The sum for the next look, while there are many tokens."""
        if self.ranks is None or not self.speed > 0:
            return self.sum
        at = Points.unchecked(x, weights, massless=False)
        time, limit = math.exp(min(self.log_time, 700.0)), DIGITS * self.speed
        return self.ranks.choose(at, time, self.evaluations, limit, real=len(self.x))

    def _holds(self, state: State, weights: Array, sum: Sum | None) -> bool:
        """Whether the sum was good enough until here."""
        if self.ranks is None or sum is not self.ranks.sum:
            return True
        at = Points.unchecked(state.x, weights, massless=False)
        limit = DIGITS * math.exp(self._log_typical(float(state.log_speed)))
        now = float(np.logaddexp(self.log_epoch, state.pace.log_wait))
        return self.ranks.holds(at, math.exp(min(now, 700.0)), limit, real=len(self.x))

    def _step(self, x: Array, weights: Array, sum: Sum | None) -> State:
        """Move the padded tokens until the next look."""
        motion = Motion(
            field=self.field,
            weights=weights,
            sharpness=jnp.asarray(self.sharpness),
            radius=jnp.asarray(self.radius),
            stepper=self.stepper,
            sum=sum,
        )
        # The first look comes before the first step: tokens may start in one place.
        most = 0 if self.looks == 0 else FEW_STEPS if self.exact else MANY_STEPS
        pause = self.frames.log_mark
        if self.ranks is not None and not self.exact and self.log_time < self.ranks.log_again:
            pause = min(pause, self.ranks.log_again)
        times = self.frames.log_target, pause
        stops = (log_difference(log_t, self.log_epoch) for log_t in times)
        pace = Pace(*map(jnp.asarray, self.pace))
        with one_thread("scipy"):
            state = advance(motion, x, pace, *map(jnp.asarray, (*stops, most)))
            evaluations = 1 + int(state.attempts) * evaluations_per_step(self.stepper.solver)
        self.looks += 1
        self.attempts += int(state.attempts)
        self.evaluations += evaluations
        if self.ranks is not None and sum is not None:
            self.ranks.count(evaluations, x.shape[0])
        return state

    def _log_typical(self, log_speed: float) -> float:
        """log of the root mean square speed, in units of the fastest; −∞ for NaN."""
        unit = 0.0 if self.field.normalized else self.sharpness
        typical = log_speed - unit - 0.5 * math.log(len(self.x))
        return typical if typical == typical else -math.inf

    def _is_fast(self, log_speed: float) -> bool:
        """Whether the typical speed stands clear of the error of the sum; False for NaN."""
        return self._log_typical(log_speed) > math.log(FLOOR)

    def _merge(self, state: State) -> bool:
        direction = np.asarray(state.direction)[: len(self.x)]
        label = find_collapsed(self.x, direction, self.ledger.masses, self.radius, self.looks)
        if label.max() + 1 == len(self.x):
            return False
        now, wait = self.log_time, self.pace.log_wait
        self.x = merge_collapsed(self.x, label, self.ledger, now, wait)
        # Among few tokens the fast scale went with the merger: the next to move sets out afresh.
        step, by_time = (0.1 / self.sharpness, False) if self.exact else self.pace[:2]
        self.log_epoch, self.pace = now, Pace(step, by_time, -math.inf)
        return True

    def end(self) -> None:
        self._close("interrupted", "Interrupted at {}; the frames so far are kept.")

    def drop(self, count: int) -> None:
        """Frames that were shown are not those that are kept: nothing to forget."""

    def _close(self, name: str, message: str, *, still: bool = False) -> None:
        """Close the run; `{}` in the message stands for the time."""
        now = self.whole[-1]
        moment = f"t = {math.exp(now):.6g}" if now < 709 else f"log t = {now:.6g}"
        self.outcome = Outcome(name, message.format(moment))
        self.frames.close(self.whole, still=still)

    def statistics(self) -> dict[str, Any]:
        summed = self.sum.name if self.ranks is None else self.ranks.name
        return {
            "steps": self.steps,
            "rejected": self.attempts - self.steps,
            "evaluations": self.evaluations,
            "sum": f"{summed}, then exact pairs" if self.many else "exact pairs",
            "stepper": self.stepper.name,
            "radius": self.radius,
            "max_norm_drift": self.norm_drift(),
            **({} if self.ranks is None else self.ranks.statistics()),
        }


def padded(count: int, most: int) -> int:
    """Rows of the arrays that hold `count` tokens of a run that started with `most`.

    Few sizes, so that little is compiled; never more than the start needs, rounded up to four
    binary digits: pairs of padding cost as much as others.

    >>> [padded(count, 20_000) for count in (20_000, 15_000, 700, 3)]
    [20480, 16384, 2048, 32]
    >>> padded(600, 600)
    640
    """
    size = SMALLEST
    while size < count:
        size *= 4 if size < 4 * CROWD else 2
    step = 2 ** max(most.bit_length() - 4, 0)
    return min(size, -(-most // step) * step) if most > CROWD else size


def _checked_field(measure: Points, field: Field) -> SelfAttention:
    if is_traced(measure, field):
        raise ValueError(
            "merging cannot be traced by jit, grad or vmap: use another stepper than Merging(...)."
        )
    if not isinstance(field, SelfAttention) or field.position:
        raise ValueError(
            f"merging needs a SelfAttention field without mask or positions; got {field!r}: use "
            "another stepper."
        )
    if not measure.on_sphere:
        raise ValueError(
            "merging needs tokens on the sphere; got tokens in R^d: use Hardmax(...) or another "
            "stepper."
        )
    if np.min(measure.weights) <= 0:
        raise ValueError("merging needs positive weights; got a token of weight 0: drop it.")
    return field


def _check_horizon(horizon: float, field: SelfAttention) -> None:
    if not horizon > 0:
        raise ValueError(f"horizon must be > 0; got {horizon}: math.inf ends at one cluster.")
    value = field.value
    repels = value is not None and value.ndim == 0 and float(value) <= 0
    if math.isinf(horizon) and repels:
        raise ValueError(f"horizon must be finite where tokens never merge; got {field!r}.")


def _check_stepper(stepper: Adaptive, reach: float) -> None:
    """`reach` is the merging radius times the sharpness."""
    solver: Any = stepper.solver
    if not (isinstance(solver, diffrax.AbstractERK) and getattr(solver.tableau, "fsal", False)):
        raise ValueError(
            "stepper must hold an explicit Runge–Kutta pair that ends on its result (Dopri8, "
            f"Dopri5, Tsit5, Bosh3); got {type(solver).__name__}."
        )
    if reach < 100 * (stepper.rtol + stepper.atol):
        raise ValueError(
            f"radius must be at least 100 (rtol + atol)/β, well above the solver's error; it is "
            f"{reach / (stepper.rtol + stepper.atol):.3g} (rtol + atol)/β: tighten the stepper."
        )


def _sharpness(field: SelfAttention, dim: int) -> float:
    """max(1, β‖QᵀK‖), the largest change of a logit per radian."""
    identity = jnp.eye(dim)
    form = act(field.query, identity) @ act(field.key, identity).T
    return max(1.0, float(field.beta) * float(np.linalg.norm(form, 2)))


def find_collapsed(
    x: np.ndarray, direction: np.ndarray, weights: np.ndarray, radius: float, turn: int
) -> np.ndarray:
    """Labels 0, 1, …, in order of first member, of groups within `radius` that are closing in.

    Crowds go into boxes of diagonal `radius`, placed anew each `turn` so that no border stays; then
    pairs join, the closest first. No group is wider than `radius`: chains of neighbours would
    swallow a whole forming cluster at once. Tokens that move apart stay apart however close they
    are, since on a separatrix neighbours leave for different clusters.
    """
    label = np.arange(len(x))
    if len(x) > CROWD:
        # Multiples of irrational numbers never repeat modulo 1.
        shift = (turn * np.sqrt(np.arange(2, x.shape[1] + 2))) % 1.0
        boxes = np.floor(x * (np.sqrt(x.shape[1]) / radius) + shift)
        box = _same_rows(boxes)
        label = np.where(_closing_in(x, direction, weights, box)[box], box, len(x) + label)
        label = np.unique(label, return_inverse=True)[1]
    alone = np.flatnonzero(np.bincount(label)[label] == 1)
    pairs = alone[_near(x[alone], radius)]
    gap, drift = (a[pairs[:, 1]] - a[pairs[:, 0]] for a in (x, direction))
    closing = np.sum(gap * drift, axis=1) <= 0
    nearest_first = np.argsort(np.linalg.norm(gap[closing], axis=1), kind="stable")
    free = np.ones(len(x), bool)
    for i, j in pairs[closing][nearest_first]:
        if free[i] and free[j]:
            free[[i, j]] = False
            label[j] = label[i]
    _, start, label = np.unique(label, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(start))[label]


def _same_rows(rows: np.ndarray) -> np.ndarray:
    """Labels 0, 1, … of equal rows: by a checksum, as long as no two rows share one."""
    odd = np.random.default_rng(0).integers(2**62, size=rows.shape[1]) * 2 + 1
    checksum = np.sum(rows.astype(np.int64) * odd, axis=1)
    _, first, label = np.unique(checksum, return_index=True, return_inverse=True)
    if np.array_equal(rows[first[label]], rows):
        return label
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)


def _near(x: np.ndarray, radius: float) -> np.ndarray:
    """Pairs of tokens within `radius`, found in few axes and measured in all."""
    dim = x.shape[1]
    if dim <= FLAT:
        return KDTree(x).query_pairs(radius, output_type="ndarray")
    # No two are farther apart in a plane than in the whole. In 64 axes a tree is of no help.
    plane = np.linalg.qr(np.random.default_rng(0).normal(size=(dim, FLAT)))[0]
    tree = KDTree(np.einsum("ij,jk->ik", x, plane))  # wakes no threads, see `one_thread`
    wide = radius * (1 + 1e-9)
    some = KDTree(tree.data[:: len(x) // 256 + 1])
    if tree.count_neighbors(some, wide) > 32 * some.n:  # a cluster about to collapse
        return KDTree(x).query_pairs(radius, output_type="ndarray")
    pairs = tree.query_pairs(wide, output_type="ndarray")
    gap = np.linalg.norm(x[pairs[:, 0]] - x[pairs[:, 1]], axis=1)
    return pairs[gap <= radius]


def _closing_in(x: np.ndarray, u: np.ndarray, w: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Whether the spread Σ w‖x − mean‖² of each group shrinks, or is zero."""
    mass = np.bincount(label, w)
    off = lambda a: a - np.stack([np.bincount(label, w * c) / mass for c in a.T], axis=1)[label]
    return np.bincount(label, w * np.sum(off(x) * off(u), axis=1)) <= 0


def merge_collapsed(
    x: np.ndarray, label: np.ndarray, ledger: Ledger, log_time: float, log_wait: float
) -> np.ndarray:
    """Replace each group by one token at its retracted mean, and enter the mergers."""
    order = np.argsort(label, kind="stable")
    sizes = np.bincount(label)
    heads = np.cumsum(sizes) - sizes
    mean = np.add.reduceat((ledger.masses[:, None] * x)[order], heads, axis=0)
    mean /= np.linalg.norm(mean, axis=1, keepdims=True)
    groups = [g for g in np.split(order, heads[1:]) if g.size > 1]
    for first, *others in groups:
        for other in others:
            chord = np.linalg.norm(x[other] - x[first])
            angle = 2 * math.asin(min(chord / 2, 1.0))
            ledger.join(first, other, angle, log_time, log_wait)
            log_wait = -math.inf
    ledger.drop(np.delete(order, heads))
    return np.where((sizes > 1)[:, None], mean, x[order[heads]])  # the others to the last bit
