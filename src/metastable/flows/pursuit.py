"""Tokens in R^d that each go for one other: attention at β = ∞, solved from event to event."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from metastable.core.numerics import jnp
from metastable.core.outcome import Outcome
from metastable.fields import Field, Rescaled
from metastable.fields.attention import act
from metastable.flows.album import Album
from metastable.flows.mergers import Ledger
from metastable.flows.trajectory import Trajectory
from metastable.measures import Points

__all__ = ["pursue"]

TERMS = 24  # of the series for a leap of at most 1: 1/24! is below rounding
NOW = 1e-13  # a change of argmax nearer than this has come
LOOKS = 100_000  # the most in one run


def pursue(measure: Points, field: Field, horizon: float, frames: Any, radius: float) -> Trajectory:
    """ż_i = λ(z_k − z_i), k = argmax_k ⟨Qz_i,Kz_k⟩; see `metastable.flows.hardmax`."""
    began = time.perf_counter()
    form, rate = _checked(field, measure.dim)
    z, ledger = np.array(measure.points), Ledger(measure.weights)
    album = Album(frames, horizon, measure)
    target = np.argmax(z @ form @ z.T, axis=1)
    t = epoch = 0.0
    outcome, looks, switches = None, 0, 0
    while outcome is None:
        if np.array_equal(target, np.arange(len(z))):
            outcome = Outcome("done", f"All tokens rest since t = {t:.6g}.")
            break
        if looks == LOOKS:
            outcome = Outcome.step_limit(t, LOOKS)
            break
        looks += 1
        switch, i, k = _next_switch(z, target, form)
        if switch <= NOW:
            target[i] = k
            switches += 1
            continue
        arrival, guest = _next_arrival(z, target, radius)
        stop = rate * (album.targets[0] - t) if album.targets else math.inf
        leap = min(switch, arrival, stop, 1.0)
        z = _leap(z, target, leap)
        reached, merged = leap == stop, leap == arrival
        t = album.targets[0] if reached else t + leap / rate
        if merged:
            z, target = _absorb(z, target, guest, ledger, _log(t), _log(t - epoch))
            epoch = t
        album.see(z, ledger.masses, _log(t), reached=reached, merged=merged)
        if album.complete:
            outcome = Outcome.done()
    album.close(z, ledger.masses, _log(t), still=outcome.name == "done")
    return Trajectory(
        times=np.array([frame.time for frame in album.kept]),
        frames=tuple(frame.measure for frame in album.kept),
        clock=field.clock or "none",
        outcome=outcome,
        statistics={
            "steps": looks,
            "events": switches + len(ledger.rows),
            "stepper": "events",
            "radius": radius,
            "seconds": time.perf_counter() - began,
        },
        field=field,
        log_times=np.array([frame.log_time for frame in album.kept]),
        mergers=ledger.mergers(),
    )


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
    """When the first token comes within radius of a resting one that it goes for."""
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
