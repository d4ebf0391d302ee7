"""Does the run obey its own equation, clock and energy law?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from metastable.comparison.case import Case, continuous
from metastable.core.verdict import Verdict, decide, judge, not_applicable
from metastable.measures import Points
from metastable.observe import log_potential
from metastable.observe.summary import energy_form
from metastable.theory.configurations import scaled_energy_lower_bound

PAPER = "geshkovski2023mathematical"


def stays_on_sphere(case: Case) -> Verdict | None:
    if not case.on_sphere:
        return None
    drift = max(
        float(np.max(np.abs(np.linalg.norm(np.asarray(f.points), axis=1) - 1)))
        for f in case.run.frames
    )
    return judge("frames lie on the sphere", "definition", 0.0, drift, absolute=1e-12)


@continuous
def follows_field(case: Case) -> Verdict | None:
    """Displacement between frames against Simpson's rule on the stated velocity, for 64 tokens."""
    claim = f"tokens move by the stated field in the {case.run.clock} clock"
    source = "definition of the field"
    if case.noisy:
        return not_applicable(claim, source, "with noise single paths do not follow the drift")
    chosen = np.unique(np.linspace(0, case.tokens - 1, 64).astype(int))
    frames, times = case.run.frames, case.times
    if any(frame.count != case.tokens for frame in frames):
        return not_applicable(claim, source, "tokens merge during the run")

    def velocity(k: int) -> np.ndarray:
        frame = frames[k]
        at = Points(frame.points[chosen], times=frame.positions[chosen], on_sphere=frame.on_sphere)
        return np.asarray(case.field.velocity(frame, at=at, t=times[k]))

    errors = []
    for k, simpson in _integrals(velocity, times, 12, 1e-7):
        moved = np.asarray(frames[k + 1].points[chosen] - frames[k - 1].points[chosen])
        errors.append(np.linalg.norm(moved - simpson) / np.linalg.norm(simpson))
    if not errors:
        return not_applicable(claim, source, "the frames are too far apart to tell: keep more")
    return judge(claim, source, 0.0, float(np.median(errors)), absolute=0.01)


@continuous
def energy_monotone(case: Case) -> Verdict | None:
    claim = "the energy never falls" if _rising(case) else "the energy never rises"
    source = f"{PAPER}, §3"
    if case.energies is None:
        return None
    if case.noisy:
        return not_applicable(claim, source, "with noise the energy need not be monotone")
    own = case.alone and case.head is not None and energy_form(case.head) is not None
    if not (case.isotropic or own):
        return not_applicable(claim, source, "needs Q = K = I and V = ±I, or V = QᵀK symmetric")
    change = np.diff(case.energies) * (1 if _rising(case) else -1)
    worst = float(min(change.min(initial=0.0), 0.0)) / float(np.abs(case.energies).max())
    return judge(claim, source, 0.0, worst, absolute=1e-10)


@continuous
def energy_identity(case: Case) -> Verdict | None:
    """E(t+h) − E(t−h) against Simpson's rule on the dissipation, frames all round the run."""
    law = "∫‖v‖²Z dμ" if case.normalized else "∫‖v‖² dμ"
    claim, source = f"dE/dt = {law}", f"{PAPER}, §3"
    if not case.isotropic or case.energies is None or case.beta == 0:
        return None
    if case.tokens > 5000:
        return not_applicable(claim, source, "too many tokens for a direct sum at each frame")
    sign = 1.0 if case.attractive else -1.0

    def dissipation(k: int) -> float:
        frame = case.run.frames[k]
        speed = np.sum(np.asarray(case.field.velocity(frame)) ** 2, axis=1)
        log_z = np.asarray(log_potential(frame, case.beta)) if case.normalized else 0.0
        weighted = np.asarray(frame.weights) * speed * np.exp(log_z - case.beta)
        return 2 * case.beta * float(np.sum(weighted))

    ratios = [
        sign * (case.energies[k + 1] - case.energies[k - 1]) / simpson
        for k, simpson in _integrals(dissipation, case.times, 8, 1e-9)
    ]
    if not ratios:
        return not_applicable(claim, source, "the frames are too far apart to tell: keep more")
    claim += ", gained over given"
    return judge(claim, source, 1.0, float(np.median(ratios)), relative=0.01)


def energy_bounds(case: Case) -> Verdict | None:
    claim, source = "2βe^{−β}E lies between uniform and one point", f"{PAPER}, §3"
    if not case.isotropic or case.energies is None or case.beta == 0:
        return None
    low = float(scaled_energy_lower_bound(case.beta, case.dim))
    least, most = float(case.energies.min()), float(case.energies.max())
    inside = low * (1 - 1e-12) <= least and most <= 1 + 1e-12
    span = f"{least:.6g} to {most:.6g}"
    return decide(inside, claim, source, f"{low:.6g} to 1", span, "1e-12")


def _integrals(
    rate: Callable[[int], Any], times: np.ndarray, most: int, least: float
) -> Iterator[tuple[int, Any]]:
    """Integrals of `rate` over up to `most` triples of frames: their middle, and Simpson's rule.

    Triples are equally spaced, and spread over the run. Rules of order 2 and 4 that agree to 2 %
    make the error of the better one negligible; others, and sizes below `least`, are left out.
    """
    middles = np.arange(1, times.size - 1)
    middles = middles[np.isclose(np.diff(times)[:-1], np.diff(times)[1:], rtol=1e-9)]
    if middles.size > most:
        middles = middles[np.unique(np.linspace(0, middles.size - 1, most).astype(int))]
    for k in middles:
        h = times[k] - times[k - 1]
        before, here, after = (rate(j) for j in (k - 1, k, k + 1))
        simpson = h / 3 * (before + 4 * here + after)
        gap = simpson - h / 2 * (before + 2 * here + after)
        if np.linalg.norm(simpson) > least and np.linalg.norm(gap) < 0.02 * np.linalg.norm(simpson):
            yield k, simpson


def _rising(case: Case) -> bool:
    value = None if case.head is None else case.head.value
    return value is None or value.ndim > 0 or float(value) > 0
