"""Laws of opinions under bounded confidence: what stays inside, and the energy that falls."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from metastable.comparison.case import MANY, Case, continuous
from metastable.comparison.laws import budget
from metastable.core.verdict import Verdict, judge, not_applicable
from metastable.fields import Krause
from metastable.observe import hull, hull_contains


@continuous
def opinions_stay_inside(case: Case) -> Verdict | None:
    """Each opinion moves toward a mean of others: hulls are nested, and so are ranges."""
    claim, source = "the hull of opinions never grows, tokens outside", "motsch2014heterophilious"
    if not isinstance(case.field, Krause) or case.on_sphere or not case.same_tokens:
        return None
    if case.dim > 4 or case.tokens > MANY:
        low, high = case.points.min(axis=1), case.points.max(axis=1)
        out = np.maximum(np.diff(high, axis=0), -np.diff(low, axis=0)).max(initial=0.0)
        return judge("the range of each opinion never grows, by", source, 0.0, out, absolute=1e-8)
    frames = case.run.frames
    pairs = itertools.pairwise(frames)
    outside = sum(int(np.sum(~hull_contains(hull(a), b.points))) for a, b in pairs)
    return judge(claim, source, 0, outside, absolute=0.0)


@continuous
def opinion_energy(case: Case) -> Verdict | None:
    """E = ½Σ w_iw_j Φ(‖x_i−x_j‖²), Φ′ = φ, falls: dE/dt = −2Σ w_iZ_i‖v_i‖², Z_i = Σ_kw_kφ_ik."""
    claim, source = "dE/dt = −2Σ wZ‖v‖² of opinions, lost over given", "gradient flow, derived"
    field = case.field
    if not isinstance(field, Krause) or not case.same_tokens or case.tokens > 300:
        return None
    weights = np.asarray(case.start.weights)
    values, rates, rough = [], [], []
    for x, v in zip(case.points, case.velocities, strict=True):
        squares = np.maximum(np.sum((x[:, None] - x[None]) ** 2, axis=2), 0.0)
        energies = [_primitive(field.profile, squares, nodes) for nodes in (24, 16)]
        both = [0.5 * float(weights @ e @ weights) for e in energies]
        values.append(both[0])
        rough.append(abs(both[0] - both[1]))
        mass = np.asarray(field.profile(squares)) @ weights
        rates.append(-2 * float(weights @ (mass * np.sum(v**2, axis=1))))
    if max(rough) > 1e-10 * max(values):
        return not_applicable(claim, source, "the confidence is not smooth")
    return budget(case, claim, source, np.array(values), np.array(rates))


def _primitive(profile: Any, squares: np.ndarray, nodes: int) -> np.ndarray:
    """∫_0^s φ, by Gauss and Legendre."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    total = sum(b * np.asarray(profile(squares * (1 + a) / 2)) for a, b in zip(x, w, strict=True))
    return np.asarray(total) * squares / 2
