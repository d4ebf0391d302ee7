"""Frames of a run: at which times, and which are kept where the end is not known."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from metastable.core import checks
from metastable.core.numerics import jnp
from metastable.measures import Points


class Frame(NamedTuple):
    """A measure at one time; `names` are those of `Mergers` where tokens merge, else None."""

    time: float
    log_time: float
    measure: Any
    names: np.ndarray | None = None

    @classmethod
    def at(cls, time: float, measure: Any) -> Frame:
        return cls(float(time), log_of(time), measure)


def frames_at(times: np.ndarray, start: Points, states: np.ndarray) -> list[Frame]:
    """Frames of the tokens of `start` at other places, (k, n, d), which nobody will write to.

    A few microseconds each: `Points.at` goes through the whole tree, and costs a hundred.
    """
    same = dict(on_sphere=start.on_sphere, massless=start.massless)
    weights, token_times = start.weights, start.times
    return [
        Frame(time, log_of(time), Points.unchecked(state, weights, token_times, **same))
        for time, state in zip(times.tolist(), states, strict=True)
    ]


class MergingState(NamedTuple):
    """Where a run that merges tokens stands."""

    x: np.ndarray
    masses: np.ndarray
    names: np.ndarray
    log_time: float


def log_of(time: float) -> float:
    return math.log(time) if time > 0 else -math.inf


def frame_times(frames: Any, horizon: float) -> np.ndarray:
    """Frame times from a count or an array; the start and the horizon always belong."""
    if np.ndim(frames) == 0:
        checks.integer("frames", frames, 2, "The start and the end are frames too.")
        checks.fits_memory(f"frames = {frames}", float(frames), "ask for fewer")
        return np.linspace(0.0, horizon, int(frames))
    times = np.unique(np.concatenate([[0.0], np.asarray(frames, float), [horizon]]))
    if not np.isfinite(times).all() or times[0] < 0 or times[-1] > horizon:
        raise ValueError(
            f"frames must be times between 0 and the horizon {horizon:g}; got {frames}."
        )
    return times


class KeptFrames:
    """What is kept of a run that merges tokens, in bounded memory.

    `frames` is an increasing array of times, or the most frames to keep: half of them evenly spaced
    in log t, `spacing` apart at first and twice as far whenever they get too many, and half at the
    last mergers. The start, the end and a finite horizon always belong.
    """

    def __init__(self, frames: Any, horizon: float, start: Points, spacing: float):
        times = np.empty(0)
        self.room = 0  # for each half; none when the times are given
        if np.ndim(frames) == 0:
            remedy = "The start and the end are frames too."
            self.room = checks.integer("frames", frames, 2, remedy) // 2 - 1
        else:
            times = np.asarray(frames, float)
            if not (np.isfinite(times).all() and np.all((times >= 0) & (times <= horizon))):
                raise ValueError(
                    f"frames must be times between 0 and the horizon {horizon:g}; got {frames}."
                )
        ahead = np.unique(np.append(times, horizon))
        self.targets = [float(t) for t in ahead if 0 < t < math.inf]
        self.ends = horizon < math.inf
        self.on_sphere = start.on_sphere
        self.kept = [Frame(0.0, -math.inf, start, np.arange(start.count))]
        self.spaced: list[Frame] = []
        self.gap, self.log_mark = spacing, -math.inf if self.room else math.inf

    @property
    def log_target(self) -> float:
        """log of the next time that must be met."""
        return math.log(self.targets[0]) if self.targets else math.inf

    @property
    def complete(self) -> bool:
        """Whether the horizon has been met."""
        return self.ends and not self.targets

    def offer(self, now: MergingState, *, reached: bool, merged: bool) -> Frame | None:
        """Keep these tokens if they are due; the frame, or None."""
        if reached:
            return self._keep(now, time=self.targets.pop(0))
        if merged and len(now.x) <= self.room:
            return self._keep(now)
        if now.log_time <= self.log_mark:
            return None
        frame = self._keep(now)
        self.spaced.append(frame)
        if len(self.spaced) > self.room:
            gone = {id(old) for old in self.spaced[::2]}
            self.kept = [old for old in self.kept if id(old) not in gone]
            self.spaced = self.spaced[1::2]
            self.gap *= 2
        self.log_mark = now.log_time + self.gap
        return frame

    def close(self, now: MergingState, *, still: bool) -> list[Frame]:
        """Keep the end; where nothing moves any more (`still`), also at the times ahead."""
        last, count = self.kept[-1], len(self.kept)
        if last.measure.count > len(now.x) or last.log_time < now.log_time:
            self._keep(now)
        for t in self.targets if still else []:
            self._keep(now._replace(log_time=math.log(t)), time=t)
        return self.kept[count:]

    def _keep(self, now: MergingState, time: float | None = None) -> Frame:
        x, masses, names, log_time = now
        if time is None:
            time = math.exp(log_time) if log_time < 709 else math.inf
        # Copies, since jnp.asarray may share memory with arrays that the run goes on to change.
        measure = Points.unchecked(jnp.array(x), jnp.array(masses), on_sphere=self.on_sphere)
        self.kept.append(Frame(time, log_time, measure, names.copy()))
        return self.kept[-1]
