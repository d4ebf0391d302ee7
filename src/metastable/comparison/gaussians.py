"""Verdicts on the run of a Gaussian."""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import solve_ivp

from metastable.comparison.prediction import matrices_of
from metastable.core.verdict import Verdict, judge, not_applicable
from metastable.fields import SelfAttention
from metastable.flows import Trajectory
from metastable.measures import Gaussian
from metastable.theory import gaussian

SPANS = 24  # intervals between frames that are integrated again
LARGEST = 200  # of the dimension, for that: its equations are d² + d
FAR = 1 - 1e-6  # share of the way to a blow-up up to which closed forms are compared
SOURCE = "castin2025unified"


def judge_gaussian(run: Trajectory) -> tuple[Verdict, ...]:
    """Equation of the moments, closed forms and blow-up of a run that starts as a Gaussian."""
    claims = {
        "mean and covariance move by the stated field, largest relative error": _moments,
        "covariance (Σ_0⁻¹ − t(A+Aᵀ))⁻¹, largest relative error": _covariance,
        "mean in closed form, largest relative error": _mean,
        "time of the blow-up": _blow_up,
    }
    head = run.field
    reason = ""
    if not isinstance(head, SelfAttention) or head.causal or head.position or not head.normalized:
        reason = "needs one softmax head alone"
    elif str(run.statistics.get("stepper", "")).startswith("layers"):
        reason = "a statement about continuous depth"
    if reason or not isinstance(head, SelfAttention):
        return tuple(not_applicable(claim, SOURCE, reason) for claim in claims)
    return tuple(test(claim, run, head) for claim, test in claims.items())


def _matrices(run: Trajectory, head: SelfAttention) -> tuple[np.ndarray, np.ndarray]:
    """A = βKᵀQ and V as d × d matrices."""
    dim = run.frames[0].dim
    full = {name: np.eye(dim) if m is None else m for name, m in matrices_of(head, dim).items()}
    return float(head.beta) * full["key"].T @ full["query"], full["value"]


def _states(run: Trajectory) -> tuple[np.ndarray, list[Gaussian]]:
    kept = [frame for frame in run.frames if isinstance(frame, Gaussian)]
    return np.asarray(run.times, float)[: len(kept)], kept


def _moments(claim: str, run: Trajectory, head: SelfAttention) -> Verdict:
    times, frames = _states(run)
    dim = frames[0].dim
    if len(frames) < 2 or dim > LARGEST:
        why = f"needs two frames and a dimension of {LARGEST} at most"
        return not_applicable(claim, SOURCE, why)
    form, value = _matrices(run, head)

    def velocity(_: float, state: np.ndarray) -> np.ndarray:
        mean, cov = state[:dim], state[dim:].reshape(dim, dim)
        moved = value @ cov @ form @ cov
        return np.concatenate([value @ (mean + cov @ (form @ mean)), (moved + moved.T).ravel()])

    errors = []
    for k in np.unique(np.linspace(0, len(frames) - 2, SPANS).astype(int)):
        start, end = (np.concatenate([f.mean, f.cov.ravel()]) for f in frames[k : k + 2])
        solved = solve_ivp(
            velocity, times[k : k + 2], start, method="DOP853", rtol=1e-10, atol=1e-12
        )
        if not solved.success:
            continue
        gap = solved.y[:, -1] - end
        errors += [
            np.linalg.norm(gap[part]) / max(np.linalg.norm(end[part]), 1e-300)
            for part in (slice(dim), slice(dim, None))
            if np.linalg.norm(end[part]) > 0
        ]
    if not errors:
        return not_applicable(claim, SOURCE, "no span between frames could be integrated again")
    return judge(claim, SOURCE, 0.0, float(max(errors)), absolute=1e-6)


def _closed(run: Trajectory, head: SelfAttention) -> tuple[np.ndarray, np.ndarray, float] | None:
    """A, the times vt of V = vI that come before the blow-up, and v; None for another V."""
    form, value = _matrices(run, head)
    scale = float(value[0, 0])
    if np.abs(value - scale * np.eye(len(value))).max() > 0:
        return None
    times, frames = _states(run)
    # The run with V = vI is that with V = I and vA in the time vt; v may be negative.
    last = gaussian.blow_up_time(np.asarray(frames[0].cov), math.copysign(1.0, scale) * form)
    return form, times[abs(scale) * times < FAR * last], scale


def _covariance(claim: str, run: Trajectory, head: SelfAttention) -> Verdict:
    source = f"{SOURCE}; closed form derived"
    closed = _closed(run, head)
    if closed is None:
        return not_applicable(claim, source, "needs V a multiple of the identity")
    form, times, scale = closed
    _, frames = _states(run)
    start = np.asarray(frames[0].cov)
    errors = []
    for t, frame in zip(times, frames, strict=False):
        expected = gaussian.covariance_at(scale * t, start, form)
        errors.append(np.linalg.norm(frame.cov - expected) / max(np.linalg.norm(expected), 1e-300))
    return judge(claim, source, 0.0, float(max(errors)), absolute=1e-6)


def _mean(claim: str, run: Trajectory, head: SelfAttention) -> Verdict:
    source = f"{SOURCE}; closed form derived"
    closed = _closed(run, head)
    form = None if closed is None else closed[0]
    if closed is None or form is None or not np.allclose(form, form.T, rtol=1e-12, atol=0):
        return not_applicable(claim, source, "needs V a multiple of the identity and KᵀQ symmetric")
    _, times, scale = closed
    _, frames = _states(run)
    mean, cov = np.asarray(frames[0].mean), np.asarray(frames[0].cov)
    if not np.any(mean):
        return not_applicable(claim, source, "the mean is zero throughout")
    errors = []
    for t, frame in zip(times, frames, strict=False):
        expected = gaussian.mean_at(scale * t, mean, cov, form)
        size = np.linalg.norm(expected)
        if 0 < size < math.inf:
            errors.append(np.linalg.norm(frame.mean - expected) / size)
    return judge(claim, source, 0.0, float(max(errors)), absolute=1e-6)


def _blow_up(claim: str, run: Trajectory, head: SelfAttention) -> Verdict:
    source = f"{SOURCE}; closed form derived"
    closed = _closed(run, head)
    if closed is None or closed[2] == 0:
        return not_applicable(claim, source, "needs V a nonzero multiple of the identity")
    form, _, scale = closed
    cov = np.asarray(run.frames[0].cov)
    expected = gaussian.blow_up_time(cov, math.copysign(1.0, scale) * form) / abs(scale)
    observed = float(run.statistics.get("blow_up_time", math.inf))
    if math.isinf(observed) and expected > float(run.times[-1]):
        later = f"it comes at t = {expected:.6g}, after the run"
        return not_applicable(claim, source, "there is none" if math.isinf(expected) else later)
    return judge(claim, source, expected, observed, relative=1e-6)
