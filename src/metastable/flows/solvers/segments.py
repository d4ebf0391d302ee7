"""Tokens in continuous depth, in segments: Python can show, stop and save between them."""

from __future__ import annotations

import dataclasses
import warnings
from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array

from metastable.core.blas import one_thread
from metastable.core.numerics import jax, jnp
from metastable.core.outcome import Outcome
from metastable.fields import Field
from metastable.fields.schedule import jumps
from metastable.fields.sums import Dense, Sum
from metastable.flows.solvers.frames import Frame, frames_at
from metastable.flows.solvers.ranks import Ranks
from metastable.flows.solvers.solver import Solver
from metastable.flows.trajectory import Trajectory
from metastable.measures import Points

COUNTS = ("done", "steps", "attempts", "drift", "off")  # of a checkpoint
SMALLEST_BLOCK = 64  # tokens
FRAMES_SHARE = 0.2  # of a GPU's memory that frames may take
LOOKS = 24  # how many times, at least, Python looks up from the compiled solve of a run


class Segment(NamedTuple):
    """What one compiled call gives back."""

    frames: Array  # (k, n, d), non-finite where not reached
    carry: Any  # what the next segment starts from; its first entry is the state (n, d)
    steps: Array
    attempts: Array
    drift: Array  # how far accepted steps left the sphere before retraction
    exhausted: Array  # whether the step limit ended the segment


class Job(eqx.Module):
    """A measure, a field, and a way to advance them from frame to frame."""

    measure: eqx.AbstractVar[Points]
    field: eqx.AbstractVar[Field]
    sum: eqx.AbstractVar[Sum]

    @property
    @abstractmethod
    def limit(self) -> int:
        """The most steps a run may try."""

    @property
    @abstractmethod
    def grid(self) -> float | None:
        """The equal steps a segment must hold a whole number of; None where steps are free."""

    @property
    @abstractmethod
    def name(self) -> str:
        """How the result names the stepper."""

    @abstractmethod
    def start(self, horizon: float) -> Any:
        """The first carry."""

    @abstractmethod
    def segment(self, carry: Any, t0: Any, ts: Any, differentiable: bool = True) -> Segment:
        """Advance from t0 and report the state at each time of ts.

        One that need not be differentiable compiles faster.
        """

    @abstractmethod
    def evaluations(self, attempts: int, segments: int) -> int:
        """Field evaluations behind that many tried steps."""


@eqx.filter_jit
def _compiled(job: Job, carry: Any, t0: Any, ts: Any) -> tuple[Segment, Array, Array]:
    """A segment, which of its frames are whole, and how far each is off the sphere."""
    part = job.segment(carry, t0, ts, differentiable=False)
    whole, off = _soundness(part.frames, job.measure.on_sphere)
    return part, whole, off


class TokenFlow(Solver):
    """Tokens in continuous depth: a job run through all frame times, segment by segment.

    With a `budget` for what sums may add to the error of positions, segments may use a low-rank
    sum; see `Ranks`.
    """

    resumable = True

    def __init__(self, job: Job, times: np.ndarray, budget: float | None = None):
        self.job, self.times = job, times
        self.measure, self.field, self.sum = job.measure, job.field, job.sum
        self.kept = [Frame.at(0.0, job.measure)]
        self.ranks = None if budget is None else Ranks(job.field, job.measure, job.sum, budget)

    def start(self) -> None:
        job = self.job
        self.plan = _plan(self.times, jumps(job.field), job.grid)
        self.done = self.steps = self.attempts = 0
        self.drift, self.off = 0.0, self.norm_drift() if job.measure.on_sphere else 0.0
        self.carry = jax.tree.map(np.asarray, job.start(float(self.times[-1])))
        self.restore(self.state())

    @property
    def identity(self) -> Any:
        return self.job, self.times

    def state(self) -> dict[str, Any]:
        return {
            "frames": np.stack([np.asarray(frame.measure.points) for frame in self.kept]),
            **{name: np.asarray(getattr(self, name)) for name in COUNTS},
            "carry": jax.tree.map(np.asarray, self.carry),
            "ranks": np.empty(0) if self.ranks is None else self.ranks.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        del self.kept[1:]
        self._keep(state["frames"][1:])
        for name in COUNTS:
            setattr(self, name, state[name].item())
        self.carry = state["carry"]
        if self.ranks is not None:
            self.ranks.restore(state["ranks"])
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(self.carry)):
            self.outcome = Outcome.blow_up(0.0)
        elif self.done == len(self.plan):
            self.outcome = Outcome.done()

    def _keep(self, points: np.ndarray) -> list[Frame]:
        first = len(self.kept)
        times = self.times[first : first + len(points)]
        new = frames_at(times, self.job.measure, points)
        self.kept += new
        return new

    def advance(self) -> list[Frame]:
        job, (_, _, wanted) = self.job, self.plan[self.done]
        part, whole, off = self._segment()
        reached = int(whole[:wanted].cumprod().sum())
        new = self._keep(part.frames[:reached])
        self.off = max(self.off, *off[:reached].tolist(), 0.0)
        self.done += 1
        self.steps += int(part.steps)
        self.attempts += int(part.attempts)
        self.drift = max(self.drift, float(part.drift))
        self.carry = part.carry
        here, last = self.kept[-1].time, self.done == len(self.plan)
        if part.exhausted or (not last and self.attempts >= job.limit):
            self.outcome = Outcome.step_limit(here, self.attempts)
        elif reached < wanted or not bool(jnp.isfinite(part.carry[0]).all()):
            self.outcome = Outcome.blow_up(here)
        elif last:
            self.outcome = Outcome.done()
        return new

    def _segment(self) -> Any:
        """The next segment, through a few tokens where that is good enough at its end too."""
        job, ranks, (t0, ts, wanted) = self.job, self.ranks, self.plan[self.done]
        if ranks is None:
            return self._solve(job)
        while True:
            spent = job.evaluations(self.attempts, self.done)
            sum = ranks.choose(job.measure.at(self.carry[0]), float(t0), spent)
            found = self._solve(dataclasses.replace(job, sum=sum))
            part = found[0]
            middle = wanted // 2
            held = ranks.is_near(job.measure.at(part.frames[middle]), float(ts[middle]))
            if held and ranks.holds(job.measure.at(part.carry[0]), float(ts[-1])):
                return found
            self.attempts += int(part.attempts)

    def _solve(self, job: Job) -> Any:
        t0, ts, _ = self.plan[self.done]
        try:
            with one_thread("scipy"):
                found = self._fetch(*_compiled(job, self.carry, t0, ts))
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error) or (smaller := _smaller(job)) is None:
                raise
            self.job = smaller
            if self.ranks is not None:
                self.ranks.base = smaller.sum
            return self._solve(smaller)
        if self.ranks is not None:
            self.ranks.count(job.evaluations(int(found[0].attempts), 0), job.measure.count)
        return found

    def _fetch(self, part: Segment, whole: Array, off: Array) -> tuple[Segment, Any, Any]:
        """What was computed, on the host; frames stay on a GPU that can hold all of them."""
        size = self.job.measure.points.nbytes * self.times.size
        if jax.default_backend() == "cpu" or size > FRAMES_SHARE * _device_memory():
            return jax.tree.map(np.asarray, (part, whole, off))
        counts = jax.tree.map(np.asarray, (part.steps, part.attempts, part.drift, part.exhausted))
        return Segment(part.frames, part.carry, *counts), np.asarray(whole), np.asarray(off)

    @property
    def share(self) -> float:
        return float(self.plan[self.done - 1][1][-1] / self.times[-1]) if self.done else 0.0

    def statistics(self) -> dict[str, Any]:
        held = self.job.measure.on_sphere
        return {
            "steps": self.steps,
            "rejected": self.attempts - self.steps,
            "evaluations": self.job.evaluations(self.attempts, self.done),
            "sum": self.job.sum.name if self.ranks is None else self.ranks.name,
            "stepper": self.job.name,
            "max_norm_drift": self.off if held else None,
            "step_norm_drift": self.drift if held else None,
            **({} if self.ranks is None else self.ranks.statistics()),
        }

    def traced(self) -> Trajectory:
        """One differentiable pass: no progress, no checkpoint, no look at the numbers."""
        job, times = self.job, self.times
        carry, frames = job.start(float(times[-1])), [job.measure]
        for t0, ts, wanted in _plan(times, jumps(job.field), job.grid, looks=1):
            part = job.segment(carry, t0, ts)
            carry = part.carry
            frames += [job.measure.at(frame) for frame in part.frames[:wanted]]
        return Trajectory(times, tuple(frames), self.clock, Outcome.done(), {}, job.field)


def _plan(
    times: np.ndarray, switches: Any, grid: float | None, looks: int = LOOKS
) -> list[tuple[np.ndarray, np.ndarray, int]]:
    """Segments (start, times to report, how many of them are frames).

    All segments report equally many times, padded with their last, so that one compilation serves
    them all; segments also end where the field switches. With a grid they end on it, since a
    solver cuts the step that would pass the end.
    """
    size = -(-(times.size - 1) // looks)
    inner = [s for s in switches if 0.0 < s < times[-1]]
    ends = times[size:-1:size]
    if grid is not None:
        ends = np.floor(ends / grid * (1 + 1e-12)) * grid
    ends = np.unique(np.concatenate([ends[ends > 0], times[-1:], inner]))
    starts = np.concatenate([[0.0], ends[:-1]])
    wanted = [times[(times > a) & (times <= b)] for a, b in zip(starts, ends, strict=True)]
    width = max(w.size for w in wanted) + bool(inner or grid)
    reports = [
        np.concatenate([w, np.full(width - w.size, b)]) for w, b in zip(wanted, ends, strict=True)
    ]
    return [
        (np.asarray(a), report, w.size)
        for a, report, w in zip(starts, reports, wanted, strict=True)
    ]


def _device_memory() -> float:
    """Bytes that JAX may use of the default device."""
    return float((jax.devices()[0].memory_stats() or {}).get("bytes_limit", 0.0))


def _smaller(job: Job) -> Job | None:
    """The same job with blocks of half the size, told in a line; None where they are small."""
    dense = job.sum
    if not isinstance(dense, Dense) or dense.size <= SMALLEST_BLOCK:
        return None
    half = dense.size // 2
    warnings.warn(f"out of memory: the sum goes on in blocks of {half} tokens.", stacklevel=2)
    return dataclasses.replace(job, sum=Dense(half))


def _soundness(frames: Array, on_sphere: bool) -> tuple[Array, Array]:
    """Whether each frame (k, n, d) is finite and on the sphere, and how far off it is.

    A vector too long to be squared has an infinite norm, and its retraction is 0: finite, and lost.
    """
    whole = jnp.isfinite(frames).all(axis=(1, 2))
    if not on_sphere:
        return whole, jnp.zeros(whole.shape)
    off = jnp.max(jnp.abs(jnp.linalg.norm(frames, axis=-1) - 1), axis=1)
    return whole & (off < 1e-3), off  # rounding, in single precision too, is far below


def count_whole(frames: np.ndarray, on_sphere: bool) -> int:
    """How many frames there are before the first that is not sound."""
    whole, _ = _soundness(jnp.asarray(frames), on_sphere)
    return int(np.asarray(whole).cumprod().sum())
