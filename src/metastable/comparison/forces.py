"""Laws that belong to one kind of force: what it does to a uniform start, and what it keeps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.linalg import expm
from scipy.special import expit, ive, stdtr

from metastable.comparison.case import MANY, Case, applied, continuous
from metastable.comparison.equation import MARGIN, WIDE
from metastable.comparison.laws import budget
from metastable.core.numerics import jnp
from metastable.core.verdict import Verdict, judge, not_applicable, sampled
from metastable.fields import (
    Block,
    FeedForward,
    Field,
    Gain,
    Kuramoto,
    KuramotoNetwork,
    L2Attention,
    LinearAttention,
    MultiHead,
    Rescaled,
    SelfAttention,
    SigmoidAttention,
    SinkAttention,
    Superposition,
)
from metastable.fields.attention import act
from metastable.fields.sums import Dense
from metastable.measures import Points, uniform
from metastable.observe.gradient import coupling_energy
from metastable.theory import spectrum

DRAWS = 40  # uniform starts behind the sampling error of the first drift
SEED = 7_305_112  # of the first of them, which no run should share
MOST = 500  # tokens of such a start; the error falls like n^{−1/2} beyond


@continuous
def first_drift(case: Case) -> Verdict | None:
    """The velocity of tokens among uniform ones, against that in the uniform measure.

    ∫e^{⟨b,y⟩}y dσ = c_0(‖b‖)A_d(‖b‖) b/‖b‖ with A_d = I_{d/2}/I_{d/2−1}, b = βKᵀQx (the mean of
    von Mises and Fisher), so that SA moves x by P_xV A_d(‖b‖) b/‖b‖ whatever the matrices. Derived.
    Each token sees itself too, with its own weight among the others. Tested as one factor on all
    tokens; its error is that of forty other uniform starts, and the ratio of means in SA is off by
    the relative variance of Z over n, which is allowed for.
    """
    claim, source = (
        "first drift among uniform tokens, as a factor",
        "von Mises–Fisher mean, derived",
    )
    if not case.on_sphere or case.noisy or not case.same_tokens or case.tokens > MANY:
        return None
    expected = _mean_drift(case.field, case.start)
    if expected is None:
        return None
    drift, doubt = expected
    n, weights = case.effective_tokens, np.asarray(case.start.weights)
    if np.sqrt(weights @ np.sum(drift**2, axis=1)) < 1e-9:
        return None  # the uniform measure stays where it is
    if not case.starts_uniform:
        return not_applicable(claim, source, "the start is not uniform")
    if n < max(32.0, 10 * doubt):
        return not_applicable(claim, source, f"needs {max(32.0, 10 * doubt):.3g} tokens at least")
    if len(case.times) < WIDE:
        return not_applicable(claim, source, f"needs {WIDE} frames")
    slopes = [_first_velocity(case, width) for width in (WIDE, WIDE - 2)]
    factor = lambda v, u, w: float((w @ np.sum(v * u, axis=1)) / (w @ np.sum(u**2, axis=1)))
    seen, rough = (factor(v, drift, weights) for v in slopes)
    count = min(case.tokens, MOST)
    others = []
    for number in range(DRAWS):
        start = uniform(count, case.dim, seed=SEED + number)
        u = _mean_drift(case.field, start)
        assert u is not None
        v = np.asarray(case.field.velocity(start, t=0.0, sum=Dense()))
        others.append(factor(v, u[0], np.asarray(start.weights)))
    error = float(np.std(others, ddof=1)) * math.sqrt(count / n)
    off = max(abs(seen - 1) - doubt / n - MARGIN * abs(seen - rough), 0.0)
    if MARGIN * abs(seen - rough) > 3 * error:
        return not_applicable(claim, source, "the frames are too far apart to tell: keep more")
    # Few degrees of freedom: the factor of few tokens has longer tails than a normal law.
    p = 2 * float(stdtr(5, -off / error))
    return sampled(claim, source, 1.0, seen, p, error + doubt / n)


def _first_velocity(case: Case, width: int) -> np.ndarray:
    """Derivative at the first frame of the polynomial through the first ones."""
    t = case.times[:width] - case.times[0]
    powers = np.arange(width)
    scaled = (t / t[-1])[None, :] ** powers[:, None]
    weights = np.linalg.solve(scaled, np.eye(width)[1]) / t[-1]
    v = np.tensordot(weights, case.points[:width], axes=1)
    x = case.points[0]
    return v - np.sum(x * v, axis=1, keepdims=True) * x


def _mean_drift(field: Field, start: Points) -> tuple[np.ndarray, float] | None:
    """P_xF at tokens among uniform ones, and the relative variance of Z; None where unknown."""
    x, own = np.asarray(start.points), np.asarray(start.weights)
    found = mean_force(field, x, own)
    if found is None:
        return None
    force, doubt = found
    return force - np.sum(x * force, axis=1, keepdims=True) * x, doubt


def mean_force(field: Field, x: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, float] | None:
    if isinstance(field, Superposition | MultiHead):
        parts: Any = field.parts if isinstance(field, Superposition) else field.heads
        outputs = [None] * len(parts) if isinstance(field, Superposition) else field.outputs
        found = [mean_force(part, x, own) for part in parts]
        if any(one is None for one in found):
            return None
        pairs = [(one, w) for one, w in zip(found, outputs, strict=True) if one is not None]
        total: Any = sum(applied(w, one[0]) for one, w in pairs)
        return total, max(one[1] for one, _ in pairs)
    if isinstance(field, FeedForward):
        before = (x, 0.0) if field.after is None else mean_force(field.after, x, own)
        if before is None:
            return None
        hidden = act(field.inner, jnp.asarray(before[0])) + field.bias
        return np.asarray(act(field.outer, field.activation(hidden))), before[1]
    if isinstance(field, Gain):
        gain, inner = np.diag(np.asarray(field.gain)), field.field
        if not isinstance(inner, SelfAttention) or not inner.isotropic:
            return None
        query, key = (1.0 if m is None else float(m) for m in (inner.query, inner.key))
        seen = {"query": query * gain, "key": key * gain, "value": inner.value}
        return mean_force(SelfAttention(inner.beta, normalized=inner.normalized, **seen), x, own)
    if isinstance(field, L2Attention) and not field.causal and field.key is None:
        head: Any = SelfAttention(field.beta, field.query, None, field.value)
    elif isinstance(field, SelfAttention | SinkAttention) and not field.position:
        head = field
    elif isinstance(field, SigmoidAttention):
        return _sigmoid_force(field, x, own)
    elif isinstance(field, LinearAttention) and field.plain:
        # Second moments of the uniform measure are 1/d.
        left, right = applied(field.query, x), applied(field.key, np.eye(x.shape[1]))
        seen = left @ right.T / x.shape[1] * (1 - own[:, None])
        logit = np.sum(left * applied(field.key, x), axis=1)
        return applied(field.value, seen + (own * logit)[:, None] * x), 0.0
    else:
        return None
    left = applied(head.query, x)
    bend = left if head.key is None else left * head.key if head.key.ndim == 0 else left @ head.key
    bend = float(head.beta) * np.asarray(bend)
    if bend.shape != x.shape:
        return None
    size, dim = np.linalg.norm(bend, axis=1), x.shape[1]
    ratio, log_mean, spread = _von_mises(size, dim)
    mean = np.where(size[:, None] > 0, ratio[:, None] * bend / np.maximum(size, 1e-300)[:, None], 0)
    # Mass of the others and of the token itself, both over that of the uniform measure.
    others, self = 1 - own, own * np.exp(np.minimum(np.sum(bend * x, axis=1) - log_mean, 700.0))
    total: Any = others + self
    if isinstance(head, SinkAttention):
        total = total + np.exp(np.minimum(float(head.sink) - log_mean, 700.0))
    elif not head.normalized:
        total = np.exp(-log_mean)
    mean = (others[:, None] * mean + self[:, None] * x) / total[:, None]
    return applied(head.value, mean), float(spread.max())


def _sigmoid_force(
    field: SigmoidAttention, x: np.ndarray, own: np.ndarray
) -> tuple[np.ndarray, float]:
    """∫σ(⟨u,y⟩ + b)y dσ = u/‖u‖ ∫sσ(‖u‖s + b)dσ(s), u = βKᵀQx, by Gauss and Gegenbauer."""
    dim = x.shape[1]
    left, right = applied(field.query, x), applied(field.key, np.eye(dim))
    bend = float(field.beta) * left @ right.T
    size = np.linalg.norm(bend, axis=1, keepdims=True)
    s, weights = spectrum.gegenbauer_quadrature(dim, 200)
    mean = (expit(size * s + float(field.bias)) * s) @ weights
    unit = bend / np.maximum(size, 1e-300)
    itself = expit(np.sum(bend * x, axis=1) + float(field.bias))
    force = (1 - own[:, None]) * mean[:, None] * unit + (own * itself)[:, None] * x
    return applied(field.value, force), 0.0


def _von_mises(size: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A_d(b), log c_0(b), and c_0(2b)/c_0(b)² − 1, the relative variance of e^{⟨b,y⟩}."""
    nu = dim / 2 - 1

    def log_mean(b: np.ndarray) -> np.ndarray:
        safe = np.maximum(b, 1e-8)
        log = np.log(ive(nu, safe)) + safe + math.lgamma(dim / 2) + nu * np.log(2 / safe)
        return np.where(b > 1e-8, log, 0.0)

    safe = np.maximum(size, 1e-8)
    ratio = np.where(size > 1e-8, ive(nu + 1, safe) / ive(nu, safe), size / dim)
    return ratio, log_mean(size), np.expm1(np.minimum(log_mean(2 * size) - 2 * log_mean(size), 50))


@continuous
def radius_law(case: Case) -> Verdict | None:
    """Mean length of the residual stream: d/dt Σ w_j r_j = Σ w_j ṙ_j, ṙ by the placement.

    ⟨θ,A⟩ before the norm, ⟨θ,A⟩/‖A‖ with both normed, 0 where the stream is normed itself.
    """
    claim, source = "lengths of the stream change by the placement", "karagodin2025normalization"
    if not isinstance(case.field, Block) or not case.same_tokens:
        return None
    radii = np.stack([np.linalg.norm(np.asarray(f.points), axis=1) for f in case.run.frames])
    if not case.field.placement.moves_radius:
        drift = float(np.abs(radii - radii[0]).max())
        return judge(claim + ", change", source, 0.0, drift, absolute=1e-6)
    weights = np.asarray(case.start.weights)
    rates = np.sum(case.points * case.velocities, axis=2) @ weights
    return budget(case, claim + ", gained over given", source, radii @ weights, rates)


@continuous
def cross_ratios(case: Case) -> Verdict | None:
    """Under a common pull every frame is a Möbius image of the start: cross-ratios never change.

    |x_i−x_j||x_k−x_l|/(|x_i−x_l||x_k−x_j|), on the circle by Watanabe and Strogatz (Physica D 74,
    1994), on every sphere by Lohe (J. Phys. A 42, 2009).
    """
    claim, source = "cross-ratios of tokens never change", "lohe2009nonabelian"
    field = case.field
    if not isinstance(field, Kuramoto) or not case.on_sphere or not case.same_tokens:
        return None
    if field.frequencies is not None and np.ptp(np.asarray(field.frequencies)) > 0:
        return None
    if case.tokens < 4:
        return not_applicable(claim, source, "needs four tokens")
    chosen = np.unique(np.linspace(0, case.tokens - 1, min(case.tokens, 24)).astype(int))
    quads = np.array([np.roll(chosen, -k)[:4] for k in range(len(chosen))])
    x = case.points[:, quads]  # (T, quads, 4, d)
    length = lambda i, j: np.linalg.norm(x[:, :, i] - x[:, :, j], axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(length(0, 1) * length(2, 3)) - np.log(length(0, 3) * length(2, 1))
        errors = np.abs(logs - logs[0])
        least = np.min([length(i, j) for i, j in ((0, 1), (2, 3), (0, 3), (2, 1))], axis=0)
        allowed = 10 * 1e-8 * math.sqrt(case.tokens * case.dim) * (1 / least + 1 / least[0])
    sharp = np.isfinite(errors) & (allowed < 0.05)
    sharp[0] = False
    if not sharp.any():
        return not_applicable(claim, source, "tokens are too close together to tell")
    ratio = np.divide(errors, allowed, out=np.full_like(errors, -1.0), where=sharp)
    at = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    when = f"logarithm, worst at t = {case.times[at[0]]:.4g}"
    return judge(claim, source, 0.0, float(errors[at]), absolute=float(allowed[at]), reason=when)


@continuous
def mean_phase(case: Case) -> Verdict | None:
    """Sines cancel in pairs: d/dt Σ w_iθ_i = Σ w_iω_i on the circle."""
    claim, source = "mean phase turns at the mean frequency", "action and reaction"
    field = case.field
    if not isinstance(field, Kuramoto | KuramotoNetwork) or case.dim != 2 or not case.same_tokens:
        return None
    turned = np.unwrap(np.arctan2(case.points[..., 1], case.points[..., 0]), axis=0)
    steps = np.abs(np.diff(turned, axis=0)).max(initial=0.0)
    if steps > 1.0:
        return not_applicable(claim, source, "the frames are too far apart to follow the phases")
    weights = np.asarray(case.start.weights)
    given = 0.0 if field.frequencies is None else float(weights @ np.asarray(field.frequencies))
    span = float(case.times[-1] - case.times[0])
    seen = float(weights @ (turned[-1] - turned[0])) / span
    allowed = MARGIN * 1e-9 * math.sqrt(case.tokens) * max(1.0, case.run.statistics.get("steps", 1))
    return judge(claim, source, given, seen, absolute=allowed / span)


@continuous
def tilted_energy(case: Case) -> Verdict | None:
    """With frequencies E = (K/2)‖m‖² + Σ w_iω_iθ_i on the lifted circle, dE/dt = Σ w_iθ̇_i².

    On a graph ‖m‖² is the sum of w_iw_j⟨x_i,x_j⟩ over ordered pairs of neighbours.
    """
    claim, source = "d/dt(K‖m‖²/2 + Σwωθ) = Σwθ̇², gained over given", "gradient flow, derived"
    field = case.field
    if not isinstance(field, Kuramoto | KuramotoNetwork) or field.frequencies is None:
        return None
    if not case.same_tokens:
        return None
    turned = np.unwrap(np.arctan2(case.points[..., 1], case.points[..., 0]), axis=0)
    if np.abs(np.diff(turned, axis=0)).max(initial=0.0) > 1.0:
        return not_applicable(claim, source, "the frames are too far apart to follow the phases")
    weights, omega = np.asarray(case.start.weights), np.asarray(field.frequencies)
    energies = [coupling_energy(field, frame) for frame in case.run.frames]
    values = np.array(energies) + turned @ (weights * omega)
    return budget(case, claim, source, values, np.sum(case.velocities**2, axis=2) @ weights)


@continuous
def coordinates_shrink(case: Case) -> Verdict | None:
    """Along a left eigenvector of V of real λ ≥ 0 the range of z never grows (arXiv:2305.05465).

    ż_i = Σ P_ijV(z_j − z_i), so that ⟨φ,z_i⟩ moves toward a mean of the others at the rate λ.
    """
    claim, source = "ranges along V's eigenvectors never grow, by", "geshkovski2023emergence"
    if not isinstance(case.field, Rescaled) or not case.same_tokens:
        return None
    value = case.field.attention.value
    full = np.eye(case.dim) if value is None else np.asarray(value) * np.eye(case.dim)
    full = full if value is None or value.ndim == 0 else np.asarray(value)
    roots: Any
    vectors: Any
    roots, vectors = np.linalg.eig(full.T)
    real = (np.abs(roots.imag) < 1e-12) & (roots.real >= 0)
    if not real.any():
        return not_applicable(claim, source, "V has no real eigenvalue ≥ 0")
    along = case.points @ vectors[:, real].real
    low, high = along.min(axis=1), along.max(axis=1)
    grown = float(np.maximum(np.diff(high, axis=0), -np.diff(low, axis=0)).max(initial=0.0))
    return judge(claim, source, 0.0, max(grown, 0.0), absolute=1e-6)


@continuous
def tokens_part(case: Case) -> Verdict | None:
    """Pure attention with V = I and QᵀK > 0: no two tokens x = e^tz come closer."""
    claim, source = "distances between tokens never shrink, by", "geshkovski2023emergence"
    if not isinstance(case.field, Rescaled) or not case.same_tokens or case.tokens > 300:
        return None
    head = case.field.attention
    form = np.eye(case.dim)
    for matrix in (head.query, head.key):
        factor = np.asarray(1.0 if matrix is None else matrix)
        full = factor * np.eye(case.dim) if factor.ndim == 0 else factor
        form = full.T @ form if matrix is head.query else form @ full
    if head.value is not None or np.abs(form - form.T).max() > 1e-12:
        return None
    if head.position or np.linalg.eigvalsh(form).min() <= 0:
        return None
    logs = []
    for x in case.points:
        gaps = np.linalg.norm(x[:, None] - x[None], axis=2)[np.triu_indices(case.tokens, 1)]
        logs.append(np.log(np.maximum(gaps, 1e-12)))
    change = np.diff(np.array(logs), axis=0) + np.diff(case.times)[:, None]
    # Distances below 1e−4 of z are those of tokens at one point, known to rounding only.
    wide = np.array(logs)[:-1] > math.log(1e-4)
    fall = float(np.where(wide, change, 0.0).min(initial=0.0))
    return judge(claim, source, 0.0, -fall, absolute=1e-4)


@continuous
def first_token_alone(case: Case) -> Verdict | None:
    """Under a causal mask the first token sees itself only: ẋ_1 = P V x_1, so e^{tV}x_1 normed."""
    claim, source = "the first token moves by itself, worst error", "karagodin2024clustering"
    field = case.field
    if not isinstance(field, SelfAttention) or not field.causal or not case.same_tokens:
        return None
    if not field.normalized or not case.on_sphere:
        return None
    order = np.sort(np.asarray(case.start.positions))
    if case.tokens > 1 and order[0] == order[1]:
        return not_applicable(claim, source, "several tokens come first")
    first = int(np.argmin(np.asarray(case.start.positions)))
    value = np.eye(case.dim) if field.value is None else np.asarray(field.value)
    value = value * np.eye(case.dim) if value.ndim == 0 else value
    errors, grown = [], 1.0
    for x, t in zip(case.points[:, first], case.times, strict=True):
        moved = (
            expm((value - np.trace(value) / case.dim * np.eye(case.dim)) * t)
            @ case.points[0, first]
        )
        errors.append(float(np.linalg.norm(moved / np.linalg.norm(moved) - x)))
        grown = max(grown, 1 + float(np.linalg.norm(value, 2)) * t)
    allowed = MARGIN * case.step_error * grown
    allowed *= max(1.0, float(case.run.statistics.get("steps", 1)))
    return judge(claim, source, 0.0, max(errors), absolute=allowed)
