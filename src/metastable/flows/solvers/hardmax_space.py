"""Hardmax attention in R^d: each token moves toward its argmax token, from event to event."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from metastable.core.numerics import jnp
from metastable.core.outcome import Outcome
from metastable.fields import Field, Rescaled
from metastable.fields.attention import act
from metastable.flows.mergers import Ledger, Mergers
from metastable.flows.solvers.frames import Frame, KeptFrames
from metastable.flows.solvers.solver import Choices, Solver
from metastable.measures import Points

TERMS = 24  # of the series for a leap of at most 1: 1/24! is below rounding
NOW = 1e-13  # a change of argmax nearer than this has come
LOOKS = 100_000  # the most in one run


class SpaceHardmax(Solver):
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

    @property
    def kept(self) -> list[Frame]:
        return self.frames.kept

    @property
    def mergers(self) -> Mergers:
        return self.ledger.mergers()

    @property
    def share(self) -> float:
        return len(self.ledger.rows) / max(self.measure.count - 1, 1)

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
            waits = _log(self.t), _log(self.t - self.epoch)
            self.z, self.target = _absorb(self.z, self.target, guest, self.ledger, *waits)
            self.epoch = self.t
        return self.frames.offer(*self._standing(), reached=reached, merged=merged)

    def _standing(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        return self.z, self.ledger.masses, self.ledger.names, _log(self.t)

    def end(self) -> None:
        self._close(Outcome.interrupted(self.t))

    def _close(self, outcome: Outcome) -> list[Frame]:
        self.outcome = outcome
        return self.frames.close(*self._standing(), still=outcome.name == "done")

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


def _log(t: float) -> float:
    return math.log(t) if t > 0 else -math.inf
