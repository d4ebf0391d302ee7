"""Frames of a run whose end is not known: at times asked for, or thinned on the way."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from metastable.core import checks
from metastable.core.numerics import jnp
from metastable.measures import Points

__all__ = ["Album", "Frame"]


class Frame(NamedTuple):
    time: float
    log_time: float
    measure: Points
    spaced: bool = False


class Album:
    """What is kept of a run, in bounded memory.

    `frames` is an increasing array of times, or the most frames to keep: half of them evenly spaced
    in log t, with a spacing that doubles whenever they get too many, and half at the last mergers.
    The start, the end and a finite horizon always belong.
    """

    def __init__(self, frames: Any, horizon: float, start: Points):
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
        self.start = start
        self.kept = [Frame(0.0, -math.inf, start)]
        self.gap, self.log_mark = 0.25, -math.inf if self.room else math.inf

    @property
    def log_target(self) -> float:
        """log of the next time that must be met."""
        return math.log(self.targets[0]) if self.targets else math.inf

    @property
    def complete(self) -> bool:
        """Whether the horizon has been met."""
        return self.ends and not self.targets

    def see(
        self, x: np.ndarray, masses: np.ndarray, log_time: float, *, reached: bool, merged: bool
    ) -> None:
        """Keep these tokens if they are due."""
        if reached:
            self._keep(x, masses, log_time, time=self.targets.pop(0))
        elif merged and len(x) <= self.room:
            self._keep(x, masses, log_time)
        elif log_time > self.log_mark:
            self._keep(x, masses, log_time, spaced=True)
            spaced = [frame for frame in self.kept if frame.spaced]
            if len(spaced) > self.room:
                self.kept = [f for f in self.kept if not any(f is old for old in spaced[::2])]
                self.gap *= 2
            self.log_mark = log_time + self.gap

    def close(self, x: np.ndarray, masses: np.ndarray, log_time: float, *, still: bool) -> None:
        """Keep the end; where nothing moves any more (`still`), also at the times ahead."""
        last = self.kept[-1]
        if last.measure.count > len(x) or last.log_time < log_time:
            self._keep(x, masses, log_time)
        for t in self.targets if still else []:
            self._keep(x, masses, math.log(t), time=t)

    def _keep(
        self,
        x: np.ndarray,
        masses: np.ndarray,
        log_time: float,
        time: float | None = None,
        spaced: bool = False,
    ) -> None:
        if time is None:
            time = math.exp(log_time) if log_time < 709 else math.inf
        # Not Points(x, masses): its checks would compile anew for every number of tokens. Copies,
        # since jnp.asarray may share memory with arrays that the run goes on to change.
        parts = lambda m: (m.points, m.weights, m.times)
        new = (jnp.array(x), jnp.array(masses), None)
        measure = eqx.tree_at(parts, self.start, new, is_leaf=lambda leaf: leaf is None)
        self.kept.append(Frame(time, log_time, measure, spaced))
