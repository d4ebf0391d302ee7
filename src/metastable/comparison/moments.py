"""Laws of linear attention: one matrix moves all tokens."""

from __future__ import annotations

import math

import numpy as np

from metastable.comparison.case import Case, continuous
from metastable.comparison.equation import MARGIN
from metastable.core.verdict import Verdict, decide, judge, not_applicable
from metastable.fields import LinearAttention
from metastable.theory import moments

SOURCE = "tokens stay a linear image of their start, derived"
NARROW, LEAST = 1e-4, 1e-7  # how far tokens are from their line, for linear theory and steppers


@continuous
def projective_ratios(case: Case) -> Verdict | None:
    """x_i(t) = A(t)x_i(0) over its length, A the same for all: cross-ratios of brackets stay.

    ẋ_i = P_{x_i}(V M KᵀQ)x_i whatever the matrices. Ratios are told as long as no bracket of d
    tokens is nearly zero.
    """
    claim = "projective cross-ratios of tokens never change"
    field = case.field
    if not isinstance(field, LinearAttention) or not field.plain or not case.same_tokens:
        return None
    if not case.on_sphere or case.noisy:
        return None
    if case.tokens < case.dim + 2 or case.dim > 16:
        return not_applicable(claim, SOURCE, f"needs {case.dim + 2} tokens in 16 axes at most")
    ratios = moments.projective_ratios(case.points)
    # A bracket is known to the tokens' error over itself.
    steps = max(1.0, float(case.run.statistics.get("steps", 1)))
    least = _least_bracket(case.points)
    allowed = MARGIN * case.step_error * math.sqrt(steps) * (1 / least + 1 / least[0])
    with np.errstate(invalid="ignore"):
        errors = np.abs(ratios - ratios[0])
    sharp = np.isfinite(errors) & (allowed < 0.05)
    sharp[0] = False
    if not sharp.any():
        return not_applicable(claim, SOURCE, "tokens are too close to one plane to tell")
    over = np.where(sharp, errors / allowed, -1.0)
    at = np.unravel_index(int(np.argmax(over)), over.shape)
    when = f"logarithm, worst at t = {case.times[at[0]]:.4g}"
    return judge(claim, SOURCE, 0.0, float(errors[at]), absolute=float(allowed[at]), reason=when)


def _least_bracket(x: np.ndarray) -> np.ndarray:
    """The smallest of the brackets behind each ratio, (T, ratios)."""
    n, d = x.shape[-2:]
    rows = []
    for k in range(min(n, moments.MOST_RATIOS)):
        ends = [(k + j) % n for j in range(d + 2)]
        common, (s, t, a, b) = ends[: d - 2], ends[d - 2 :]
        pairs = ((s, a), (t, b), (s, b), (t, a))
        rows.append(np.min([np.abs(np.linalg.det(x[:, [*common, *p]])) for p in pairs], axis=0))
    return np.maximum(np.stack(rows, axis=1), 1e-300)


@continuous
def longest_axis_grows(case: Case) -> Verdict | None:
    """The largest second moment μ never falls: μ̇ = 2v(μ² − Σ w⟨x,Mx⟩⟨x,u⟩²) ≥ 0 for v > 0.

    For Q, K, V multiples of the identity with v their product; for v < 0 it never rises. Derived:
    ⟨x,Mx⟩ ≤ μ and Σ w⟨x,u⟩² = μ.
    """
    field = case.field
    if not isinstance(field, LinearAttention) or not field.isotropic or not case.same_tokens:
        return None
    if not case.on_sphere or case.noisy or float(field.strength) == 0:
        return None
    sign = math.copysign(1.0, float(field.strength))
    claim = f"the largest second moment never {'falls' if sign > 0 else 'rises'}"
    weights = np.asarray(case.start.weights)
    matrices = np.einsum("n,tnd,tne->tde", weights, case.points, case.points)
    change = sign * np.diff(np.linalg.eigvalsh(matrices)[:, -1])
    fall, allowed = float(change.min(initial=0.0)), MARGIN * case.step_error
    return decide(fall >= -allowed, claim, "derived", "≥ 0", fall, f"{allowed:.2g}")


@continuous
def line_contracts(case: Case) -> Verdict | None:
    """Near a line ±c tokens approach its ends at the rate κ⟨c,Vc⟩, κ = ⟨Qc,Kc⟩.

    Folded by their sign all tokens are one cluster: δ̇ = −v(δ − mean), v the product of Q, K, V.
    """
    claim, source = "rate at which tokens approach the ends of their line", "linearisation, derived"
    field = case.field
    if not isinstance(field, LinearAttention) or not field.isotropic or not case.same_tokens:
        return None
    if not case.on_sphere or case.noisy or float(field.strength) <= 0 or case.tokens < 2:
        return None
    weights = np.asarray(case.start.weights)
    moment = np.einsum("n,ni,nj->ij", weights, case.points[-1], case.points[-1])
    line = np.linalg.eigh(moment)[1][:, -1]
    folded = case.points * np.where(case.points[-1] @ line > 0, 1.0, -1.0)[:, None]
    apart = folded - np.einsum("n,tnd->td", weights, folded)[:, None]
    sizes = np.sqrt(np.einsum("n,tnd->t", weights, apart**2))
    widest = np.abs(apart).max(axis=(1, 2))
    narrow = np.flatnonzero((widest < NARROW) & (widest > LEAST))
    if narrow.size < 3 or narrow[-1] - narrow[0] != narrow.size - 1:
        return not_applicable(claim, source, "fewer than three frames near one line")
    first, last = int(narrow[0]), int(narrow[-1])
    span = float(case.times[last] - case.times[first])
    observed = -math.log(sizes[last] / sizes[first]) / span
    expected = float(field.strength)
    allowed = 10 * (widest[first] * max(1.0, expected) + 1e-10 / sizes[last] / span)
    ends = int(np.sum(case.points[-1] @ line > 0))
    reason = f"{ends} tokens at one end, {case.tokens - ends} at the other"
    return judge(claim, source, expected, observed, absolute=float(allowed), reason=reason)
