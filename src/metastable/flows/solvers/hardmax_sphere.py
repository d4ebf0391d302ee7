"""Hardmax attention on the sphere: the closest pair merges, again and again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from metastable.core.outcome import Outcome
from metastable.fields import Field, SelfAttention
from metastable.flows.mergers import Ledger, Mergers
from metastable.flows.solvers.frames import Frame, KeptFrames
from metastable.flows.solvers.solver import Choices, Solver
from metastable.measures import Points


class SphereHardmax(Solver):
    """The list of mergers of attention on the sphere at β = ∞; see `Hardmax`."""

    def __init__(self, measure: Points, field: Field, horizon: float, how: Choices):
        if not isinstance(field, SelfAttention) or not _attracts(field):
            raise ValueError(
                "hardmax on the sphere needs a SelfAttention field with positive multiples of the "
                f"identity for query, key and value; got {field!r}."
            )
        if not math.isinf(horizon) or np.ndim(how.frames):
            raise ValueError("horizon and frame times have no meaning at beta = inf on the sphere.")
        self.measure, self.field = measure, field
        self.power = 2 if field.normalized else 1  # of the masses, in the place of a meeting
        self.frames = KeptFrames(how.frames, math.inf, measure, how.spacing)
        self.first = 0.0 if field.normalized else -1.0

    def start(self) -> None:
        self.now = self.first
        self.x, self.ledger = np.array(self.measure.points), Ledger(self.measure.weights)
        self.left = np.ones(len(self.x), bool)
        self.square = cdist(self.x, self.x, "sqeuclidean")
        np.fill_diagonal(self.square, np.inf)
        self.nearest = self.square.argmin(axis=1)

    @property
    def kept(self) -> list[Frame]:
        return [self._clocked(frame) for frame in self.frames.kept]

    def _clocked(self, frame: Frame) -> Frame:
        """The clock of these frames is (log t)/β."""
        c = max(frame.log_time, self.first)
        return frame._replace(time=c, log_time=c)

    @property
    def mergers(self) -> Mergers:
        return self.ledger.mergers()

    @property
    def clock(self) -> str:
        return f"(log t)/beta, {self.field.clock}"

    @property
    def share(self) -> float:
        return len(self.ledger.rows) / max(len(self.x) - 1, 1)

    def advance(self) -> list[Frame]:
        """Merge pairs until a frame is due."""
        while self.left.sum() > 1:
            i = int(self.square[np.arange(len(self.x)), self.nearest].argmin())
            i, j = sorted((i, int(self.nearest[i])))
            angle = 2 * math.asin(min(math.sqrt(self.square[i, j]) / 2, 1.0))
            if math.pi - angle < 1e-12:
                return self._close("Two antipodal clusters are left, which never move.")
            self._merge(i, j, angle)
            new = self.frames.offer(*self._standing(), reached=False, merged=True)
            if new is not None:
                return [self._clocked(new)]
        return self._close("All tokens are one.")

    def _standing(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        left, ledger = self.left, self.ledger
        return self.x[left], ledger.masses[left], ledger.names[left], self.now

    def _merge(self, i: int, j: int, angle: float) -> None:
        x, square, nearest, left = self.x, self.square, self.nearest, self.left
        own, other = self.ledger.masses[[i, j]] ** self.power
        x[i] = _between(x[i], x[j], angle, other / (own + other))
        wait = self.first + square[i, j] / 2  # 1 − cos φ, or −cos φ
        self.now = max(self.now, wait)
        self.ledger.join(i, j, angle, self.now, wait)
        left[j] = False
        square[j] = square[:, j] = np.inf
        square[i] = square[:, i] = np.where(left, np.sum((x - x[i]) ** 2, axis=1), np.inf)
        square[i, i] = np.inf
        stale = np.flatnonzero(left & ((nearest == i) | (nearest == j)))
        nearest[stale] = square[stale].argmin(axis=1)
        nearest[i] = square[i].argmin()
        nearest[square[:, i] < square[np.arange(len(x)), nearest]] = i

    def end(self) -> None:
        self.outcome = Outcome.interrupted(self.now)
        self.frames.close(*self._standing(), still=False)

    def _close(self, message: str) -> list[Frame]:
        self.outcome = Outcome("done", message)
        return [self._clocked(f) for f in self.frames.close(*self._standing(), still=True)]

    def statistics(self) -> dict[str, Any]:
        return {"events": len(self.ledger.rows), "stepper": "events"}


def _between(x: np.ndarray, y: np.ndarray, angle: float, share: float) -> np.ndarray:
    """The point that share of the way along the geodesic from x to y."""
    if angle == 0:
        return x
    mean = math.sin((1 - share) * angle) * x + math.sin(share * angle) * y
    return mean / np.linalg.norm(mean)


def _attracts(field: SelfAttention) -> bool:
    operators = (field.query, field.key, field.value)
    q, k, v = (1.0 if o is None or o.ndim else float(o) for o in operators)
    return field.isotropic and q * k > 0 and v > 0
