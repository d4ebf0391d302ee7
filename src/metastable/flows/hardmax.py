"""Attention at β = ∞: every token goes for one other, and only events remain to be found."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from metastable.core import checks
from metastable.core.numerics import is_traced
from metastable.core.outcome import Outcome
from metastable.fields import Field, SelfAttention
from metastable.flows.album import Album
from metastable.flows.mergers import Ledger
from metastable.flows.pursuit import pursue
from metastable.flows.trajectory import Trajectory
from metastable.measures import Points

__all__ = ["hardmax"]


def hardmax(
    measure: Points,
    field: Field,
    horizon: float = math.inf,
    *,
    frames: Any = 101,
    radius: float = 1e-6,
) -> Trajectory:
    """The limit β → ∞ of a field, from event to event; the field's own β plays no role.

    **On the sphere**, `SelfAttention` with Q, K, V multiples of the identity. In the clock
    dt = e^{β(1−max⟨x_i,x_j⟩)}ds only the closest pair moves, along its geodesic, token i at a speed
    in proportion to α_j/α_i (SA) or α_j (USA). Meanwhile no distance to a third token shrinks as
    fast as theirs, so they meet, α_j²/(α_i²+α_j²) (SA) or α_j/(α_i+α_j) (USA) of the way from i to
    j, and the run is a list of mergers. Its clock is c = lim (log t)/β: the largest 1 − cos φ so
    far (USA: −cos φ); `log_times` and `log_waits` are in this unit too.

    **In R^d**, `Rescaled(SelfAttention(...))` with V = λ > 0 and QᵀK + KᵀQ ≥ 0:
    ż_i = λ(z_k − z_i), k = argmax_k ⟨Qz_i,Kz_k⟩. While no argmax changes,
    z_i(t) = Σ_r e^{−λt}(λt)^r/r! z_{k^r(i)}(0), k^r(i) being the argmax taken r times. A token
    within `radius` of a resting one that it goes for is absorbed by it.

    Sources: arXiv:2410.06833 (sphere), arXiv:2305.05465 (R^d). Speeds, meeting points and the
    solution between events are derived here, checked against β = 1000 and against small steps.
    Ties go to the first token in order. `horizon`, and `frames` given as times, are for R^d;
    `frames` as in `staircase` otherwise. Time O(n²) per merger, memory O(n²).

    >>> import metastable as ms
    >>> tokens = ms.Points([[1.0, 0.0], [0.8, 0.6], [0.0, -1.0]])
    >>> hardmax(tokens, ms.SelfAttention(beta=1.0)).log_times.round(6).tolist()
    [0.0, 0.2, 1.316228]
    """
    if is_traced(measure, field):
        raise ValueError("hardmax cannot be traced by jit, grad or vmap: call it with numbers.")
    checks.positive("radius", radius)
    if not horizon > 0:
        raise ValueError(f"horizon must be > 0; got {horizon}: leave it out to run to the end.")
    what = f"hardmax of {measure.count} tokens"
    checks.fits_memory(what, 10.0 * measure.count**2, "use fewer tokens, or staircase(...)")
    if measure.on_sphere:
        return _on_sphere(measure, field, horizon, frames)
    return pursue(measure, field, float(horizon), frames, radius)


def _on_sphere(measure: Points, field: Field, horizon: float, frames: Any) -> Trajectory:
    began = time.perf_counter()
    if not isinstance(field, SelfAttention) or not _attracts(field):
        raise ValueError(
            "hardmax on the sphere needs a SelfAttention field with positive multiples of the "
            f"identity for query, key and value; got {field!r}."
        )
    if not math.isinf(horizon) or np.ndim(frames):
        raise ValueError("horizon and frame times have no meaning at beta = inf on the sphere.")
    x, ledger = np.array(measure.points), Ledger(measure.weights)
    album = Album(frames, math.inf, measure)
    clock = first = 0.0 if field.normalized else -1.0
    outcome = Outcome("done", "All tokens are one.")
    square = cdist(x, x, "sqeuclidean")
    np.fill_diagonal(square, np.inf)
    nearest = square.argmin(axis=1)
    left = np.ones(len(x), bool)
    for _ in range(len(x) - 1):
        i = int(square[np.arange(len(x)), nearest].argmin())
        i, j = sorted((i, int(nearest[i])))
        angle = 2 * math.asin(min(math.sqrt(square[i, j]) / 2, 1.0))
        if math.pi - angle < 1e-12:
            outcome = Outcome("done", "Two antipodal clusters are left, which never move.")
            break
        own, other = ledger.masses[[i, j]] ** (2 if field.normalized else 1)
        x[i] = _between(x[i], x[j], angle, other / (own + other))
        wait = first + square[i, j] / 2  # 1 − cos φ, or −cos φ
        clock = max(clock, wait)
        ledger.join(i, j, angle, clock, wait)
        left[j] = False
        square[j] = square[:, j] = np.inf
        square[i] = square[:, i] = np.where(left, np.sum((x - x[i]) ** 2, axis=1), np.inf)
        square[i, i] = np.inf
        stale = np.flatnonzero(left & ((nearest == i) | (nearest == j)))
        nearest[stale] = square[stale].argmin(axis=1)
        nearest[i] = square[i].argmin()
        nearest[square[:, i] < square[np.arange(len(x)), nearest]] = i
        album.see(x[left], ledger.masses[left], clock, reached=False, merged=True)
    album.close(x[left], ledger.masses[left], clock, still=True)
    log_times = np.maximum([frame.log_time for frame in album.kept], first)
    return Trajectory(
        times=log_times,
        frames=tuple(frame.measure for frame in album.kept),
        clock=f"(log t)/beta, {field.clock}",
        outcome=outcome,
        statistics={
            "events": len(ledger.rows),
            "stepper": "events",
            "seconds": time.perf_counter() - began,
        },
        field=field,
        log_times=log_times,
        mergers=ledger.mergers(),
    )


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
