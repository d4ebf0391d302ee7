"""Fields that climb an energy: which energy, and in which metric."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array

from metastable.core.numerics import jnp
from metastable.fields import (
    Field,
    Kuramoto,
    KuramotoNetwork,
    L2Attention,
    MultiHead,
    SelfAttention,
    SinkAttention,
    SinkhornAttention,
    Superposition,
)
from metastable.fields.zonal import potential_of
from metastable.measures import Points
from metastable.observe.circle import STEADY, circle_potential, worth_harmonics
from metastable.observe.energy import log_potential

Values = Callable[[Points], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Climb:
    """dE/dt = Σ_i w_i m_i ‖v_i‖² for tokens that move by v: E climbs for m > 0, falls for m < 0.

    `energy` and `metric` give E and m_i of a frame, both divided by e^{log_scale}.
    """

    energy: Callable[[Points], float]
    metric: Values
    log_scale: float = 0.0


def climb_of(field: Field, dim: int) -> Climb | None:
    """The energy that a field climbs on the sphere; None where none is known.

    USA, potentials, Kuramoto without frequencies, their sums and multi-head USA: Wasserstein
    gradient flows of ½∬W dμdμ, m = 1/v for V = vI. SA: the same energy as USA in the metric
    weighted by Z (arXiv:2312.10794, §3.4), also for V = QᵀK symmetric. Attention by distance is SA
    for multiples of the identity. Doubly stochastic attention: minus the potential of its own
    scaling, −(1/β)Σ w_i f_i (arXiv:2110.11773; derivative by the envelope theorem, derived here).
    Softmax with a sink: the energy of SA in the metric Z + e^s. Sigmoid and plain linear attention
    with multiples of the identity: their potentials. A graph: its edges' share of Kuramoto's.
    """
    if isinstance(field, SelfAttention) and not field.position:
        return _of_attention(field, dim)
    if isinstance(field, L2Attention) and not field.causal:
        operators = (field.query, field.key, field.value)
        if any(o is not None and o.ndim for o in operators):
            return None
        return _of_attention(SelfAttention(field.beta, *operators), dim)
    if isinstance(field, SinkhornAttention):
        return _of_sinkhorn(field)
    if isinstance(field, SinkAttention) and field.isotropic:
        return _of_sink(field, dim)
    if (potential := potential_of(field)) is not None:
        # A value −1 is in the potential already: its energy climbs all the same.
        return Climb(lambda frame: _pairs(frame, potential), _ones)
    if isinstance(field, KuramotoNetwork) and field.frequencies is None:
        return Climb(functools.partial(coupling_energy, field), _ones)
    if isinstance(field, Kuramoto) and field.frequencies is None and float(field.coupling) != 0:
        coupling = float(field.coupling)
        return Climb(lambda frame: coupling * _order(frame), _ones)
    return _of_sum(field, dim)


def _of_sum(field: Field, dim: int) -> Climb | None:
    """Energies of forces that add, where each is steepest in the plain metric."""
    if isinstance(field, MultiHead):
        pairs = list(zip(field.heads, field.outputs, strict=True))
        if any(output is not None and output.ndim for _, output in pairs):
            return None
        forces = [(head, 1.0 if w is None else float(w)) for head, w in pairs]
    elif isinstance(field, Superposition):
        forces = [(part, 1.0) for part in field.parts]
    else:
        return None
    parts = []
    for force, factor in forces:
        value = None if potential_of(force) else getattr(force, "value", None)
        plain = not isinstance(force, SelfAttention) or not force.normalized
        if not plain or isinstance(force, SinkAttention) or (value is not None and value.ndim):
            return None
        found = climb_of(force, dim)
        if found is None:
            return None
        # A head with V = vI and output w climbs wv times the energy of V = I.
        parts.append((found, factor * (1.0 if value is None else float(value))))
    if any(found.log_scale > 300 for found, _ in parts):
        return None

    def energy(frame: Points) -> float:
        return sum(c * math.exp(part.log_scale) * part.energy(frame) for part, c in parts)

    return Climb(energy, _ones)


def _of_attention(head: SelfAttention, dim: int) -> Climb | None:
    eye = np.eye(dim)
    full = lambda o: eye if o is None else np.asarray(o) * (eye if o.ndim == 0 else 1.0)
    form, value = full(head.query).T @ full(head.key), full(head.value)
    if head.isotropic:
        b, v = float(head.beta) * float(form[0, 0]), float(value[0, 0])
        form = None
    else:
        close = lambda a, b: a.shape == b.shape and np.allclose(a, b, rtol=0, atol=1e-12)
        if not (close(form, form.T) and close(form, value)):
            return None
        b, v = float(head.beta), 1.0
    if v == 0:
        return None
    if b == 0:
        # At β = 0 a form M = V gives ½⟨Mm,m⟩, climbed by P M m; otherwise ½‖m‖², by v P m.
        kuramoto = lambda frame: _order(frame, form)
        return Climb(kuramoto, lambda frame: np.full(frame.count, 1 / v))
    size = abs(b) * (1.0 if form is None else float(np.linalg.norm(form, 2)))
    log_scale = size - math.log(2 * abs(b))

    def energy(frame: Points) -> float:
        rows = np.asarray(log_potential(frame, b, matrix=form))
        weights = np.asarray(frame.weights)
        return math.copysign(float(np.sum(weights * np.exp(rows - size))), b)

    def metric(frame: Points) -> np.ndarray:
        if head.normalized and form is None and abs(b) <= STEADY and worth_harmonics(frame, b):
            return 2 * abs(b) * circle_potential(frame, b) / v
        rows = np.asarray(log_potential(frame, b, matrix=form)) if head.normalized else 0.0
        return np.broadcast_to(2 * abs(b) * np.exp(rows - size) / v, (frame.count,))

    return Climb(energy, metric, log_scale)


def _of_sink(head: SinkAttention, dim: int) -> Climb | None:
    """The energy of SA; ẋ = Z/(Z + e^s) times its velocity makes the metric Z + e^s."""
    plain = _of_attention(SelfAttention(head.beta, head.query, head.key, head.value), dim)
    if plain is None:
        return None
    v = 1.0 if head.value is None else float(head.value)
    number = lambda o: 1.0 if o is None else float(o)
    b = float(head.beta) * number(head.query) * number(head.key)
    if b == 0:
        factor = (1 + math.exp(min(float(head.sink), 700.0))) / v
        return Climb(plain.energy, lambda frame: np.full(frame.count, factor))
    # Both divided by e^{log_scale}, 2|b| in it.
    extra = 2 * abs(b) / v * math.exp(min(float(head.sink) - abs(b), 700.0))
    return dataclasses.replace(plain, metric=lambda frame: plain.metric(frame) + extra)


def coupling_energy(field: Kuramoto | KuramotoNetwork, frame: Points) -> float:
    """K‖Σwx‖²/2 of oscillators; on a graph K Σ w_i w_j ⟨x_i,x_j⟩ over its edges."""
    x, w = np.asarray(frame.points), np.asarray(frame.weights)
    if isinstance(field, Kuramoto) or field.edges == "complete":
        return float(field.coupling) * _order(frame)
    i, j = field.pairs(frame.count).T
    return float(field.coupling) * float(np.sum(w[i] * w[j] * np.sum(x[i] * x[j], axis=1)))


def _of_sinkhorn(head: SinkhornAttention) -> Climb | None:
    if any(o is not None and o.ndim for o in (head.query, head.key, head.value)):
        return None
    number = lambda o: 1.0 if o is None else float(o)
    b, v = float(head.beta) * number(head.query) * number(head.key), number(head.value)
    if b == 0 or v == 0:
        return None

    def energy(frame: Points) -> float:
        x, w = np.asarray(frame.points), np.asarray(frame.weights)
        logits, f = b * x @ x.T, np.zeros(len(w))
        for _ in range(head.iterations):
            rows = logits + f + np.log(w)
            most = rows.max(axis=1)
            new = 0.5 * (f - most - np.log(np.exp(rows - most[:, None]).sum(axis=1)))
            if np.abs(new - f).max() < head.tolerance:
                break
            f = new
        return float(-w @ f / b)

    return Climb(energy, lambda frame: np.full(frame.count, 1 / v))


def _pairs(frame: Points, potential: Any) -> float:
    """½ Σ w_i w_j W(⟨x_i,x_j⟩)."""
    return float(_sum_of_pairs(frame.points, frame.weights, potential))


@eqx.filter_jit
def _sum_of_pairs(x: Array, w: Array, potential: Any) -> Array:
    return 0.5 * w @ potential(jnp.clip(x @ x.T, -1, 1)) @ w


def _order(frame: Points, form: np.ndarray | None = None) -> float:
    mean = np.asarray(frame.weights) @ np.asarray(frame.points)
    return float(0.5 * mean @ (mean if form is None else form @ mean))


def _ones(frame: Points) -> np.ndarray:
    return np.ones(frame.count)
