"""Laws of change, dq/dt = r, held against frames: no equation is solved."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from metastable.comparison.case import Case
from metastable.comparison.equation import MARGIN, WIDE, weights_of
from metastable.core.verdict import Verdict, judge, not_applicable
from metastable.fields.schedule import jumps
from metastable.measures import Points

LEAST = 1e-9  # relative error of a stepper over an interval
SHARP = 0.02  # of what is given over an interval: what the allowed error may be at most


class Balance(NamedTuple):
    """Gained over given on the interval that fits least, what is allowed there, and where."""

    ratio: float
    allowed: float
    time: float
    intervals: int


def balance(
    case: Case, values: np.ndarray, rates: np.ndarray, error: float = 1e-12
) -> Balance | None:
    """Changes of q between frames over the integral of its rate r; None where none is sharp.

    The integral is that of a polynomial through the rates of the eight frames around, its error
    the largest difference to those through fewer, there and in the intervals beside it; ten of
    these are allowed, and the relative `error` of q. Only
    intervals count over which the same polynomials follow every token.
    """
    times, switches = case.times, np.array(jumps(case.field), float)
    rows = []  # interval, gained, given, error of what is given
    for k in np.flatnonzero(np.isfinite(np.diff(times)) & (np.diff(times) > 0)):
        low = switches[switches <= times[k]].max(initial=-math.inf)
        high = switches[switches > times[k]].min(initial=math.inf)
        usable = np.flatnonzero((times >= low) & (times < high))
        near = usable[np.argsort(np.abs(times[usable] - times[k : k + 2].mean()), kind="stable")]
        if near.size < WIDE or times[k + 1] >= high:
            continue
        chosen = [np.sort(near[:width]) for width in range(WIDE, WIDE - 4, -1)]
        weights = [weights_of(times[nodes], times[k], times[k + 1]) for nodes in chosen]
        if not _resolved(case, int(k), chosen, weights):
            continue
        given = [w @ rates[nodes] for w, nodes in zip(weights, chosen, strict=True)]
        # One difference may vanish by chance: several, and those of the neighbours below.
        unsure = max(abs(given[0] - other) for other in given[1:3])
        unsure = max(unsure, abs(given[1] - given[3]))
        rows.append((k, values[k + 1] - values[k], given[0], unsure))
    if not rows:
        return None
    where, gained, given, unsure = (np.array(column) for column in zip(*rows, strict=True))
    around = np.pad(unsure, 2, mode="edge")
    unsure = np.max([around[j : j + len(unsure)] for j in range(5)], axis=0)
    unsure = unsure + error * np.maximum(np.abs(values[where]), np.abs(values[where + 1]))
    with np.errstate(divide="ignore", invalid="ignore"):
        allowed, ratio = MARGIN * (unsure / np.abs(given) + LEAST), gained / given
    sharp = np.flatnonzero(allowed < SHARP)
    if not sharp.size:
        return None
    worst = sharp[np.argmax(np.abs(ratio[sharp] - 1) / allowed[sharp])]
    time = float(times[where[worst] + 1])
    return Balance(float(ratio[worst]), float(allowed[worst]), time, sharp.size)


def budget(
    case: Case,
    claim: str,
    source: str,
    values: np.ndarray,
    rates: np.ndarray,
    *,
    error: float = 1e-12,
    note: str = "",
) -> Verdict:
    """The row of a law of change: gained over given must be 1 on every interval."""
    found = balance(case, values, rates, error)
    if found is None:
        why = "nothing changes, or the frames are too far apart to tell: keep more"
        return not_applicable(claim, source, why)
    reason = f"worst at t = {found.time:.4g}, of {found.intervals} sharp intervals{note}"
    return judge(claim, source, 1.0, found.ratio, absolute=found.allowed, reason=reason)


def _resolved(case: Case, k: int, nodes: list[np.ndarray], weights: list[np.ndarray]) -> bool:
    """Whether velocities at the frames tell the way of all tokens over interval k."""
    if not isinstance(case.start, Points):
        return True
    v = case.velocities
    ways = [np.tensordot(weights[j], v[nodes[j]], axes=1) for j in (0, 2)]
    moved = np.linalg.norm(case.run.frames[k + 1].points - case.run.frames[k].points, axis=1)
    unsure = np.linalg.norm(ways[0] - ways[1], axis=1).max()
    return bool(MARGIN * unsure < SHARP * moved.max())


def derivative(case: Case, k: int, width: int) -> np.ndarray:
    """Velocities of all tokens at frame k, from the frames around alone, (n, d)."""
    order = np.argsort(np.abs(case.times - case.times[k]), kind="stable")
    nodes = np.sort(order[:width])
    t = case.times[nodes] - case.times[k]
    scale = np.abs(t).max()
    powers = (t / scale)[None, :] ** np.arange(width)[:, None]
    weights = np.linalg.solve(powers, np.eye(width)[1]) / scale
    return np.tensordot(weights, case.points[nodes], axes=1)
