"""Do the frames of a run of tokens obey their equation: every interval, every token?

The displacement over an interval is held against the integral of a polynomial through the
velocities at the frames around it; the difference of two such polynomials is their error. Where
they are not sharp, or the frames seem wrong, the interval is integrated again from its first
frame. Nothing is averaged: the worst token of the worst interval decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core.numerics import jax, jnp
from metastable.fields import Field
from metastable.fields.schedule import jumps
from metastable.fields.sums import Dense, choose_sum
from metastable.flows import Adaptive, Fixed, Layers, Merging, Trajectory
from metastable.flows.solvers.segments import Job
from metastable.flows.solvers.token_layers import apply_layers
from metastable.flows.solvers.tokens import Deterministic, Diffusive
from metastable.measures import Points

WIDE, NARROW = 8, 6  # velocities behind the two polynomials
MARGIN = 10.0  # how many numerical errors are allowed
SHARP, SHARE = 5e-4, 1e-3  # of a distance, and of the largest displacement: what must be seen
# Of the difference of the polynomials: around a kink a step whose error is a thousand tolerances
# may pass (seen in pure attention, where tokens change their leader).
KINK, CAP = 0.5, 1e-4
MOST = 5_000  # tokens up to which intervals are integrated again
FEW = 1024  # tokens up to which sums are dense
STRETCHES = 4  # between mergers that are tested
LONGEST = 50.0  # of an interval, in units of the clock, of a run that merges tokens
BATCH = 8  # intervals that are integrated again in one call
ROUNDING = 1e-13
TIGHT = 1e-10


class Residual(NamedTuple):
    """The worst place of a run: its error, what was allowed there, when, and which token."""

    error: float
    allowed: float
    time: float
    token: int
    intervals: int = 0  # how many were tested

    @property
    def ratio(self) -> float:
        return self.error / self.allowed


def worst_residual(run: Trajectory) -> Residual | None:
    """The interval and token that follow the field least; None where no interval can be tested.

    Frames of unequal spacing are welcome. Intervals over which tokens merge are left out, in runs
    that merge also those longer than 50 units (their equation is stiff, and their mergers tell),
    and all but the four stretches between mergers in which tokens move most.
    """
    assert run.field is not None
    times = np.asarray(run.times, float)
    found: list[Residual] = []
    tested = 0
    stretches = [_Stretch(run, *ends) for ends in _stretches(run, times)]
    # Those between mergers in which tokens move most.
    stretches.sort(key=lambda stretch: -stretch.moved)
    for stretch in stretches[:STRETCHES]:
        found += stretch.worst()
        tested += len(stretch.intervals)
    if not found:
        return None
    return max(found, key=lambda place: place.ratio)._replace(intervals=tested)


def _stretches(run: Trajectory, times: np.ndarray) -> list[tuple[int, int]]:
    """First and last frame of each stretch of at least two with the same tokens, in finite time."""
    counts = [frame.count for frame in run.frames]
    ends = [k for k in range(len(counts) - 1) if counts[k] != counts[k + 1]]
    starts = [0, *(k + 1 for k in ends)]
    pairs = zip(starts, [*ends, len(counts) - 1], strict=True)
    pairs = ((a, b if np.isfinite(times[b]) else b - 1) for a, b in pairs)
    return [(a, b) for a, b in pairs if b > a]


def _padded(frame: Points) -> Points:
    """A power of two of tokens, those added without mass: few shapes need few compilations."""
    spare = max(16, 1 << (frame.count - 1).bit_length()) - frame.count
    x, w = np.asarray(frame.points), np.asarray(frame.weights)
    points = np.concatenate([x, np.repeat(x[:1], spare, axis=0)])
    return Points(points, np.concatenate([w, np.zeros(spare)]), on_sphere=frame.on_sphere)


def velocities_at(
    field: Field, frames: Sequence[Points], times: np.ndarray
) -> Float[np.ndarray, "t n d"]:
    """v of a field at frames of the same few tokens, in one compiled call."""
    points = jnp.stack([frame.points for frame in frames])
    return np.asarray(_velocities(field, frames[0], points, jnp.asarray(times, jnp.float64)))


@eqx.filter_jit
def _velocities(field: Field, start: Points, points: Array, times: Array) -> Array:
    one = lambda given: field.velocity(start.at(given[0]), t=given[1], sum=Dense())
    return jax.lax.map(one, (points, times))


class _Stretch:
    """Frames `first` to `last` of a run, which hold the same tokens."""

    def __init__(self, run: Trajectory, first: int, last: int):
        assert run.field is not None
        self.run, self.field, self.first = run, run.field, first
        self.frames: list[Points] = list(run.frames[first : last + 1])
        if isinstance(run.stepper, Merging):
            self.frames = [_padded(frame) for frame in self.frames]
        self.times = np.asarray(run.times, float)[first : last + 1]
        self.steps = np.diff(self.times)
        self.switches = np.array(jumps(self.field), float)
        longest = LONGEST if isinstance(run.stepper, Merging) else math.inf
        self.intervals = np.flatnonzero((self.steps > 0) & (self.steps <= longest))
        self.velocities: dict[int, np.ndarray] = {}
        points = [np.asarray(self.frames[k].points) for k in (0, -1)]
        self.moved = float(np.abs(points[1] - points[0]).max()) if self.intervals.size else 0.0
        # No interval of an honest run needs more steps than the whole of it.
        taken = sum(float(run.statistics.get(name) or 0) for name in ("steps", "rejected"))
        most = 2 ** math.ceil(math.log2(32 + taken))
        self.tight = Adaptive(TIGHT, TIGHT, max_steps=most)
        # A fast sum is compiled anew for each β, which costs more than it saves for few tokens.
        few = self.frames[0].count <= FEW
        self.sum = Dense() if few else choose_sum(self.frames[0], self.field, 1e-11)

    def worst(self) -> list[Residual]:
        places, doubtful = [], []
        if self.frames[0].count <= FEW:
            self.velocities = dict(enumerate(velocities_at(self.field, self.frames, self.times)))
        for k in self.intervals:
            errors, unsure, moved = self._by_polynomials(int(k))
            base = self._base(int(k))
            allowed = MARGIN * (base + unsure)
            if np.isfinite(errors).any():
                places.append(self._place(int(k), errors, np.broadcast_to(allowed, errors.shape)))
            wanted = min(SHARP, SHARE * float(np.nanmax(moved, initial=0.0)))
            vague = not np.isfinite(errors).all() or MARGIN * unsure > wanted + MARGIN * base
            if vague or (errors > allowed).any():
                doubtful.append((int(k), unsure, errors))
        if not doubtful or self.frames[0].count > MOST:
            return places
        chosen = {k for k, _, _ in doubtful}
        places = [p for p, k in zip(places, self.intervals, strict=False) if int(k) not in chosen]
        # The most suspicious first: a run that fails there need not be followed further.
        doubtful.sort(key=lambda found: -float(np.nan_to_num(found[2], nan=math.inf).max()))
        for first in range(0, len(doubtful), BATCH):
            numbers, unsure, rough = zip(*doubtful[first : first + BATCH], strict=True)
            kinks = np.minimum(KINK * np.array(unsure), CAP)
            places += self._again(np.array(numbers), kinks, np.stack(rough))
            if any(place.ratio > 1 for place in places):
                break
        return places

    def _place(self, k: int, errors: np.ndarray, allowed: np.ndarray) -> Residual:
        token = int(np.nanargmax(errors / allowed))
        error, least = float(errors[token]), float(allowed[token])
        return Residual(error, least, float(self.times[k + 1]), token)

    def _base(self, k: int) -> float:
        """What the stepper may leave on one token: its tolerance is of the root mean square."""
        stepper = self.run.stepper
        stepper = stepper.stepper if isinstance(stepper, Merging) else stepper
        tolerance = max(stepper.rtol, stepper.atol) if isinstance(stepper, Adaptive) else 1e-9
        frame, total = self.frames[k + 1], float(self.run.times[-1])
        share = self.steps[k] / total if np.isfinite(total) else 1.0
        count = 1.0 + share * float(self.run.statistics.get("steps", 0.0))
        size = 1.0 if frame.on_sphere else max(1.0, float(np.abs(frame.points).max()))
        return count * (tolerance * math.sqrt(frame.points.size) + ROUNDING) * size

    def _velocity(self, k: int) -> np.ndarray:
        if k not in self.velocities:
            frame, t = self.frames[k], float(self.times[k])
            v = np.asarray(self.field.velocity(frame, t=t, sum=self.sum))
            if not np.isfinite(v).all() and not isinstance(self.sum, Dense):
                v = np.asarray(self.field.velocity(frame, t=t, sum=Dense()))
            self.velocities[k] = v
        return self.velocities[k]

    def _by_polynomials(self, k: int) -> tuple[np.ndarray, float, np.ndarray]:
        """Error of each token, the error of the polynomials, and how far each token moved."""
        t, h = self.times, self.steps[k]
        low = self.switches[self.switches <= t[k]].max(initial=-math.inf)
        high = self.switches[self.switches > t[k]].min(initial=math.inf)
        usable = np.flatnonzero((t >= low) & (t < high))
        middle = t[k] + h / 2
        near = usable[np.argsort(np.abs(t[usable] - middle), kind="stable")]
        for old in [j for j in self.velocities if j < min(near[:WIDE])]:
            del self.velocities[old]
        integrals = []
        for width in (WIDE, NARROW):
            chosen = np.sort(near[:width])
            weights = weights_of(t[chosen], t[k], t[k + 1])
            parts = (w * self._velocity(int(j)) for w, j in zip(weights, chosen, strict=True))
            integrals.append(sum(parts))
        before, after = (np.asarray(self.frames[j].points) for j in (k, k + 1))
        moved = after - before
        length = lambda vectors: np.linalg.norm(vectors, axis=-1)
        with np.errstate(over="ignore", invalid="ignore"):  # velocities beyond doubles
            unsure = float(np.max(length(integrals[0] - integrals[1])))
            if near.size < WIDE:  # too few for a difference that tells
                unsure = max(unsure, h * float(np.max(length(self._velocity(k)))))
            return length(moved - integrals[0]), unsure, length(moved)

    def _again(self, chosen: np.ndarray, kinks: np.ndarray, rough: np.ndarray) -> list[Residual]:
        """Intervals integrated again, each from its first frame.

        `kinks` is what a step may leave unseen where a token turns at once, `rough` the errors by
        polynomials: they stand where the stated field cannot be followed over an interval in the
        steps that the whole run took.
        """
        starts = np.stack([np.asarray(self.frames[k].points) for k in chosen])
        ends = np.stack([np.asarray(self.frames[k + 1].points) for k in chosen])
        pieces = _pieces(self.times[chosen], self.times[chosen + 1], self.switches)
        length = lambda vectors: np.linalg.norm(vectors, axis=-1)
        allowed = MARGIN * np.array([self._base(int(k)) for k in chosen])
        stepper = self.run.stepper
        if isinstance(stepper, Fixed) and self._on_grid(stepper.step):
            again = self._ends(starts, pieces, stepper)
        else:
            again = self._ends(starts, pieces, self.tight)
        errors = length(ends - again)
        lost = ~np.isfinite(errors).any(axis=1)
        errors[lost] = rough[lost]
        if isinstance(stepper, Fixed) and not self._on_grid(stepper.step):
            # Equal steps have an error of their own, and frames between them another.
            coarse = self._ends(starts, pieces, stepper)
            allowed = allowed + MARGIN * length(coarse - again).max(axis=1)
        over = np.flatnonzero((errors > allowed[:, None]).any(axis=1) & ~lost)
        if over.size:  # an error made early in an interval may have grown in it
            growth = self._growth(starts[over], pieces[over])
            allowed[over] = allowed[over] * np.maximum(1.0, growth) + kinks[over]
        good = [j for j in range(len(chosen)) if np.isfinite(errors[j]).any()]
        each = [np.broadcast_to(allowed[j], errors[j].shape) for j in good]
        return [self._place(int(chosen[j]), errors[j], a) for j, a in zip(good, each, strict=True)]

    def _on_grid(self, step: float) -> bool:
        """Whether every frame, and every switch, is at a whole number of equal steps."""
        times = np.concatenate([self.times, self.switches[self.switches < self.times[-1]]])
        return bool(
            np.all(np.abs(times / step - np.rint(times / step)) < 1e-9 * (1 + times / step))
        )

    def _ends(
        self, starts: np.ndarray, pieces: np.ndarray, stepper: Adaptive | Fixed
    ) -> np.ndarray:
        """Where the stated field takes each start, by the sum that the run would choose."""
        like = self.frames[0]
        ends = ends_of(Deterministic(like, self.field, self.sum, stepper), starts, pieces)
        if np.isfinite(ends).all() or isinstance(self.sum, Dense):
            return ends
        # A token that sees less mass than the error of a fast sum gets NaN from it.
        return ends_of(Deterministic(like, self.field, Dense(), stepper), starts, pieces)

    def _growth(self, starts: np.ndarray, pieces: np.ndarray) -> np.ndarray:
        """How many times a small error of a frame grows over its interval, at most over tokens."""
        moved = starts + 1e-6 * np.random.default_rng(0).standard_normal(starts.shape)
        if self.frames[0].on_sphere:
            moved /= np.linalg.norm(moved, axis=-1, keepdims=True)
        size = lambda vectors: np.linalg.norm(vectors, axis=-1).max(axis=1)
        apart = size(self._ends(moved, pieces, self.tight) - self._ends(starts, pieces, self.tight))
        return np.nan_to_num(apart / size(moved - starts), nan=1.0)


def weights_of(nodes: np.ndarray, start: float, end: float) -> np.ndarray:
    """Weights w with Σ w_j p(t_j) = ∫p dt for all polynomials through the nodes."""
    middle, half = (start + end) / 2, max((nodes[-1] - nodes[0]) / 2, end - start)
    x = (nodes - middle) / half
    a, b = (start - middle) / half, (end - middle) / half
    powers = np.arange(x.size)
    moments = (b ** (powers + 1) - a ** (powers + 1)) / (powers + 1)
    return half * np.linalg.solve(x[None, :] ** powers[:, None], moments)


def _pieces(starts: np.ndarray, ends: np.ndarray, switches: np.ndarray) -> np.ndarray:
    """The times between which nothing switches in each interval, (k, pieces + 1)."""
    rows = []
    for a, b in zip(starts, ends, strict=True):
        rows.append(np.concatenate([[a], switches[(switches > a) & (switches < b)], [b]]))
    most = max(map(len, rows))
    return np.stack([np.pad(row, (0, most - len(row)), mode="edge") for row in rows])


def ends_of(job: Job, starts: np.ndarray, pieces: np.ndarray) -> np.ndarray:
    """Where a job takes each start over its pieces of time, (k, n, d)."""
    results = []
    for k in range(0, len(starts), BATCH):
        some, parts = starts[k : k + BATCH], pieces[k : k + BATCH]
        spare = BATCH - len(some)
        some = np.concatenate([some, np.repeat(some[:1], spare, axis=0)])
        parts = np.concatenate([parts, np.zeros((spare, parts.shape[1]))])
        numbers = jnp.arange(k, k + BATCH)
        ends = _ends_of(job, jnp.asarray(some), jnp.asarray(parts), numbers)
        results.append(np.asarray(ends)[: BATCH - spare])
    return np.concatenate(results)


@eqx.filter_jit
def _ends_of(job: Job, starts: Array, pieces: Array, numbers: Array) -> Float[Array, "k n d"]:
    def one(interval: tuple[Array, Array, Array]) -> Array:
        x, edges, number = interval

        def over(x: Array, piece: Array) -> tuple[Array, None]:
            t0, t1 = piece
            end = jnp.where(t1 > t0, t1, t0 + 1e-9)  # a piece of no length is not used
            carry = _carry(job, x, end - t0, number)
            part = job.segment(carry, t0, end[None], differentiable=False)
            return jnp.where(t1 > t0, part.frames[-1], x), None

        return jax.lax.scan(over, x, jnp.stack([edges[:-1], edges[1:]], axis=1))[0]

    return jax.lax.map(one, (starts, pieces, numbers))


def _carry(job: Job, x: Array, length: Array, number: Array) -> tuple[Array, Array]:
    """The state from which a segment starts: a first step, or the number of random steps before."""
    if isinstance(job, Diffusive):
        return x, number * 10_000_019
    if isinstance(job, Deterministic) and isinstance(job.stepper, Fixed):
        return x, jnp.asarray(job.stepper.step)
    return x, length


def reapplied(run: Trajectory, stepper: Layers) -> Residual:
    """Layers computed again from each kept one to the next: they must agree to rounding."""
    assert run.field is not None
    layers = np.rint(np.asarray(run.times, float) / stepper.step).astype(int)
    count = int(np.diff(layers).max())
    points = np.stack([np.asarray(frame.points) for frame in run.frames])
    start, depth = run.frames[0], int(layers[-1])
    again = _layers_again(
        start, run.field, stepper, jnp.asarray(points[:-1]), jnp.asarray(layers[:-1]), count, depth
    )
    errors = np.linalg.norm(np.asarray(again) - points[1:], axis=2)
    size = np.maximum(1.0, np.abs(points[1:]).max(axis=(1, 2)))[:, None]
    allowed = MARGIN * count * ROUNDING * math.sqrt(start.points.size) * size
    ratio = np.nan_to_num(errors / allowed, nan=math.inf)
    k, token = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    place = float(errors[k, token]), float(allowed[k, 0]), float(run.times[k + 1]), int(token)
    return Residual(*place, intervals=len(errors))


@eqx.filter_jit
def _layers_again(
    start: Points, field: Field, how: Layers, points: Array, first: Array, count: int, depth: int
) -> Float[Array, "k n d"]:
    return jax.lax.map(
        lambda at: apply_layers(start.at(at[0]), field, Dense(), how, at[1], count, depth),
        (points, first),
    )
