"""A run that shows its frames while it is computed.

The solvers, their segments and so their numbers are those of `flow`; only who asks for the next
segment differs. Nothing is computed before the next moment is asked for, so that whoever watches
sets the pace.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

import numpy as np

from metastable.core.numerics import jax, jnp
from metastable.core.outcome import Outcome
from metastable.fields import Field
from metastable.fields.noise import diffusion
from metastable.fields.schedule import jumps
from metastable.fields.sums import Dense, Sum, choose_sum
from metastable.flows import segments
from metastable.flows.build import _stepper, build_start, run_experiment
from metastable.flows.diffusion import Diffusive
from metastable.flows.mergers import Mergers
from metastable.flows.particles import Deterministic, _sum_for, frame_times
from metastable.flows.staircase import Climb, Merge, _check_horizon, _checked_field
from metastable.flows.steppers import Adaptive, Geodesic
from metastable.flows.trajectory import Trajectory
from metastable.measures import Points
from metastable.spec.experiment import Experiment, HardmaxSpec, LayersSpec, MergingSpec

__all__ = ["Live", "Moment", "bare_points", "log_frames", "moments_of"]

GAP = 0.06  # in log t between the frames of a merging run; for `run` it starts at 0.25
DECADES = 4  # of time, below the horizon, that a logarithmic clock shows


class Moment(NamedTuple):
    """Tokens at one time. `names` are those of `Mergers` where tokens merge, else None."""

    tokens: Points
    log_time: float
    names: np.ndarray | None = None


def log_frames(horizon: float, frames: int) -> np.ndarray:
    """Frame times for a logarithmic clock: 0, then evenly spaced in log t to the horizon."""
    return np.append(0.0, np.geomspace(horizon * 10.0**-DECADES, horizon, frames - 1))


class Live:
    """An experiment ready to run: `moments()` moves it, `run` holds the result afterwards.

    `stopped` is asked between segments; once it says yes the run ends as interrupted.
    """

    def __init__(
        self,
        experiment: Experiment,
        *,
        log_clock: bool = False,
        stopped: Callable[[], bool] = lambda: False,
    ):
        self.experiment, self.stopped = experiment, stopped
        self.log_clock = log_clock
        measure, self.field = build_start(experiment)
        assert isinstance(measure, Points)  # densities are refused at the door
        self.start: Points = measure
        self.sum: Sum = Dense()
        self.run: Trajectory | None = None

    def moments(self) -> Generator[Moment, None, None]:
        stepper = self.experiment.flow.stepper
        if isinstance(stepper, LayersSpec | HardmaxSpec):
            yield from self._whole()
        elif isinstance(stepper, MergingSpec):
            yield from self._merging(stepper)
        else:
            yield from self._segments()

    def _segments(self) -> Generator[Moment, None, None]:
        """Tokens in continuous depth, with or without noise, segment by segment."""
        flow = self.experiment.flow
        horizon = float(flow.horizon)
        times = frame_times(
            log_frames(horizon, flow.frames) if self.log_clock else flow.frames, horizon
        )
        stepper = _stepper(flow.stepper)
        if flow.sum == "auto":
            self.sum = _sum_for(self.start, self.field, horizon, stepper)
        job = _job(self.start, self.field, self.sum, stepper, flow.seed)
        began, outcome = time.perf_counter(), Outcome.done()
        yield Moment(self.start, -math.inf)
        state: dict[str, Any] = {
            "carry": jax.tree.map(np.asarray, job.start(horizon)),
            "frames": [np.asarray(self.start.points)],
            "done": 0,
            "steps": 0,
            "attempts": 0,
            "drift": 0.0,
        }
        plan = segments._plan(times, jumps(self.field), job.grid)
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state["carry"])):
            outcome, plan = Outcome.blow_up(0.0), []
        for t0, ts, wanted in plan:
            if self.stopped():
                outcome = Outcome.interrupted(float(times[len(state["frames"]) - 1]))
                break
            part = jax.tree.map(np.asarray, segments._compiled(job, state["carry"], t0, ts))
            finite = np.isfinite(part.frames[:wanted]).all(axis=(1, 2))
            reached = int(finite.cumprod().sum())
            for frame in part.frames[:reached]:
                state["frames"].append(frame)
                moment = float(times[len(state["frames"]) - 1])
                yield Moment(self.start.at(jnp.asarray(frame)), math.log(moment))
                if self.stopped():
                    break
            state["done"] += 1
            state["steps"] += int(part.steps)
            state["attempts"] += int(part.attempts)
            state["drift"] = max(state["drift"], float(part.drift))
            state["carry"] = part.carry
            here = float(times[len(state["frames"]) - 1])
            last = state["done"] == len(plan)
            if part.exhausted or (not last and state["attempts"] >= job.limit):
                outcome = Outcome.step_limit(here, state["attempts"])
                break
            if reached < wanted or not np.isfinite(part.carry[0]).all():
                outcome = Outcome.blow_up(here)
                break
        state["frames"] = np.stack(state["frames"])
        seconds = time.perf_counter() - began
        self.run = segments._assemble(job, times, state, outcome, seconds)

    def _merging(self, stepper: MergingSpec) -> Generator[Moment, None, None]:
        """Tokens that become one as they collapse, from event to event."""
        flow = self.experiment.flow
        horizon = math.inf if flow.horizon == "end" else float(flow.horizon)
        if flow.sum == "auto":
            self.sum = choose_sum(self.start, self.field, 1e-12)
        field = _checked_field(self.start, self.field, self.sum)
        _check_horizon(horizon, field)
        pace = Adaptive(stepper.rtol, stepper.atol)
        merge = Merge(stepper.radius)
        climb = Climb(self.start, field, horizon, merge, self.sum, pace, flow.frames)
        climb.album.gap = GAP
        yield Moment(self.start, -math.inf, climb.ledger.names.copy())
        while climb.outcome is None:
            if self.stopped():
                climb.end("interrupted", "Stopped at {}; the frames so far are kept.")
                break
            climb.move()
            x, masses, log_time = climb.seen
            tokens = bare_points(x, masses)
            if log_time > -math.inf:
                yield Moment(tokens, log_time, climb.ledger.names.copy())
        self.run = climb.trajectory()

    def _whole(self) -> Generator[Moment, None, None]:
        """Discrete depth and hardmax: one call, then its frames."""
        run = run_experiment(self.experiment, progress=False)
        for shown, moment in enumerate(moments_of(run), 1):
            yield moment
            if self.stopped():
                run = dataclasses.replace(
                    run,
                    times=run.times[:shown],
                    frames=run.frames[:shown],
                    log_times=None if run.log_times is None else run.log_times[:shown],
                    outcome=Outcome.interrupted(float(run.times[shown - 1])),
                )
                break
        self.run = run


def moments_of(run: Trajectory) -> Iterator[Moment]:
    """The frames of a finished run, as they would have been seen."""
    for k, frame in enumerate(run.frames):
        t = float(run.times[k])
        log_time = math.log(t) if t > 0 else -math.inf
        if run.log_times is not None:
            log_time = float(run.log_times[k])
        names = None if run.mergers is None else _names(run.mergers, frame.count)
        yield Moment(frame, log_time, names)


def _names(mergers: Mergers, count: int) -> np.ndarray:
    """Names of the rows of the frame with `count` tokens; a merger stands at its first token's."""
    merged = mergers.tokens - count
    place = np.arange(mergers.tokens + merged)
    for k in range(merged):
        place[mergers.tokens + k] = place[mergers.first[k]]
    parts = np.concatenate([mergers.first[:merged], mergers.second[:merged]])
    alive = np.setdiff1d(np.arange(len(place)), parts)
    return alive[np.argsort(place[alive])]


def _job(
    measure: Points, field: Field, sum: Sum, stepper: Any, seed: int
) -> Deterministic | Diffusive:
    noisy = float(diffusion(field)) > 0
    if stepper is None:
        stepper = Geodesic() if noisy else Adaptive()
    if noisy != isinstance(stepper, Geodesic):
        need = '"geodesic"' if noisy else '"adaptive" or "euler"'
        raise ValueError(f"flow.stepper.kind must be {need} for this field.")
    if isinstance(stepper, Geodesic):
        step = jnp.asarray(stepper.resolve(measure, field, sum))
        return Diffusive(measure, field, sum, step, jnp.asarray(seed))
    return Deterministic(measure, field, sum, stepper)


def bare_points(
    x: np.ndarray, masses: np.ndarray, times: Any = None, *, on_sphere: bool = True
) -> Points:
    """`Points` in NumPy without checks, which would compile anew for every number of tokens."""
    fresh = object.__new__(Points)
    parts = {"points": x, "weights": masses, "times": times, "on_sphere": on_sphere}
    for name, value in {**parts, "massless": bool((masses == 0).any())}.items():
        object.__setattr__(fresh, name, value)
    return fresh
