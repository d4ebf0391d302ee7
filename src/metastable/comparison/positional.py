"""Laws of causal chains whose weights by position are normalised."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from metastable.comparison.case import Case, continuous
from metastable.comparison.equation import MARGIN
from metastable.core.verdict import Verdict, decide, judge, not_applicable
from metastable.fields.field import Superposition
from metastable.fields.heads import MultiHead
from metastable.fields.position import Alibi, Causal, Window
from metastable.fields.retrieval import PositionalAttention

SOURCE = "duerinckx2026kinetic, the chain; derived"


@continuous
def chain_leader_rests(case: Case) -> Verdict | None:
    """The first token sees itself alone, which exerts no force on it."""
    order = _chain(case)
    if order is None:
        return None
    x = case.points[:, order[0]]
    moved = float(np.linalg.norm(x - x[0], axis=1).max())
    return judge("the first token of the chain rests, moved by", SOURCE, 0.0, moved, absolute=1e-9)


@continuous
def second_follows_first(case: Case) -> Verdict | None:
    """The second token sees the first: φ̇ = −Σ_h o_h π_h e^{β_h cos φ} sin φ along their geodesic.

    π = w_1e^{−λΔ}/(w_1e^{−λΔ} + w_2), Δ the gap of their times, o_h what a head is multiplied by.
    Solved here by SciPy.
    """
    claim = "angle of the second token to the first, worst error"
    order = _chain(case)
    heads = _heads(case.field)
    if order is None or case.tokens < 2 or heads is None:
        return None
    first, second = order[:2]
    times, weights = np.asarray(case.start.positions), np.asarray(case.start.weights)
    gap = float(times[second] - times[first])
    pulls = []
    for head, output in heads:
        pull = weights[first]
        for bias in head.position:
            if isinstance(bias, Alibi):
                pull *= math.exp(-float(bias.slope) * gap)
            if isinstance(bias, Window) and gap >= float(bias.width) and times[first] >= bias.sinks:
                pull = 0.0
        pulls.append((output * pull / (pull + weights[second]), float(head.beta)))
    x, y = case.points[:, first], case.points[:, second]
    chord, sum_ = np.linalg.norm(x - y, axis=1), np.linalg.norm(x + y, axis=1)
    angles = 2 * np.arctan2(chord, sum_)
    force = lambda phi: sum(share * np.exp(beta * np.cos(phi)) for share, beta in pulls)
    speed = lambda _, phi: -force(phi) * np.sin(phi)
    span = float(case.times[0]), float(case.times[-1])
    way = solve_ivp(speed, span, angles[:1], t_eval=case.times, rtol=1e-10, atol=1e-12)
    if way.y.shape[1] != len(case.times):
        return not_applicable(claim, SOURCE, "its equation is too stiff")
    error = float(np.abs(way.y[0] - angles).max())
    steps = max(1.0, float(case.run.statistics.get("steps", 1)))
    # On a line an error grows as the speed does: much, from near the antipode.
    speeds = np.abs(speed(0.0, way.y[0]))
    grown = max(1.0, float(speeds.max()) / max(float(speeds[0]), 1e-12))
    allowed = MARGIN * case.step_error * steps * grown
    return judge(claim, SOURCE, 0.0, error, absolute=allowed)


@continuous
def chain_ends_at_its_leader(case: Case) -> Verdict | None:
    """Every token is pulled by the first, directly or through others: all end there."""
    claim = "all tokens of the chain end at the first"
    order = _chain(case)
    if order is None:
        return None
    far = np.linalg.norm(case.points - case.points[0, order[0]], axis=2).max(axis=1)
    if far[-1] > 0.1:
        away = f"farthest token still {far[-1]:.2g} away at t = {case.times[-1]:.4g}"
        return not_applicable(claim, SOURCE, away)
    late = far[int(np.argmax(far < 0.1)) :]
    rise = float(np.diff(late).max(initial=0.0))
    allowed = MARGIN * case.step_error
    claim += ", and come ever closer"
    return decide(rise <= allowed, claim, SOURCE, "≤ 0", rise, f"{allowed:.2g}")


def _chain(case: Case) -> np.ndarray | None:
    """Tokens in the order of their times, of a causal chain with one first token."""
    heads = _heads(case.field)
    if heads is None or not case.on_sphere or not case.same_tokens:
        return None
    if not all(any(isinstance(bias, Causal) for bias in head.position) for head, _ in heads):
        return None
    times = np.asarray(case.start.positions)
    order = np.argsort(times, kind="stable")
    return order if len(set(times.tolist())) == len(times) else None


def _heads(field: Any) -> list[tuple[PositionalAttention, float]] | None:
    """The heads of a field that are all by position, each with the number it is multiplied by."""
    if isinstance(field, PositionalAttention):
        return [(field, 1.0)]
    if isinstance(field, MultiHead):
        parts = list(zip(field.heads, field.outputs, strict=True))
    elif isinstance(field, Superposition):
        parts = [(part, None) for part in field.parts]
    else:
        return None
    heads = []
    for part, output in parts:
        inner = _heads(part)
        if inner is None or np.ndim(output if output is not None else 1.0):
            return None
        scale = 1.0 if output is None else float(output)
        if scale <= 0:
            return None
        heads += [(head, scale * own) for head, own in inner]
    return heads
