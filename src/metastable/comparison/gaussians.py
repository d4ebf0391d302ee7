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
DERIVED = f"{SOURCE}; closed form derived"


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
    case = _Case(run, head)
    return tuple(test(claim, case) for claim, test in claims.items())


class _Case:
    """A run under one softmax head: A = βKᵀQ and V as d × d matrices, Gaussian frames and times.

    Where V = vI, `scale` is v, `blow_up` the time |v|t of the blow-up, and `closed` are the times
    vt of the frames before it; otherwise `scale` is None.
    """

    def __init__(self, run: Trajectory, head: SelfAttention):
        self.run, dim = run, run.frames[0].dim
        full = {name: np.eye(dim) if m is None else m for name, m in matrices_of(head, dim).items()}
        self.form, self.value = float(head.beta) * full["key"].T @ full["query"], full["value"]
        self.frames = [frame for frame in run.frames if isinstance(frame, Gaussian)]
        self.times = np.asarray(run.times, float)[: len(self.frames)]
        self.mean, self.cov = (np.asarray(part) for part in (run.frames[0].mean, run.frames[0].cov))
        scale = float(self.value[0, 0])
        self.scale = scale if np.abs(self.value - scale * np.eye(dim)).max() == 0 else None
        if self.scale is not None:
            # The run with V = vI is that with V = I and vA in the time vt; v may be negative.
            self.blow_up = gaussian.blow_up_time(self.cov, math.copysign(1.0, scale) * self.form)
            self.closed = scale * self.times[abs(scale) * self.times < FAR * self.blow_up]


def _moments(claim: str, case: _Case) -> Verdict:
    times, frames, form, value = case.times, case.frames, case.form, case.value
    dim = frames[0].dim
    if len(frames) < 2 or dim > LARGEST:
        why = f"needs two frames and a dimension of {LARGEST} at most"
        return not_applicable(claim, SOURCE, why)

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


def _covariance(claim: str, case: _Case) -> Verdict:
    if case.scale is None:
        return not_applicable(claim, DERIVED, "needs V a multiple of the identity")
    errors = []
    for t, frame in zip(case.closed, case.frames, strict=False):
        expected = gaussian.covariance_at(t, case.cov, case.form)
        errors.append(np.linalg.norm(frame.cov - expected) / max(np.linalg.norm(expected), 1e-300))
    return judge(claim, DERIVED, 0.0, float(max(errors)), absolute=1e-6)


def _mean(claim: str, case: _Case) -> Verdict:
    if case.scale is None or not np.allclose(case.form, case.form.T, rtol=1e-12, atol=0):
        why = "needs V a multiple of the identity and KᵀQ symmetric"
        return not_applicable(claim, DERIVED, why)
    if not np.any(case.mean):
        return not_applicable(claim, DERIVED, "the mean is zero throughout")
    errors = []
    for t, frame in zip(case.closed, case.frames, strict=False):
        expected = gaussian.mean_at(t, case.mean, case.cov, case.form)
        size = np.linalg.norm(expected)
        if 0 < size < math.inf:
            errors.append(np.linalg.norm(frame.mean - expected) / size)
    return judge(claim, DERIVED, 0.0, float(max(errors)), absolute=1e-6)


def _blow_up(claim: str, case: _Case) -> Verdict:
    if not case.scale:
        return not_applicable(claim, DERIVED, "needs V a nonzero multiple of the identity")
    expected = case.blow_up / abs(case.scale)
    observed = float(case.run.statistics.get("blow_up_time", math.inf))
    if math.isinf(observed) and expected > float(case.run.times[-1]):
        later = f"it comes at t = {expected:.6g}, after the run"
        return not_applicable(claim, DERIVED, "there is none" if math.isinf(expected) else later)
    return judge(claim, DERIVED, expected, observed, relative=1e-6)
