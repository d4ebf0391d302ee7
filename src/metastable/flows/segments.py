"""The driver of a run: solve in segments, so that Python can show progress, stop and save."""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array

from metastable.core.checkpoint import Checkpoint
from metastable.core.numerics import is_traced, jax, jnp
from metastable.core.outcome import Outcome
from metastable.core.progress import Bar
from metastable.fields import Field
from metastable.fields.schedule import jumps
from metastable.fields.sums import Sum
from metastable.flows.trajectory import Trajectory
from metastable.measures import Points

__all__ = ["Job", "Segment", "count_whole", "drive"]

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
    def segment(self, carry: Any, t0: Any, ts: Array) -> Segment:
        """Advance from t0 and report the state at each time of ts."""

    @abstractmethod
    def evaluations(self, attempts: int, segments: int) -> int:
        """Field evaluations behind that many tried steps."""


@eqx.filter_jit
def _compiled(job: Job, carry: Any, t0: Any, ts: Array) -> Segment:
    return job.segment(carry, t0, ts)


def drive(job: Job, times: np.ndarray, progress: bool | None, checkpoint: Any) -> Trajectory:
    """Run a job through all frame times and assemble the trajectory."""
    if is_traced(job):
        return _drive_traced(job, times)
    began = time.perf_counter()
    plan = _plan(times, jumps(job.field), job.grid)
    saved = Checkpoint(checkpoint, (job, times))
    state = saved.load(
        {
            "frames": np.asarray(job.measure.points)[None],
            "done": np.asarray(0),
            "steps": np.asarray(0),
            "attempts": np.asarray(0),
            "drift": np.asarray(0.0),
            "carry": jax.tree.map(np.asarray, job.start(float(times[-1]))),
        }
    )
    outcome = Outcome.done()
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state["carry"])):
        outcome, plan = Outcome.blow_up(0.0), []
    with Bar("flow", progress) as bar:
        try:
            for k in range(int(state["done"]), len(plan)):
                t0, ts, wanted = plan[k]
                part = jax.tree.map(np.asarray, _compiled(job, state["carry"], t0, ts))
                reached = count_whole(part.frames[:wanted], job.measure.on_sphere)
                state = {
                    "frames": np.concatenate([state["frames"], part.frames[:reached]]),
                    "done": np.asarray(k + 1),
                    "steps": state["steps"] + part.steps,
                    "attempts": state["attempts"] + part.attempts,
                    "drift": np.maximum(state["drift"], part.drift),
                    "carry": part.carry,
                }
                here = float(times[len(state["frames"]) - 1])
                if part.exhausted or (k + 1 < len(plan) and state["attempts"] >= job.limit):
                    outcome = Outcome.step_limit(here, int(state["attempts"]))
                    break
                if reached < wanted or not np.isfinite(part.carry[0]).all():
                    outcome = Outcome.blow_up(here)
                    break
                saved.save(state)
                bar.update(float(ts[-1]) / float(times[-1]))
        except KeyboardInterrupt:
            outcome = Outcome.interrupted(float(times[len(state["frames"]) - 1]))
    return _assemble(job, times, state, outcome, time.perf_counter() - began)


def _drive_traced(job: Job, times: np.ndarray) -> Trajectory:
    """One differentiable pass: no progress, no checkpoint, no look at the numbers."""
    carry, frames = job.start(float(times[-1])), [job.measure]
    for t0, ts, wanted in _plan(times, jumps(job.field), job.grid, looks=1):
        part = job.segment(carry, t0, ts)
        carry = part.carry
        frames += [job.measure.at(frame) for frame in part.frames[:wanted]]
    clock = job.field.clock or "none"
    return Trajectory(times, tuple(frames), clock, Outcome.done(), {}, job.field)


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


def _assemble(
    job: Job, times: np.ndarray, state: dict[str, Any], outcome: Outcome, seconds: float
) -> Trajectory:
    points = state["frames"]
    held = job.measure.on_sphere
    off = float(np.max(np.abs(np.linalg.norm(points, axis=-1) - 1))) if held else None
    statistics = {
        "steps": int(state["steps"]),
        "rejected": int(state["attempts"] - state["steps"]),
        "evaluations": job.evaluations(int(state["attempts"]), int(state["done"])),
        "sum": job.sum.name,
        "stepper": job.name,
        "max_norm_drift": off,
        "step_norm_drift": float(state["drift"]) if held else None,
        "seconds": seconds,
    }
    return Trajectory(
        times=times[: len(points)],
        frames=tuple(job.measure.at(frame) for frame in points),
        clock=job.field.clock or "none",
        outcome=outcome,
        statistics=statistics,
        field=job.field,
    )
