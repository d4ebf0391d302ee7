"""Tokens in continuous depth, in segments: Python can show, stop and save between them."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array

from metastable.core.numerics import jax, jnp
from metastable.core.outcome import Outcome
from metastable.fields import Field
from metastable.fields.schedule import jumps
from metastable.fields.sums import Sum
from metastable.flows.solvers.frames import Frame
from metastable.flows.solvers.solver import Solver
from metastable.flows.trajectory import Trajectory
from metastable.measures import Points

COUNTS = ("done", "steps", "attempts", "drift")  # of a checkpoint
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
    def segment(self, carry: Any, t0: Any, ts: Array, differentiable: bool = True) -> Segment:
        """Advance from t0 and report the state at each time of ts.

        One that need not be differentiable compiles faster.
        """

    @abstractmethod
    def evaluations(self, attempts: int, segments: int) -> int:
        """Field evaluations behind that many tried steps."""


@eqx.filter_jit
def _compiled(job: Job, carry: Any, t0: Any, ts: Array) -> Segment:
    return job.segment(carry, t0, ts, differentiable=False)


class TokenFlow(Solver):
    """Tokens in continuous depth: a job run through all frame times, segment by segment."""

    resumable = True

    def __init__(self, job: Job, times: np.ndarray):
        self.job, self.times = job, times
        self.measure, self.field, self.sum = job.measure, job.field, job.sum
        self.kept = [Frame.at(0.0, job.measure)]

    def start(self) -> None:
        job = self.job
        self.plan = _plan(self.times, jumps(job.field), job.grid)
        self.done = self.steps = self.attempts = 0
        self.drift, self.carry = 0.0, jax.tree.map(np.asarray, job.start(float(self.times[-1])))
        self.restore(self.state())

    @property
    def identity(self) -> Any:
        return self.job, self.times

    def state(self) -> dict[str, Any]:
        return {
            "frames": np.stack([np.asarray(frame.measure.points) for frame in self.kept]),
            **{name: np.asarray(getattr(self, name)) for name in COUNTS},
            "carry": self.carry,
        }

    def restore(self, state: dict[str, Any]) -> None:
        del self.kept[1:]
        self._keep(state["frames"][1:])
        self.done, self.steps, self.attempts, self.drift = (state[n].item() for n in COUNTS)
        self.carry = state["carry"]
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(self.carry)):
            self.outcome = Outcome.blow_up(0.0)
        elif self.done == len(self.plan):
            self.outcome = Outcome.done()

    def _keep(self, points: np.ndarray) -> list[Frame]:
        first = len(self.kept)
        times = self.times[first : first + len(points)]
        measures = (self.job.measure.at(frame) for frame in points)
        new = [Frame.at(*pair) for pair in zip(times, measures, strict=True)]
        self.kept += new
        return new

    def advance(self) -> list[Frame]:
        job, (t0, ts, wanted) = self.job, self.plan[self.done]
        part = jax.tree.map(np.asarray, _compiled(job, self.carry, t0, ts))
        reached = count_whole(part.frames[:wanted], job.measure.on_sphere)
        new = self._keep(part.frames[:reached])
        self.done += 1
        self.steps += int(part.steps)
        self.attempts += int(part.attempts)
        self.drift = max(self.drift, float(part.drift))
        self.carry = part.carry
        here, last = self.kept[-1].time, self.done == len(self.plan)
        if part.exhausted or (not last and self.attempts >= job.limit):
            self.outcome = Outcome.step_limit(here, self.attempts)
        elif reached < wanted or not np.isfinite(part.carry[0]).all():
            self.outcome = Outcome.blow_up(here)
        elif last:
            self.outcome = Outcome.done()
        return new

    @property
    def share(self) -> float:
        return float(self.plan[self.done - 1][1][-1] / self.times[-1]) if self.done else 0.0

    def statistics(self) -> dict[str, Any]:
        held = self.job.measure.on_sphere
        return {
            "steps": self.steps,
            "rejected": self.attempts - self.steps,
            "evaluations": self.job.evaluations(self.attempts, self.done),
            "sum": self.job.sum.name,
            "stepper": self.job.name,
            "max_norm_drift": self.norm_drift() if held else None,
            "step_norm_drift": self.drift if held else None,
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
) -> list[tuple[Array, Array, int]]:
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
        (jnp.asarray(a), jnp.asarray(report), w.size)
        for a, report, w in zip(starts, reports, wanted, strict=True)
    ]


def count_whole(frames: np.ndarray, on_sphere: bool) -> int:
    """How many frames (k, n, d) there are before the first that is not finite or off the sphere.

    A vector too long to be squared has an infinite norm, and its retraction is 0: finite, and lost.
    """
    whole = np.isfinite(frames).all(axis=(1, 2))
    if on_sphere:
        with np.errstate(invalid="ignore", over="ignore"):
            off = np.abs(np.linalg.norm(frames, axis=-1) - 1)
        whole &= (off < 1e-3).all(axis=1)  # rounding, in single precision too, is far below
    return int(whole.cumprod().sum())
