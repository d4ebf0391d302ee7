"""Budgets: what a run gains between frames against what its field gives; and events of mergers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metastable.comparison.case import Case, applied, continuous
from metastable.comparison.consensus import late_frames, positional_attention, sharpness
from metastable.comparison.laws import budget
from metastable.core.numerics import jax
from metastable.core.verdict import Verdict, decide, judge, not_applicable
from metastable.fields import Block, Krause, Rescaled, SelfAttention
from metastable.fields.attention import AttentionHead
from metastable.flows import Hardmax, Merging
from metastable.theory import limits, pairs

MOST = 2_000  # tokens up to which pairs are summed in every frame
HOTTEST = 10.0  # of β in the energy of a budget: a smooth one is sharper
LONG = 100.0  # units of SA that two clusters must wait for their merger to be two-body


@continuous
def energy_budget(case: Case) -> Verdict | None:
    """Fields that climb no energy: dE/dt = Σ w_i⟨∂E/∂x_i, v_i⟩ may have either sign.

    E = (1/2β)Σ w_iw_j e^{β⟨x_i,Mx_j⟩}, M the symmetric part of QᵀK of the first head, 1 without.
    """
    claim = "energy gained over what the field gives"
    source = "chain rule on the energy of geshkovski2023mathematical, §3"
    if case.climb is not None or case.noisy or not case.on_sphere or not case.same_tokens:
        return None
    if isinstance(case.field, Block) or isinstance(case.run.stepper, Hardmax):
        return None
    if case.tokens > MOST:
        return not_applicable(claim, source, f"more than {MOST} tokens")
    beta, form = _kernel_of(case)
    weights = np.asarray(case.start.weights)
    energies, rates, slopes = [], [], []
    for x, v in zip(case.points, case.velocities, strict=True):
        pulled = x @ form
        kernel = np.exp(beta * (pulled @ x.T - np.linalg.norm(form, 2)))
        energies.append(float(weights @ kernel @ weights) / (2 * beta))
        pull = kernel @ (weights[:, None] * pulled)
        rates.append(float(weights @ np.sum(pull * v, axis=1)))
        pull = weights[:, None] * (pull - np.sum(pull * x, axis=1, keepdims=True) * x)
        slopes.append(float(np.linalg.norm(pull)) / energies[-1])
    # One cluster that turns has a slope and hardly a gain: what a stepper gets wrong shows there.
    error = max(1e-12, case.step_error * max(slopes))
    rises = np.diff(energies) > 0
    rose = f"; it rose in {int(rises.sum())} of {rises.size}"
    values = np.array(energies), np.array(rates)
    return budget(case, claim, source, *values, error=error, note=rose)


def _kernel_of(case: Case) -> tuple[float, np.ndarray]:
    """β and the symmetric part of QᵀK of the first head of a field; of β, ten at most."""
    nodes = jax.tree.leaves(case.field, is_leaf=lambda node: isinstance(node, AttentionHead))
    heads = [node for node in nodes if isinstance(node, AttentionHead)]
    eye = np.eye(case.dim)
    if not heads or np.ndim(heads[0].beta):
        return 1.0, eye
    left, right = applied(heads[0].query, eye), applied(heads[0].key, eye)
    if left.shape != right.shape:
        return 1.0, eye
    form = (left @ right.T + right @ left.T) / 2
    return min(max(float(heads[0].beta), 0.1), HOTTEST), form


@continuous
def centre_of_positions(case: Case) -> Verdict | None:
    """Under masks and positions the cluster ends at the mean by the stationary law of attention.

    In one cluster δ̇ = v(A − I)δ, A the attention there, so that Σ π_iδ_i stays for πA = π: the
    first token alone under a causal mask. Derived; second order of the radius is allowed.
    """
    claim = "the mean by the stationary law of attention stays, moved by"
    source = "linearisation at consensus, derived"
    head = case.field
    if not isinstance(head, SelfAttention) or not head.position or not head.normalized:
        return None
    if case.discrete or not case.on_sphere or (late := late_frames(case)) is None:
        return None
    if not isinstance(late, slice):
        return not_applicable(claim, source, late)
    points, times = case.points[late], case.times[late]
    centre = np.asarray(case.start.weights) @ points[0]
    matrix = positional_attention(case, centre)
    if matrix is None:
        return not_applicable(claim, source, "needs V = vI and 400 tokens at most")
    roots: Any
    vectors: Any
    roots, vectors = np.linalg.eig(matrix.T)
    law = np.abs(np.real(vectors[:, np.argmin(np.abs(roots))]))
    law /= law.sum()
    unit = np.einsum("n,tnd->td", law, points)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    radius = float(np.linalg.norm(points[0] - centre, axis=1).max())
    moved = float(np.linalg.norm(unit[-1] - unit[0]))
    span = 1 + float(times[-1] - times[0])
    allowed = 10 * span * (sharpness(case.field) * radius**2 + 1e-9)
    if allowed > 0.1 * radius:
        return not_applicable(claim, source, "the cluster is too wide to tell")
    return judge(claim, source, 0.0, moved, absolute=allowed)


@continuous
def spread_budget(case: Case) -> list[Verdict] | None:
    """Pure attention, v_i = Σ_jP_ijV(z_j − z_i): d/dt ½Σ w‖z − z̄‖² = Σ w⟨z − z̄,v⟩, and the mean.

    The mean is taken along the left eigenvector of V with the largest real part.
    """
    source = "chain rule; geshkovski2023emergence"
    if not isinstance(case.field, Rescaled) or not case.same_tokens or case.tokens > MOST:
        return None
    if isinstance(case.run.stepper, Hardmax):
        return None
    weights = np.asarray(case.start.weights)
    mean, push = (np.einsum("n,tnd->td", weights, a) for a in (case.points, case.velocities))
    off = case.points - mean[:, None]
    left = _leading(_matrices(case)[0])
    budgets = {
        "spread of rescaled tokens, lost over given": (
            0.5 * np.einsum("n,tnd->t", weights, off**2),
            np.einsum("n,tnd->t", weights, off * case.velocities),
        ),
        "mean along V's leading eigenvector, gained over given": (mean @ left, push @ left),
    }
    return [budget(case, claim, source, *both, error=1e-9) for claim, both in budgets.items()]


def _leading(value: np.ndarray) -> np.ndarray:
    """The left eigenvector with the largest real part, real."""
    roots: Any
    vectors: Any
    roots, vectors = np.linalg.eig(value.T)
    return np.real(vectors[:, np.argmax(np.real(roots))])


@continuous
def three_hyperplanes(case: Case) -> Verdict | None:
    """V with a simple top eigenvalue λ_1 > 0: ⟨φ_1*,z⟩ ends in three values at most."""
    claim, source = "values along V's leading eigenvector in the end", "geshkovski2023emergence"
    if not isinstance(case.field, Rescaled) or not case.same_tokens:
        return None
    value, matrices = _matrices(case)
    geometry = limits.limit_geometry(value, **matrices)
    if geometry.kind != "hyperplanes":
        return None
    left = _leading(value)
    along = np.sort(case.points[-1] @ left)
    speed = np.abs(case.velocities[-1] @ left).max()
    width = max(along[-1] - along[0], 1e-300)
    first, second = np.sort(np.real(np.linalg.eigvals(value)))[::-1][:2]
    # Tokens attend along φ_1 alone once it outgrows the next direction.
    if speed > 1e-3 * width or (first - second) * case.times[-1] < 5:
        return not_applicable(claim, source, f"tokens still move at t = {case.times[-1]:.4g}")
    seen = 1 + int(np.sum(np.diff(along) > 0.02 * width))
    return decide(seen <= 3, claim, source, "≤ 3", seen, "exact")


def _matrices(case: Case) -> tuple[np.ndarray, dict[str, Any]]:
    head, eye = case.field.attention, np.eye(case.dim)  # pyright: ignore[reportAttributeAccessIssue]
    full = {name: applied(getattr(head, name), eye).T for name in ("query", "key", "value")}
    return full.pop("value"), full


@continuous
def diameter_falls(case: Case) -> Verdict | None:
    """Ḋ ≤ −ηD, η = min φ/max φ over [0, D²]: any two rows of weights share that much.

    Motsch and Tadmor (SIAM Review 56, 2014), for weights w_jφ_ij/Σ_kw_kφ_ik; η grows as D falls.
    """
    claim = "the diameter of opinions falls at least at the rate min φ/max φ, short by"
    source = "motsch2014heterophilious"
    field = case.field
    if not isinstance(field, Krause) or not case.same_tokens or case.tokens > MOST:
        return None
    wide = np.array([float(np.max(_distances(x))) for x in case.points])
    shares = []
    for size in wide[:-1]:
        heights = np.asarray(field.profile(np.linspace(0, size**2, 400)))
        shares.append(max(float(heights.min() / heights.max()), 0.0))
    known = wide[:-1] > 1e-6
    change = np.diff(np.log(np.maximum(wide, 1e-300))) + np.array(shares) * np.diff(case.times)
    excess = float(np.where(known, change, 0.0).max(initial=0.0))
    return judge(claim, source, 0.0, excess, absolute=1e-5)


def _distances(x: np.ndarray) -> np.ndarray:
    squares = np.sum(x**2, axis=1)
    return np.sqrt(np.maximum(squares[:, None] + squares[None] - 2 * x @ x.T, 0.0))


def merger_times(case: Case) -> Verdict | None:
    """The wait before a merger against that of its two clusters alone, by quadrature.

    From the frame after the merger before, if the pair is the closest there: others, farther by
    Δ in cos φ, pull e^{−βΔ} times as much. The moment of a merger is sharp to a few units.
    """
    claim, source = "longest wait before a merger, over that of two bodies", "two-body quadrature"
    mergers = case.run.mergers
    if not isinstance(case.run.stepper, Merging) or not case.attractive or mergers is None:
        return None
    rows = []
    counts = [frame.count for frame in case.run.frames]
    for k in range(1, len(mergers)):
        wait = math.exp(min(float(mergers.log_waits[k]), 700.0))
        remaining = case.tokens - k
        if wait < LONG or remaining not in counts:
            continue
        frame = case.run.frames[counts.index(remaining)]
        x, masses = np.asarray(frame.points), np.asarray(frame.weights)
        since = float(case.times[counts.index(remaining)]) - float(mergers.times[k - 1])
        cosines = np.clip(x @ x.T, -1, 1) - 3 * np.eye(len(x))
        i, j = np.unravel_index(int(np.argmax(cosines)), cosines.shape)
        rest = np.delete(cosines[[i, j]], [i, j], axis=1)
        gap = case.beta * float(cosines[i, j] - rest.max()) if rest.size else math.inf
        if gap < 7 or since > 0.01 * wait or not np.isfinite(wait):
            continue
        alone = float(masses[i]), float(masses[j])
        other = tuple(float(m) for m in mergers.masses[k])
        if sorted(alone) != sorted(other) and not np.allclose(sorted(alone), sorted(other)):
            return judge("the closest pair merges next", source, 0, 1, absolute=0.0)
        angle = math.acos(float(cosines[i, j]))
        end = min(float(mergers.angles[k]), 0.9 * angle)
        expected = pairs.merge_time(
            angle, case.beta, until=max(end, 1e-6), masses=alone, normalized=case.normalized
        )
        # Others' pull, the moment's own width, and a wait e^{β…} of places known to 1e−8.
        allowed = 10 * (len(x) * math.exp(-gap) + 5 / wait + 1e-8 * case.beta) + since / wait
        rows.append((wait, (wait - since) / expected, allowed, float(mergers.times[k])))
    if not rows:
        return not_applicable(claim, source, f"no pair far from others waits {LONG:g} units")
    _, ratio, allowed, when = max(rows, key=lambda row: abs(row[1] - 1) / row[2])
    reason = f"{len(rows)} mergers; worst at t = {when:.4g}"
    return judge(claim, source, 1.0, ratio, absolute=allowed, reason=reason)


def hardmax_events(case: Case) -> list[Verdict] | None:
    """β = ∞ on the sphere: the closest pair meets, where its masses say, when its angle says."""
    head, mergers = case.field, case.run.mergers
    if not isinstance(case.run.stepper, Hardmax) or mergers is None or not case.on_sphere:
        return None
    if not isinstance(head, SelfAttention):
        return None
    source = "geshkovski2024dynamic; meeting points derived"
    power, clock = (2, 0.0) if head.normalized else (1, -1.0)
    nearest, place, still, late, now = 0.0, 0.0, 0.0, 0.0, clock
    counts = [frame.count for frame in case.run.frames]
    for k in range(len(mergers)):
        if case.tokens - k not in counts or case.tokens - k - 1 not in counts:
            continue  # frames that were not kept
        last = counts.index(case.tokens - k - 1)
        before, after = case.run.frames[counts.index(case.tokens - k)], case.run.frames[last]
        x, y = np.asarray(before.points), np.asarray(after.points)
        cosines = np.clip(x @ x.T, -1, 1) - 3 * np.eye(len(x))
        i, j = np.unravel_index(int(np.argmax(cosines)), cosines.shape)
        angle = float(2 * np.arcsin(min(np.linalg.norm(x[i] - x[j]) / 2, 1.0)))
        nearest = max(nearest, abs(angle - float(mergers.angles[k])))
        now = max(now, clock + 1 - math.cos(angle))
        late = max(late, abs(now - float(case.times[last])))
        a, b = np.asarray(before.weights)[[i, j]] ** power
        share = b / (a + b)
        meet = math.sin((1 - share) * angle) * x[i] + math.sin(share * angle) * x[j]
        meet /= max(np.linalg.norm(meet), 1e-300)
        place = max(place, float(np.linalg.norm(y - meet, axis=1).min()))
        others = np.delete(x, [i, j], axis=0)
        if len(others):
            apart = np.linalg.norm(others[:, None] - y[None], axis=2).min(axis=1)
            still = max(still, float(apart.max()))
    row = lambda claim, off: judge(claim, source, 0.0, off, absolute=1e-9)
    return [
        row("the closest pair merges, angle off", nearest),
        row("it meets where its masses say, distance off", place),
        row("other tokens stay, moved by", still),
        row("clock c = largest 1 − cos φ so far, off by", late),
    ]
