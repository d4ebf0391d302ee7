"""Laws of causal softmax with a sink: who comes first sees itself and the sink."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import expit

from metastable.comparison.case import Case, applied, continuous
from metastable.comparison.equation import MARGIN
from metastable.core.verdict import Verdict, judge, not_applicable
from metastable.fields import SinkAttention


@continuous
def first_token_and_sink(case: Case) -> Verdict | None:
    """ẋ_1 = w_1Z/(w_1Z + e^s) P Vx_1, Z = e^{β⟨Qx_1,Kx_1⟩}: e^{tV}x_1, slowed; by SciPy."""
    claim = "the first token moves by itself beside the sink, worst error"
    source = "karagodin2024clustering; sink derived"
    field = case.field
    if not isinstance(field, SinkAttention) or not field.causal or not case.same_tokens:
        return None
    if not case.on_sphere or case.noisy:
        return None
    order = np.sort(np.asarray(case.start.positions))
    if case.tokens > 1 and order[0] == order[1]:
        return not_applicable(claim, source, "several tokens come first")
    first = int(np.argmin(np.asarray(case.start.positions)))
    mass = float(np.log(np.asarray(case.start.weights)[first]))

    def velocity(_: float, x: np.ndarray) -> np.ndarray:
        left, right, seen = (applied(m, x[None])[0] for m in (field.query, field.key, field.value))
        share = expit(mass + float(field.beta) * float(left @ right) - float(field.sink))
        return share * (seen - (seen @ x) * x)

    span = float(case.times[0]), float(case.times[-1])
    start = case.points[0, first]
    ways = [
        solve_ivp(velocity, span, begin, "DOP853", case.times, rtol=1e-11, atol=1e-13)
        for begin in (start, start + 1e-7 * np.roll(start, 1))
    ]
    if any(way.y.shape[1] != len(case.times) for way in ways):
        return not_applicable(claim, source, "its equation is too stiff")
    error = float(np.abs(ways[0].y.T - case.points[:, first]).max())
    grown = 1 + float(np.abs(ways[1].y - ways[0].y).max()) / 1e-7
    steps = max(1.0, float(case.run.statistics.get("steps", 1)))
    return judge(claim, source, 0.0, error, absolute=MARGIN * case.step_error * steps * grown)


def sink_leader(case: Case) -> Verdict | None:
    """Causal with V = I: the sink slows each token by its own factor; all end at x_1(0)."""
    claim, source = "all tokens converge to x_1(0)", "karagodin2024clustering, Thm 4.1; derived"
    field = case.field
    if not isinstance(field, SinkAttention) or not field.causal or field.value is not None:
        return None
    if not case.on_sphere or case.noisy or not case.same_tokens:
        return None
    leader = case.points[0, int(np.argmin(np.asarray(case.start.positions)))]
    distance = float(np.linalg.norm(case.points[-1] - leader, axis=1).max())
    if distance > 0.1:
        far = f"farthest token still {distance:.2g} away at t = {case.times[-1]:.4g}"
        return not_applicable(claim, source, far)
    return judge(claim + ", farthest token", source, 0.0, distance, absolute=0.1)
