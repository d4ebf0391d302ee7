"""Laws of state-space layers on the sphere: earlier tokens lead, later ones follow."""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from metastable.comparison.case import Case, applied, continuous
from metastable.comparison.consensus import MANY
from metastable.comparison.equation import MARGIN
from metastable.core.verdict import Verdict, decide, judge, not_applicable
from metastable.fields import Field, StateSpace

SOURCE = "vo2025demystifying, on the sphere; derived"
NARROW, LEAST = 1e-4, 1e-7  # how far tokens are from their line, for linear theory and steppers


@continuous
def leaders_move_alone(case: Case) -> Verdict | None:
    """The first two tokens are a system of their own, solved here by SciPy: no other acts on them.

    ẋ_1 = m_1⟨Cx_1,Bx_1⟩P Vx_1 and ẋ_2 = P V(m_2⟨Cx_2,Bx_2⟩x_2 + e^{−am_2}m_1⟨Cx_2,Bx_1⟩x_1) with
    m_i = w_iΔ_i.
    """
    claim = "the first two tokens move by themselves, worst error"
    order = _order(case)
    if order is None:
        return None
    field = case.field
    assert isinstance(field, StateSpace)
    lead = order[:2]
    weights, decay = np.asarray(case.start.weights)[lead], float(field.decay)
    gate = None if field.gate is None else np.asarray(field.gate)

    def velocity(_: float, flat: np.ndarray) -> np.ndarray:
        x = flat.reshape(len(lead), case.dim)
        steps = np.ones(len(x)) if gate is None else np.logaddexp(0, x @ gate + float(field.bias))
        left, right, seen = (applied(m, x) for m in (field.query, field.key, field.value))
        pull = np.zeros_like(x)
        for i in range(len(x)):
            for j in range(i + 1):
                kept = math.exp(-decay * weights[i] * steps[i]) if j < i else 1.0
                pull[i] += kept * weights[j] * steps[j] * (left[i] @ right[j]) * seen[j]
        return (pull - np.sum(pull * x, axis=1, keepdims=True) * x).ravel()

    span = float(case.times[0]), float(case.times[-1])
    starts = case.points[0, lead], case.points[0, lead] + 1e-7 * np.roll(case.points[0, lead], 1)
    ways = [
        solve_ivp(velocity, span, s.ravel(), "DOP853", case.times, rtol=1e-11, atol=1e-13)
        for s in starts
    ]
    if any(way.y.shape[1] != len(case.times) for way in ways):
        return not_applicable(claim, SOURCE, "their equation is too stiff")
    error = float(np.abs(ways[0].y.T - case.points[:, lead].reshape(len(case.times), -1)).max())
    grown = 1 + float(np.abs(ways[1].y - ways[0].y).max()) / 1e-7
    steps = max(1.0, float(case.run.statistics.get("steps", 1)))
    allowed = MARGIN * case.step_error * steps * grown
    return judge(claim, SOURCE, 0.0, error, absolute=allowed)


@continuous
def first_token_rests(case: Case) -> Verdict | None:
    """V = vI: the first token sees itself alone, which exerts no force on it."""
    order = _order(case)
    if order is None or not _plain_value(case.field):
        return None
    x = case.points[:, order[0]]
    moved = float(np.linalg.norm(x - x[0], axis=1).max())
    return judge("the first token rests, moved by", SOURCE, 0.0, moved, absolute=1e-9)


@continuous
def ends_on_first_line(case: Case) -> Verdict | None:
    """C = B and V = vI, v > 0: each token is drawn to ±x_1 by the first, and by those there."""
    claim = "all tokens end at ±x_1, farthest"
    order = _order(case)
    if order is None or not _symmetric(case):
        return None
    along = np.abs(case.points[-1] @ case.points[0, order[0]])
    far = float(np.sqrt(np.maximum(1 - along**2, 0.0)).max())
    if far < 0.1:
        return judge(claim, SOURCE, 0.0, far, absolute=0.1)
    # The slowest rate says how long it takes; a token near the mirror of x_1 waits longer.
    least = float(np.min(np.abs(case.points[0] @ case.points[0, order[0]])))
    rate = float(np.min(-np.diagonal(_approach(case, order))[1:]))
    late = (4 + math.log(1 / max(least, 1e-12))) / max(rate, 1e-300)
    if case.times[-1] < 10 * late:
        away = f"farthest token still {far:.2g} away at t = {case.times[-1]:.4g}"
        return not_applicable(claim, SOURCE, away)
    return decide(False, claim, SOURCE, 0.0, far, "0.1", f"due by t = {late:.4g}")


@continuous
def line_approached(case: Case) -> Verdict | None:
    """Near ±x_1, folded by sign, δ̇_i = Σ_{j<i} c_ij(δ_j − δ_i): a triangle of rates.

    c_ij = v e^{−a(S_i−S_j)} w_jΔ_j at the line; the second token has the least of them all where
    steps are equal.
    """
    claim = "rate at which tokens approach the line of the first"
    order = _order(case)
    if order is None or not _symmetric(case) or case.tokens < 2 or case.tokens > MANY:
        return None
    lead = case.points[0, order[0]]
    signs = np.where(case.points[-1] @ lead > 0, 1.0, -1.0)
    folded = (case.points * signs[:, None])[:, order]
    apart = folded - lead
    wide = np.abs(apart).max(axis=(1, 2))
    narrow = np.flatnonzero((wide < NARROW) & (wide > LEAST))
    if narrow.size < 3 or narrow[-1] - narrow[0] != narrow.size - 1:
        return not_applicable(claim, SOURCE, "fewer than three frames near the line of the first")
    first, last = int(narrow[0]), int(narrow[-1])
    span = float(case.times[last] - case.times[first])
    left = expm(_approach(case, order) * span) @ apart[first]
    size = lambda a: float(np.linalg.norm(a))
    expected = -math.log(size(left) / size(apart[first])) / span
    observed = -math.log(size(apart[last]) / size(apart[first])) / span
    allowed = 10 * (wide[first] * (1 + abs(expected)) + 1e-9 / size(apart[last]) / span)
    return judge(claim, SOURCE, expected, observed, absolute=float(allowed))


def _approach(case: Case, order: np.ndarray) -> np.ndarray:
    """The triangle of rates at the line of the first token, in the order of times."""
    field = case.field
    assert isinstance(field, StateSpace)
    lead, n = case.points[0, order[0]], len(order)
    signs = np.where(case.points[-1][order] @ lead > 0, 1.0, -1.0)
    at = signs[:, None] * lead
    value = 1.0 if field.value is None else float(field.value)
    steps = np.asarray(field.steps(np.asarray(at)))  # pyright: ignore[reportArgumentType]
    masses = np.asarray(case.start.weights)[order] * steps
    sums = np.cumsum(masses)
    square = float(np.sum(applied(field.query, lead[None]) * applied(field.key, lead[None])))
    rates = np.exp(-float(field.decay) * np.maximum(sums[:, None] - sums, 0.0)) * masses
    rates = np.where(np.tri(n, k=-1) > 0, value * square * rates, 0.0)
    return rates - np.diag(rates.sum(axis=1))


def _plain_value(field: Field) -> bool:
    assert isinstance(field, StateSpace)
    return field.value is None or field.value.ndim == 0


def _symmetric(case: Case) -> bool:
    """C and B multiples of the identity and V = vI, with a positive product."""
    field = case.field
    operators = (field.query, field.key, field.value)  # pyright: ignore[reportAttributeAccessIssue]
    if any(o is not None and np.ndim(o) for o in operators):
        return False
    return math.prod(1.0 if o is None else float(o) for o in operators) > 0


def _order(case: Case) -> np.ndarray | None:
    """Tokens of a state-space layer in the order of their times, all of them different."""
    if not isinstance(case.field, StateSpace) or not case.on_sphere or not case.same_tokens:
        return None
    if case.noisy or case.discrete:
        return None
    times = np.asarray(case.start.positions)
    return np.argsort(times, kind="stable") if len(set(times.tolist())) == len(times) else None
