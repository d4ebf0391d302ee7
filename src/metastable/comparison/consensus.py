"""Near one cluster every field is linear: how differences shrink, and where the cluster goes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.integrate import simpson, solve_ivp
from scipy.linalg import expm
from scipy.special import expit

from metastable.comparison.case import Case, applied, continuous
from metastable.comparison.forecast import matrices_of
from metastable.core.numerics import jax, jnp
from metastable.core.verdict import Verdict, judge, not_applicable
from metastable.fields import (
    Block,
    FeedForward,
    Field,
    Gain,
    Krause,
    Kuramoto,
    L2Attention,
    LinearAttention,
    MultiHead,
    Potential,
    Schedule,
    SelfAttention,
    SigmoidAttention,
    SinkAttention,
    SinkhornAttention,
    Superposition,
)
from metastable.fields.attention import AttentionHead, act
from metastable.fields.block import NGPT, DepthSqrt, Mix, PeriNorm, PreNorm
from metastable.fields.position import Rope
from metastable.fields.sums import Bias
from metastable.flows import Layers
from metastable.measures import Points

SOURCE = "linearisation at consensus, derived"
WIDEST, LEAST = 1e-4, 1e-7  # radius of a cluster, times β, for linear theory; and of steppers
NOISE = 1e-10  # of a stepper, in the place of a token
SLOW = 3e-3  # that radius in a block, whose tokens near each other like 1/t
MANY = 400  # tokens up to which a matrix is exponentiated


def contraction(case: Case) -> Verdict | None:
    """Differences of tokens in one cluster at c, in which all attend to all alike.

    ẋ_i = P_{x_i}F, F the same for all to first order, so that δ̇ = −⟨c,F(c)⟩(δ − mean): 1 for SA
    with V = I, e^β for USA, ⟨c,Vc⟩ in general, W′(1) for a potential, K for Kuramoto. Under USA
    with matrices F differs from token to token to first order, see `_differences`. With masks
    and positions A_ij remains at consensus, and δ̇ = v(A − I)δ. A residual layer of step ε divides
    differences by 1 + ε⟨c,F⟩, to first order the same: its rate is log(1 + ε⟨c,F⟩)/ε.
    """
    claim = "rate at which the last cluster contracts"
    late = late_frames(case)
    if late is None:
        return None
    if not isinstance(late, slice):
        return not_applicable(claim, SOURCE, late)
    points, times = case.points[late], case.times[late]
    weights = np.asarray(case.start.weights)
    centres = np.einsum("n,tnd->td", weights, points)
    apart = points - centres[:, None]
    sizes = np.sqrt(np.einsum("n,tnd->t", weights, apart**2))
    span = float(times[-1] - times[0])
    observed = -math.log(sizes[-1] / sizes[0]) / span
    radius = float(np.abs(apart[0]).max()) * sharpness(case.field)
    if isinstance(case.field, SelfAttention) and case.field.position:
        matrix = None if case.discrete else positional_attention(case, centres[0])
        if matrix is None:
            return not_applicable(claim, SOURCE, f"needs V = vI and at most {MANY} tokens")
        moved = expm(matrix * span) @ apart[0]
        moved -= weights @ moved
        expected = -math.log(math.sqrt(float(weights @ np.sum(moved**2, axis=1))) / sizes[0]) / span
        doubt = 0.0
    elif isinstance(case.field, SelfAttention) and _is_uneven(case.field):
        if case.discrete:
            return not_applicable(claim, SOURCE, "needs continuous depth where Q, K and V turn")
        moved = apart[0] @ _differences(case.field, centres[0], span).T
        expected = -math.log(math.sqrt(float(weights @ np.sum(moved**2, axis=1))) / sizes[0]) / span
        doubt = 0.0
    else:
        radii = np.array([_radius(frame) for frame in case.run.frames[late]])
        unit = centres / np.linalg.norm(centres, axis=1, keepdims=True)
        rows = zip(unit, times, radii, strict=True)
        if isinstance(case.field, Potential):  # the same at every place
            rates = [rate_at(case.field, unit[0], 0.0, 1.0)] * len(times)
        else:
            rates = [rate_at(case.field, c, float(t), r) for c, t, r in rows]
        if any(rate is None for rate in rates):
            return None
        values = np.array(rates, float)
        if case.discrete:
            stepper = case.run.stepper
            if not isinstance(stepper, Layers) or not stepper.residual:
                return None
            values = np.log1p(stepper.step * values) / stepper.step
        expected = float(simpson(values, times)) / span
        doubt = abs(expected - float(np.trapezoid(values, times)) / span)
    # In a block the radius of the stream divides all, also what linear theory leaves out.
    size = abs(expected) if isinstance(case.field, Block) else max(1.0, abs(expected))
    allowed = 10 * (radius * size + doubt + NOISE / sizes[-1] / span)
    allowed += 1e-6 * (size + abs(expected))
    return judge(claim, SOURCE, expected, observed, absolute=allowed)


def late_frames(case: Case) -> slice | str | None:
    """The frames in which all tokens are one narrow cluster, or why there are none."""
    block = isinstance(case.field, Block)
    if case.noisy or not case.same_tokens or case.tokens < 2 or len(case.times) < 2:
        return None
    if not (case.on_sphere or block or isinstance(case.field, Krause)):
        return None
    weights = np.asarray(case.start.weights)
    centres = np.einsum("n,tnd->td", weights, case.points)
    radii = np.linalg.norm(case.points - centres[:, None], axis=2).max(axis=1)
    widest = (SLOW if block else WIDEST) / sharpness(case.field)
    narrow = np.flatnonzero((radii < widest) & (radii > LEAST))
    if narrow.size < 3 or narrow[-1] - narrow[0] != narrow.size - 1:
        return "fewer than three frames in one narrow cluster"
    return slice(int(narrow[0]), int(narrow[-1]) + 1)


def rate_at(field: Field, c: np.ndarray, t: float, radius: float) -> float | None:
    """⟨c, F(c)⟩: how fast differences shrink around a cluster at the unit vector c."""
    if isinstance(field, Schedule):
        return rate_at(field.at_time(t), c, t, radius)
    if isinstance(field, Superposition):
        parts = [rate_at(part, c, t, radius) for part in field.parts]
        return None if any(p is None for p in parts) else float(sum(p for p in parts if p))
    if isinstance(field, Potential):
        slope: Any = jax.grad(field.potential)
        return float(slope(1.0))
    if isinstance(field, Kuramoto):
        return float(field.coupling) if field.frequencies is None else None
    if isinstance(field, Krause):
        return 1.0
    heads = [field, *getattr(field, "heads", ())]
    if any(isinstance(head, SelfAttention) and _is_uneven(head) for head in heads):
        return None  # among other forces
    if not isinstance(field, Block):
        moved = _pull(field, c, t)
        return None if moved is None else float(c @ moved)
    moved = _output(field.field, c)
    if moved is None:
        return None
    length, along, placement = float(np.linalg.norm(moved)), float(c @ moved), field.placement
    if isinstance(placement, PeriNorm):
        return along / length / radius
    if isinstance(placement, NGPT):
        return placement.alpha * along / length
    if isinstance(placement, DepthSqrt):
        return along / math.sqrt(t + 1)
    free = isinstance(placement, PreNorm) or (isinstance(placement, Mix) and t >= placement.until)
    return along / radius if free else along


def _output(field: Field, c: np.ndarray) -> np.ndarray | None:
    """F at a cluster at c: what each token would be moved by, before projection."""
    if isinstance(field, FeedForward):
        before = None if field.after is None else _output(field.after, c)
        if before is None:
            return None
        hidden = act(field.inner, jnp.asarray(before[None])) + field.bias
        return np.asarray(act(field.outer, field.activation(hidden)))[0]
    if isinstance(field, MultiHead):
        parts = [_output(head, c) for head in field.heads]
        if any(part is None for part in parts):
            return None
        pairs = zip(parts, field.outputs, strict=True)
        total: Any = sum(applied(w, part[None])[0] for part, w in pairs if part is not None)
        return total
    if isinstance(field, SigmoidAttention | SinkAttention | LinearAttention):
        share = _share(field, c)
        return None if share is None else share * applied(field.value, c[None])[0]
    if not isinstance(field, AttentionHead) or getattr(field, "position", ()):
        return None
    if isinstance(field, L2Attention | SinkhornAttention):
        return applied(field.value, c[None])[0]
    if not isinstance(field, SelfAttention):
        return None
    mean = applied(field.value, c[None])[0]
    if field.normalized:
        return mean
    left, right = (applied(m, c[None])[0] for m in (field.query, field.key))
    return float(np.exp(float(field.beta) * left @ right)) * mean


def _share(field: SigmoidAttention | SinkAttention | LinearAttention, c: np.ndarray) -> Any:
    """The weight that tokens of one cluster at c give it; None where it is not the same for all.

    It is the same to first order where V is a multiple of the identity, which takes what the
    weights differ by along c, or where Q and K are.
    """
    query, key, value = (np.ndim(getattr(field, n)) > 0 for n in ("query", "key", "value"))
    if isinstance(field, LinearAttention) and field.normalized:
        return 1.0
    elu = isinstance(field, LinearAttention) and not field.plain
    if value and (elu or query or key):
        return None
    left, right = (applied(m, c[None])[0] for m in (field.query, field.key))
    if isinstance(field, LinearAttention):
        lift = lambda u: np.where(u > 0, u + 1, np.exp(np.minimum(u, 0))) if elu else u
        return float(lift(left) @ lift(right))
    logit = float(field.beta) * float(left @ right)
    if isinstance(field, SinkAttention):
        return None if field.causal else float(expit(logit - float(field.sink)))
    return float(expit(logit + float(field.bias)))


def _is_uneven(field: SelfAttention) -> bool:
    """Whether tokens of one cluster are moved unlike each other to first order: USA with matrices.

    The weight e^{β⟨Qx,Kc⟩} differs between them along P_cQᵀKc, which is nought where Q and K are
    multiples of the identity, and moves them along P_cVc, which is nought where V is one.
    """
    turns = [np.ndim(getattr(field, name)) > 0 for name in ("query", "key", "value")]
    return not field.normalized and turns[2] and (turns[0] or turns[1])


def _differences(field: SelfAttention, c: np.ndarray, span: float) -> np.ndarray:
    """What differences of tokens in one cluster at c are multiplied by over `span`, under USA.

    With F = e^{β⟨Qc,Kc⟩}Vc: ċ = P_cF and δ̇ = −⟨c,F⟩δ − c⟨F,δ⟩ + βP_cF⟨QᵀKc,δ⟩, derived here.
    """
    dim, beta = len(c), float(field.beta)
    turned = None if field.query is None else np.transpose(np.asarray(field.query))

    def slope(t: float, state: np.ndarray) -> np.ndarray:
        c, flow = state[:dim] / np.linalg.norm(state[:dim]), state[dim:].reshape(dim, dim)
        pull = _output(field, c)
        assert pull is not None
        seen = applied(turned, applied(field.key, c[None]))[0]
        across = pull - (c @ pull) * c
        matrix = -(c @ pull) * np.eye(dim) - np.outer(c, pull) + beta * np.outer(across, seen)
        return np.concatenate([across, (matrix @ flow).ravel()])

    start = np.concatenate([c / np.linalg.norm(c), np.eye(dim).ravel()])
    end = solve_ivp(slope, (0.0, span), start, rtol=1e-10, atol=1e-13).y[:, -1]
    return end[dim:].reshape(dim, dim)


def positional_attention(case: Case, c: np.ndarray) -> np.ndarray | None:
    """v diag(Z)(A − I): A the attention of a cluster at c, in which only positions tell."""
    head, n = case.field, case.tokens
    assert isinstance(head, SelfAttention)
    value = 1.0 if head.value is None else np.asarray(head.value)
    if np.ndim(value) or n > MANY:
        return None
    x = np.repeat((c / np.linalg.norm(c))[None], n, axis=0)
    left, right = (applied(m, x) for m in (head.query, head.key))
    times = np.asarray(case.start.positions)
    logits = np.log(np.asarray(case.start.weights))[None, :] + np.zeros((n, n))
    for scheme in head.position:
        if isinstance(scheme, Rope):
            left, right = (
                np.asarray(scheme.rotate(jnp.asarray(m), jnp.asarray(times))) for m in (left, right)
            )
        elif isinstance(scheme, Bias):
            logits = logits + np.asarray(scheme(jnp.asarray(times), jnp.asarray(times)))
    logits = logits + float(head.beta) * left @ right.T
    most = logits.max(axis=1, keepdims=True)
    kernel = np.exp(logits - most)
    mass = kernel.sum(axis=1)
    scale = np.ones(n) if head.normalized else mass * np.exp(most[:, 0])
    return float(value) * scale[:, None] * (kernel / mass[:, None] - np.eye(n))


def sharpness(field: Field) -> float:
    """How many times smaller than 1 a cluster must be for its logits to be alike."""
    nodes = jax.tree.leaves(field, is_leaf=lambda node: isinstance(node, AttentionHead))
    heads = [node for node in nodes if isinstance(node, AttentionHead)]

    def norm(operator: Any) -> float:  # of one operator, or of several stacked ones
        if operator is None:
            return 1.0
        array = np.asarray(operator)
        return float(np.max(np.linalg.norm(array, axis=(-2, -1)) if array.ndim > 1 else abs(array)))

    nodes = jax.tree.leaves(field, is_leaf=lambda node: isinstance(node, FeedForward))
    bends = [norm(n.inner) * norm(n.outer) for n in nodes if isinstance(n, FeedForward)]
    return max([1.0, *(norm(h.beta) * norm(h.query) * norm(h.key) for h in heads), *bends])


def _radius(frame: Points) -> float:
    return float(np.mean(np.linalg.norm(np.asarray(frame.points), axis=1)))


@continuous
def cluster_moves(case: Case) -> Verdict | None:
    """One narrow cluster at c moves by ċ = P_cF(c): under SA as e^{tV}c over its length."""
    claim = "the last cluster moves by ċ = P_cF(c), distance off"
    late = late_frames(case)
    if late is None or isinstance(case.field, Block | Krause) or not case.on_sphere:
        return None
    if _pull(case.field, case.start.points[0], 0.0) is None:
        return None
    if not isinstance(late, slice):
        return not_applicable(claim, SOURCE, late)
    points, times = case.points[late], case.times[late]
    centres = np.einsum("n,tnd->td", np.asarray(case.start.weights), points)
    unit = centres / np.linalg.norm(centres, axis=1, keepdims=True)

    def velocity(t: float, c: np.ndarray) -> np.ndarray:
        c = c / np.linalg.norm(c)
        pull = _pull(case.field, c, t)
        assert pull is not None
        return pull - (pull @ c) * c

    if np.linalg.norm(velocity(float(times[0]), unit[0])) < 1e-12:
        expected, grown = unit[0], 1.0
    else:
        starts = unit[0], unit[0] + 1e-6 * np.roll(unit[0], 1)
        ends = [
            solve_ivp(velocity, (times[0], times[-1]), one, rtol=1e-10, atol=1e-12).y[:, -1]
            for one in starts
        ]
        expected = ends[0] / np.linalg.norm(ends[0])
        grown = 1 + float(np.linalg.norm(ends[1] - ends[0])) / 1e-6
    off = float(np.linalg.norm(expected - unit[-1]))
    radius = float(np.linalg.norm(points[0] - centres[0], axis=1).max()) * sharpness(case.field)
    # A cluster of radius ρ has its mean off by ρ², and the attention of its tokens by as much.
    speed = (1 + float(times[-1] - times[0])) * grown
    return judge(claim, SOURCE, 0.0, off, absolute=10 * speed * (radius**2 + 1e-9))


def _pull(field: Field, c: Any, t: float) -> np.ndarray | None:
    """F(c) before projection, of fields whose clusters do not turn on their own."""
    if isinstance(field, Schedule):
        return _pull(field.at_time(t), c, t)
    if isinstance(field, Superposition):
        parts = [_pull(part, c, t) for part in field.parts]
        total: Any = sum(part for part in parts if part is not None)
        return None if any(part is None for part in parts) else total
    if isinstance(field, Potential) or (isinstance(field, Kuramoto) and field.frequencies is None):
        rate = rate_at(field, np.asarray(c), t, 1.0)
        return None if rate is None else rate * np.asarray(c)
    if isinstance(field, Gain):
        gain = np.asarray(field.gain)
        moved = _output(field.field, np.asarray(c) * gain)
        return None if moved is None else moved / gain
    return _output(field, np.asarray(c))


@continuous
def leading_direction(case: Case) -> Verdict | None:
    """A cluster at rest under a symmetric V is stable only at an eigenvector of its top value."""
    claim = "a cluster at rest is a leading eigenvector of V"
    head = case.head
    if not case.alone or head is None or head.position:
        return None
    value = matrices_of(head, case.dim)["value"]
    if value is None or head.value is None or head.value.ndim == 0:
        return None
    if not np.allclose(value, value.T):
        return None
    end = case.run.frames[-1]
    centre = np.asarray(end.weights) @ np.asarray(end.points)
    spread = float(np.linalg.norm(np.asarray(end.points) - centre, axis=1).max())
    c = centre / max(np.linalg.norm(centre), 1e-300)
    speed = float(np.linalg.norm(value @ c - (c @ value @ c) * c))
    if spread > 1e-3 or speed > 1e-3:
        why = "tokens are not one cluster" if spread > 1e-3 else "the cluster still turns"
        return not_applicable(claim, SOURCE, f"{why} at t = {case.times[-1]:.4g}")
    top, rayleigh = float(np.linalg.eigvalsh(value)[-1]), float(c @ value @ c)
    return judge(claim, SOURCE, top, rayleigh, absolute=1e-5 * max(1.0, abs(top)))
