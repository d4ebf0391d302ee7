"""Verdicts on the run of a Gaussian."""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import solve_ivp

from metastable.comparison.case import Case, about
from metastable.comparison.forecast import matrices_of
from metastable.comparison.laws import budget
from metastable.core.verdict import Verdict, judge, not_applicable
from metastable.fields import SelfAttention
from metastable.flows import Fixed, Layers, Trajectory, flow
from metastable.measures import Gaussian
from metastable.theory import gaussian

LARGEST = 200  # of the dimension, for that: its equations are d² + d
FAR = 1 - 1e-6  # share of the way to a blow-up up to which closed forms are compared
SOURCE = "castin2025unified"
DERIVED = f"{SOURCE}; closed form derived"


@about(Gaussian)
def judge_gaussian(case: Case) -> tuple[Verdict, ...]:
    """Equation of the moments, closed forms and blow-up of a run that starts as a Gaussian."""
    run = case.run
    claims = {
        "covariance (Σ_0⁻¹ − t(A+Aᵀ))⁻¹, largest relative error": _covariance,
        "mean in closed form, largest relative error": _mean,
        "time of the blow-up": _blow_up,
        "rank of the limit": _rank,
    }
    head = run.field
    reason = ""
    if not isinstance(head, SelfAttention) or head.position or not head.normalized:
        reason = "needs one softmax head alone"
    elif case.discrete:
        reason = "a statement about continuous depth"
    rows = (_equation(case),)
    if reason or not isinstance(head, SelfAttention):
        return *rows, *(not_applicable(claim, SOURCE, reason) for claim in claims)
    facts = _Case(run, head)
    closed = (test(claim, facts) for claim, test in claims.items())
    return *rows, *_budgets(case, facts), *closed


def _budgets(case: Case, facts: _Case) -> list[Verdict]:
    """Volume, precision, mean and its distance in units of the spread, for any Q, K and V.

    d/dt log det Σ = 2 tr(VΣA), d/dt tr Σ⁻¹ = −2 tr(Σ⁻¹VΣA), d/dt‖m‖² = 2mᵀV(I + ΣA)m, and
    d/dt mᵀΣ⁻¹m = 2mᵀΣ⁻¹Vm, from which A has gone. Derived from the moments' equation.
    """
    columns: list[list[float]] = [[] for _ in range(8)]
    names = "log-volume", "trace of Σ⁻¹", "‖m‖²", "mᵀΣ⁻¹m"
    claims = [f"{name} gained over what the field gives" for name in names]
    value, form = facts.value, facts.form
    for frame in facts.frames:
        m, cov = np.asarray(frame.mean), np.asarray(frame.cov)
        if np.linalg.cond(cov) > 1e8:
            return [not_applicable(c, DERIVED, "the covariance is degenerate") for c in claims]
        inverse = np.linalg.inv(cov)
        pulled = value @ cov @ form
        row = (
            np.linalg.slogdet(cov)[1],
            2 * np.trace(pulled),
            np.trace(inverse),
            -2 * np.trace(inverse @ pulled),
            m @ m,
            2 * m @ (value @ m + pulled @ m),
            m @ inverse @ m,
            2 * m @ inverse @ value @ m,
        )
        for column, entry in zip(columns, row, strict=True):
            column.append(float(entry))
    if len(facts.frames) < len(case.times):
        return [not_applicable(c, DERIVED, "needs a Gaussian in every frame") for c in claims]
    series = [np.array(column) for column in columns]
    # The error is that of the stepper, with room.
    return [
        budget(case, claim, DERIVED, *series[2 * k : 2 * k + 2], error=1e-8)
        for k, claim in enumerate(claims)
    ]


def _equation(case: Case) -> Verdict:
    """Every interval from its first frame again: by the moments' own equation, written here for one
    softmax head, by the solver for other fields; layers by their affine map."""
    claim = "mean and covariance move by the stated field, worst error"
    frames = [frame for frame in case.run.frames if isinstance(frame, Gaussian)]
    times, stepper = case.times, case.run.stepper
    if len(frames) < 2 or frames[0].dim > LARGEST:
        why = f"needs two frames and a dimension of {LARGEST} at most"
        return not_applicable(claim, SOURCE, why)
    if case.discrete and not isinstance(stepper, Layers):
        return not_applicable(claim, SOURCE, "the run does not say how its layers step")
    head = case.field
    plain = isinstance(head, SelfAttention) and head.normalized and not head.position
    errors = []
    for k in range(len(frames) - 1):
        before, after, length = frames[k], frames[k + 1], float(times[k + 1] - times[k])
        if plain and isinstance(head, SelfAttention):
            form, value = _matrices(head, before.dim)
            mean, cov = (np.asarray(part) for part in (before.mean, before.cov))
            if isinstance(stepper, Layers):
                count = round(length / stepper.step)
                end = _layers(mean, cov, form, value, stepper, count)
            else:
                end = _moved(mean, cov, form, value, length)
        else:
            again = flow(before, head, length, stepper=stepper, frames=2)
            done = again.outcome.name == "done"
            end = (again.frames[-1].mean, again.frames[-1].cov) if done else None
        if end is None:
            continue  # a blow-up inside
        for one, other in zip(end, (after.mean, after.cov), strict=True):
            with np.errstate(over="ignore"):  # close to a blow-up
                size = np.linalg.norm(other)
            if 0 < size < math.inf:
                errors.append((float(np.linalg.norm(one - other) / size), float(times[k + 1])))
    if not errors:
        return not_applicable(claim, SOURCE, "no interval could be integrated again")
    worst, when = max(errors)
    allowed = 1e-10 if case.discrete else 1e-6
    if isinstance(stepper, Fixed):
        return not_applicable(claim, SOURCE, "the error of equal steps is not known")
    return judge(claim, SOURCE, 0.0, worst, absolute=allowed, reason=f"at t = {when:.4g}")


def _matrices(head: SelfAttention, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """A = βKᵀQ and V."""
    full = {name: np.eye(dim) if m is None else m for name, m in matrices_of(head, dim).items()}
    return float(head.beta) * full["key"].T @ full["query"], full["value"]


def _moved(
    mean: np.ndarray, cov: np.ndarray, form: np.ndarray, value: np.ndarray, length: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """ṁ = V(I + ΣA)m, Σ̇ = VΣAΣ + transpose, integrated by SciPy."""
    dim = len(mean)

    def velocity(_: float, state: np.ndarray) -> np.ndarray:
        mean, cov = state[:dim], state[dim:].reshape(dim, dim)
        moved = value @ cov @ form @ cov
        return np.concatenate([value @ (mean + cov @ (form @ mean)), (moved + moved.T).ravel()])

    start = np.concatenate([mean, cov.ravel()])
    with np.errstate(over="ignore", invalid="ignore"):  # a blow-up inside
        solved = solve_ivp(velocity, (0, length), start, method="DOP853", rtol=1e-10, atol=1e-12)
    end = solved.y[:, -1]
    return (end[:dim], end[dim:].reshape(dim, dim)) if solved.success else None


def _layers(
    mean: np.ndarray,
    cov: np.ndarray,
    form: np.ndarray,
    value: np.ndarray,
    stepper: Layers,
    count: int,
) -> tuple[np.ndarray, np.ndarray]:
    """x ← x + εV(m + ΣAx) on a Gaussian, layer by layer; without its ε² term if truncated."""
    step, eye = stepper.step, np.eye(len(mean))
    for _ in range(count):
        moved = step * value @ cov @ form
        whole = moved + eye if stepper.residual else moved
        new = whole @ cov @ whole.T
        if stepper.truncated:
            new = cov + moved @ cov + (moved @ cov).T
        mean, cov = whole @ mean + step * value @ mean, new
    return mean, cov


class _Case:
    """A run under one softmax head: A = βKᵀQ and V as d × d matrices, Gaussian frames and times.

    Where V = vI, `scale` is v, `blow_up` the time |v|t of the blow-up, and `closed` are the times
    vt of the frames before it; otherwise `scale` is None.
    """

    def __init__(self, run: Trajectory, head: SelfAttention):
        self.run, dim = run, run.frames[0].dim
        self.form, self.value = _matrices(head, dim)
        self.frames = [frame for frame in run.frames if isinstance(frame, Gaussian)]
        self.times = np.asarray(run.times, float)[: len(self.frames)]
        self.mean, self.cov = (np.asarray(part) for part in (run.frames[0].mean, run.frames[0].cov))
        scale = float(self.value[0, 0])
        self.scale = scale if np.abs(self.value - scale * np.eye(dim)).max() == 0 else None
        if self.scale is not None:
            # The run with V = vI is that with V = I and vA in the time vt; v may be negative.
            self.blow_up = gaussian.blow_up_time(self.cov, math.copysign(1.0, scale) * self.form)
            self.closed = scale * self.times[abs(scale) * self.times < FAR * self.blow_up]


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


def _rank(claim: str, case: _Case) -> Verdict:
    """With V = vI, v(A+Aᵀ) ≤ 0: Σ(t) → limit of rank d − rank(A+Aᵀ), reached like 1/t."""
    if not case.scale:
        return not_applicable(claim, DERIVED, "needs V a nonzero multiple of the identity")
    form = math.copysign(1.0, case.scale) * case.form
    if np.linalg.eigvalsh(form + form.T).max() > 1e-12 * max(1.0, np.abs(form).max()):
        return not_applicable(claim, DERIVED, "needs V(A+Aᵀ) ≤ 0: this covariance blows up")
    # Along a decaying axis of rate r the variance is at most 1/(r t), whatever it was.
    rates = -np.linalg.eigvalsh(form + form.T)
    time = abs(case.scale) * case.times[-1]
    decaying = rates[rates > 1e-9 * max(rates.max(initial=0.0), 1e-300)]
    variances = np.linalg.eigvalsh(np.asarray(case.frames[-1].cov))
    if not decaying.size or time * decaying.min() < 100 / max(variances.max(), 1e-300):
        return not_applicable(claim, DERIVED, "the run is too short for its limit to show")
    expected = len(rates) - decaying.size
    limit = 2 / (time * decaying.min())
    return judge(claim, DERIVED, expected, int(np.sum(variances > limit)), absolute=0.0)
