"""Hardmax attention from event to event, on the sphere and in R^d."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from metastable.core.numerics import jnp
from metastable.core.outcome import Outcome
from metastable.fields import Field, Rescaled, SelfAttention
from metastable.fields.attention import act
from metastable.flows.mergers import Ledger
from metastable.flows.solvers.frames import Frame, KeptFrames, MergingState, log_of
from metastable.flows.solvers.solver import Choices, MergerSolver
from metastable.measures import Points

TERMS = 24  # of the series for a leap of at most 1: 1/24! is below rounding
NOW = 1e-13  # a change of argmax nearer than this has come
LOOKS = 100_000  # the most in one run


class SphereHardmax(MergerSolver):
    """Mergers of attention on the sphere at β = ∞, the closest pair each time; see `Hardmax`."""

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
    def clock(self) -> str:
        return f"(log t)/beta, {self.field.clock}"

    def advance(self) -> list[Frame]:
        """Merge pairs until a frame is due."""
        while self.left.sum() > 1:
            i = int(self.square[np.arange(len(self.x)), self.nearest].argmin())
            i, j = sorted((i, int(self.nearest[i])))
            angle = 2 * math.asin(min(math.sqrt(self.square[i, j]) / 2, 1.0))
            if math.pi - angle < 1e-12:
                return self._close("Two antipodal clusters are left, which never move.")
            self._merge(i, j, angle)
            new = self.frames.offer(self._standing(), reached=False, merged=True)
            if new is not None:
                return [self._clocked(new)]
        return self._close("All tokens are one.")

    def _standing(self) -> MergingState:
        left, ledger = self.left, self.ledger
        return MergingState(self.x[left], ledger.masses[left], ledger.names[left], self.now)

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
        self.frames.close(self._standing(), still=False)

    def _close(self, message: str) -> list[Frame]:
        self.outcome = Outcome("done", message)
        return [self._clocked(f) for f in self.frames.close(self._standing(), still=True)]

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


class SpaceHardmax(MergerSolver):
    """ż_i = λ(z_k − z_i), k = argmax_k ⟨Qz_i,Kz_k⟩; see `Hardmax`."""

    def __init__(self, measure: Points, field: Field, horizon: float, how: Choices):
        self.form, self.rate = _checked(field, measure.dim)
        self.measure, self.field, self.radius = measure, field, how.stepper.radius
        self.frames = KeptFrames(how.frames, float(horizon), measure, how.spacing)

    def start(self) -> None:
        self.z, self.ledger = np.array(self.measure.points), Ledger(self.measure.weights)
        self.target = np.argmax(self.z @ self.form @ self.z.T, axis=1)
        self.t = self.epoch = 0.0
        self.looks = self.switches = 0

    def advance(self) -> list[Frame]:
        """Move from event to event until a frame is due."""
        while True:
            if np.array_equal(self.target, np.arange(len(self.z))):
                message = f"All tokens rest since t = {self.t:.6g}."
                return self._close(Outcome("done", message))
            if self.looks == LOOKS:
                return self._close(Outcome.step_limit(self.t, LOOKS))
            self.looks += 1
            switch, i, k = _next_switch(self.z, self.target, self.form)
            if switch <= NOW:
                self.target[i] = k
                self.switches += 1
                continue
            new = self._move(switch)
            if self.frames.complete:
                self.outcome = Outcome.done()
            if new is not None:
                return [new]

    def _move(self, switch: float) -> Frame | None:
        """Go to the next event; the frame, if one is due there."""
        targets = self.frames.targets
        arrival, guest = _next_arrival(self.z, self.target, self.radius)
        stop = self.rate * (targets[0] - self.t) if targets else math.inf
        leap = min(switch, arrival, stop, 1.0)
        self.z = _leap(self.z, self.target, leap)
        reached, merged = leap == stop, leap == arrival
        self.t = targets[0] if reached else self.t + leap / self.rate
        if merged:
            waits = log_of(self.t), log_of(self.t - self.epoch)
            self.z, self.target = _absorb(self.z, self.target, guest, self.ledger, *waits)
            self.epoch = self.t
        return self.frames.offer(self._standing(), reached=reached, merged=merged)

    def _standing(self) -> MergingState:
        return MergingState(self.z, self.ledger.masses, self.ledger.names, log_of(self.t))

    def end(self) -> None:
        self._close(Outcome.interrupted(self.t))

    def _close(self, outcome: Outcome) -> list[Frame]:
        self.outcome = outcome
        return self.frames.close(self._standing(), still=outcome.name == "done")

    def statistics(self) -> dict[str, Any]:
        return {
            "steps": self.looks,
            "events": self.switches + len(self.ledger.rows),
            "stepper": "events",
            "radius": self.radius,
        }


def _checked(field: Field, dim: int) -> tuple[np.ndarray, float]:
    """QᵀK and λ."""
    attention = field.attention if isinstance(field, Rescaled) else None
    value = None if attention is None else attention.value
    rate = 1.0 if value is None else float(value) if value.ndim == 0 else -1.0
    if attention is None or attention.position or rate <= 0:
        raise ValueError(
            "hardmax in R^d needs Rescaled(SelfAttention(...)) with a positive multiple of the "
            f"identity for value, without mask or positions; got {field!r}."
        )
    identity = jnp.eye(dim)
    form = np.asarray(act(attention.query, identity) @ act(attention.key, identity).T)
    if np.linalg.eigvalsh(form + form.T)[0] < -1e-12 * np.linalg.norm(form, 2):
        raise ValueError(
            "hardmax in R^d needs QᵀK + KᵀQ ≥ 0; got a negative eigenvalue: tokens would switch "
            "back and forth for ever."
        )
    return form, rate


def _leap(z: np.ndarray, target: np.ndarray, t: float) -> np.ndarray:
    """z_i(t) = Σ_r e^{−t}t^r/r! z_{k^r(i)}(0), the exact solution while no target changes."""
    share, moved = math.exp(-t), np.zeros_like(z)
    chain = np.arange(len(z))
    for r in range(TERMS):
        moved += share * z[chain]
        share *= t / (r + 1)
        chain = target[chain]
    return moved


def _next_switch(z: np.ndarray, target: np.ndarray, form: np.ndarray) -> tuple[float, int, int]:
    """A time up to which no argmax changes, with the token and the new target that limit it.

    f = ⟨Qz_i,K(z_k−z_m)⟩ ≤ 0 for the target m of i and every other k. With |f̈| ≤ M the root of
    f + ḟt + Mt²/2 is never too late, and converges to the change like Newton's method.
    """
    row = np.arange(len(z))
    v = z[target] - z
    a = v[target] - v
    # Along a chain of targets the motion is an average, so its largest entry bounds the future.
    far, fast, bent = (_along(np.linalg.norm(q, axis=1), target) for q in (z, v, a))
    relative = lambda q: q - q[row, target][:, None]
    f = np.minimum(relative(z @ form @ z.T), 0.0)
    df = relative(v @ form @ z.T + z @ form @ v.T)
    pair = lambda q: q[target][:, None] + q[None, :]
    apart = cdist(z, z)[target] + pair(fast)  # for times up to 1
    bound = bent[:, None] * apart + 2 * fast[:, None] * pair(fast) + far[:, None] * pair(bent)
    bound *= np.linalg.norm(form, 2)
    root = np.sqrt(df**2 - 2 * bound * f)
    with np.errstate(divide="ignore", invalid="ignore"):
        wait = np.where(df > 0, -2 * f / (df + root), (root - df) / bound)
    scale = np.linalg.norm(form, 2) * np.max(far) ** 2
    tied = (f > -1e-15 * scale) & (np.abs(df) < 1e-13 * scale)
    wait[tied | np.isnan(wait)] = np.inf
    wait[row, target] = np.inf
    i, k = np.unravel_index(np.argmin(wait), wait.shape)
    return float(wait[i, k]), int(i), int(k)


def _along(value: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The largest value on each token's chain of targets."""
    while True:
        larger = np.maximum(value, value[target])
        if np.array_equal(larger, value):
            return value
        value = larger


def _next_arrival(z: np.ndarray, target: np.ndarray, radius: float) -> tuple[float, int]:
    """When the first token comes within radius of a resting one that it moves toward."""
    goes = (target != np.arange(len(z))) & (target[target] == target)
    gap = np.linalg.norm(z[target] - z, axis=1)
    wait = np.where(goes, np.log(np.maximum(gap / radius, 1.0)), np.inf)
    return float(wait.min()), int(wait.argmin())


def _absorb(
    z: np.ndarray, target: np.ndarray, guest: int, ledger: Ledger, log_time: float, log_wait: float
) -> tuple[np.ndarray, np.ndarray]:
    """The guest becomes part of its target, in the row of the first of the two."""
    host = int(target[guest])
    kept, gone = sorted((host, guest))
    gap = float(np.linalg.norm(z[guest] - z[host]))
    ledger.join(kept, gone, gap, log_time, log_wait)
    ledger.drop(gone)
    z[kept] = z[host]
    target = np.where(np.isin(target, [kept, gone]), kept, target)
    target[kept] = kept
    target = np.delete(target, gone)
    return np.delete(z, gone, axis=0), target - (target > gone)
