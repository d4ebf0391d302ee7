"""How a run ends: one cluster, plateaus, contraction, and systems with an exact end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metastable.comparison.case import Case, continuous
from metastable.comparison.forecast import matrices_of
from metastable.core.verdict import Verdict, decide, judge, not_applicable
from metastable.fields import Rescaled, SelfAttention, SinkAttention
from metastable.observe import clusters, hemisphere, hull, hull_contains
from metastable.theory import (
    causal,
    configurations,
    equiangular,
    limits,
    metastability,
    pairs,
    regimes,
)


def single_cluster(case: Case) -> Verdict | None:
    if not case.alone or case.head is None or len(case.head.position) > int(case.head.causal):
        return None
    head = case.head
    together = None if case.dim > 64 else hemisphere(case.start).exists
    facts: dict[str, Any] = matrices_of(head, case.dim) | {"causal": head.causal}
    facts |= {"tokens": case.tokens, "normalized": head.normalized, "hemisphere": together}
    theorem = regimes.single_cluster_theorem(case.beta, case.dim, **facts)
    claim = "all tokens end in one cluster"
    if theorem is None:
        return not_applicable(claim, "regimes", "no theorem covers this field")
    groups = clusters(case.run.frames[-1], case.beta)
    now = f"at t = {case.times[-1]:.4g}: ask for a longer horizon"
    if groups.count > 1:
        return not_applicable(claim, theorem.source, f"{groups.count} clusters remain {now}")
    # A chain of neighbours is one component too; only a tight one is a cluster.
    if groups.radii.max() > 0.1 / math.sqrt(max(case.beta, 1.0)):
        return not_applicable(claim, theorem.source, f"tokens are still spread {now}")
    return decide(True, claim, theorem.source, 1, groups.count, "exact", theorem.name)


def counts_fall(case: Case) -> Verdict | None:
    """Once tokens have collapsed into tight clusters, these only merge."""
    claim, source = "the number of tight clusters never grows", "geshkovski2024dynamic"
    if not case.attractive:
        return None
    few = max(4, case.tokens // 4)  # many single tokens are no clusters
    tight: list[int] = []
    for frame in reversed(case.run.frames):  # from the end, as far as they are tight
        groups = clusters(frame, case.beta)
        if groups.count > few or groups.radii.max() >= 0.1 / math.sqrt(max(case.beta, 1.0)):
            break
        tight.insert(0, groups.count)
    if len(tight) < 2:
        return not_applicable(claim, source, "no two frames with all tokens in tight clusters")
    rises = int(np.maximum(np.diff(tight), 0).sum())
    return judge(claim + ", rises", source, 0, rises, absolute=0.0)


def plateau_energy(case: Case) -> Verdict | None:
    claim, source = "on a plateau 2βe^{−β}E = Σα² over cluster masses", "geshkovski2024dynamic"
    if not case.attractive or case.energies is None or case.beta == 0:
        return None
    groups = clusters(case.run.frames[-1], case.beta)
    spread = groups.radii.max() * math.sqrt(case.beta)
    gram = groups.centres @ groups.centres.T - 2 * np.eye(groups.count)
    cross = math.exp(-case.beta * (1 - float(gram.max()))) if groups.count > 1 else 0.0
    if spread > 0.1 or cross > 0.05:
        return not_applicable(claim, source, "the last frame is not on a plateau of tight clusters")
    level = float(metastability.plateau_level(groups.masses.tolist()))
    allowed = cross + spread**2 + 1e-9
    return judge(claim, source, level, float(case.energies[-1]), absolute=round(allowed, 10))


@continuous
def equiangular_law(case: Case) -> Verdict | None:
    sink = _plain_sink(case)
    if not (case.attractive or sink) or case.tokens > case.dim or case.tokens < 2:
        return None
    x, w = np.asarray(case.start.points), np.asarray(case.start.weights)
    if np.abs(x @ x.T - np.eye(case.tokens)).max() > 1e-9 or np.ptp(w) > 1e-12:
        return None
    if sink is not None:
        gamma = equiangular.sink_cosine(case.times, float(sink.beta), case.tokens, float(sink.sink))
    else:
        gamma = equiangular.equiangular_cosine(
            case.times, case.beta, case.tokens, normalized=case.normalized
        )
    upper = np.triu_indices(case.tokens, 1)
    grams = [np.asarray(f.points) @ np.asarray(f.points).T for f in case.run.frames]
    error = max(float(np.abs(g[upper] - e).max()) for g, e in zip(grams, gamma, strict=True))
    claim = "orthogonal tokens stay equiangular, ⟨x_i,x_j⟩ = γ_β(t), largest error"
    return judge(claim, "geshkovski2023mathematical, §6", 0.0, error, absolute=1e-6)


def _plain_sink(case: Case) -> SinkAttention | None:
    """Softmax with a sink and Q = K = V = I, alone on the sphere."""
    field = case.field
    if not isinstance(field, SinkAttention) or not case.on_sphere or not field.isotropic:
        return None
    return field if field.query is field.key is field.value is None else None


@continuous
def pair_merges(case: Case) -> Verdict | None:
    sink = _plain_sink(case)
    if not (case.attractive or sink) or case.tokens != 2:
        return None
    claim, source = "time for two clusters to reach ⟨x_1,x_2⟩ = 0.999", "two-body quadrature"
    cosines = np.array(
        [float(np.asarray(f.points)[0] @ np.asarray(f.points)[1]) for f in case.run.frames]
    )
    if cosines[-1] < 0.999 or cosines[0] >= 0.999 or case.run.frames[-1].count < 2:
        return not_applicable(claim, source, "they do not come that close during this run")
    first, second = (float(m) for m in np.asarray(case.start.weights))
    if sink is not None and abs(first - second) > 1e-12:
        return not_applicable(claim, source, "with a sink known for equal masses")
    if sink is not None:
        # Equal masses keep one clock for both: the waits of SA and of USA add.
        waits = [
            pairs.merge_time(math.acos(cosines[0]), float(sink.beta), normalized=normalized)
            for normalized in (True, False)
        ]
        expected = waits[0] + math.exp(float(sink.sink)) * waits[1]
    else:
        expected = pairs.merge_time(
            math.acos(cosines[0]), case.beta, masses=(first, second), normalized=case.normalized
        )
    k = int(np.argmax(cosines >= 0.999))
    gap = -np.log1p(-np.minimum(cosines[k - 1 : k + 1], 1 - 1e-15))
    observed = np.interp(-math.log(1e-3), gap, case.times[k - 1 : k + 1])
    return judge(claim, source, float(expected), float(observed), relative=0.01)


def causal_leader(case: Case) -> Verdict | None:
    if not case.alone or case.head is None or not case.head.causal or case.head.value is not None:
        return None
    first = int(np.argmin(np.asarray(case.start.positions)))
    leader = np.asarray(case.start.points)[first]
    claim, source = "all tokens converge to x_1(0)", "karagodin2024clustering, Thm 4.1"
    distance = float(np.linalg.norm(np.asarray(case.run.frames[-1].points) - leader, axis=1).max())
    if distance > 0.1:
        far = f"farthest token still {distance:.2g} away at t = {case.times[-1]:.4g}"
        return not_applicable(claim, source, far)
    return judge(claim + ", farthest token", source, 0.0, distance, absolute=0.1)


@continuous
def renyi_centres_stay(case: Case) -> Verdict | None:
    """A token of the circle far from all earlier ones hardly moves up to its time.

    All earlier farther than x(1+2ε) of token s: it moves by εx at most up to T = εx/(s h(x)),
    h(x) = e^{β(cos x−1)} sin x; ε = 0.1 here, and x as large as the start allows.
    """
    claim, source = "Rényi centres stay, worst move over its bound", "karagodin2024clustering, §5"
    if not case.alone or case.head is None or not case.head.causal or case.dim != 2:
        return None
    plain = all(m is None for m in (case.head.query, case.head.key, case.head.value))
    equal = np.ptp(np.asarray(case.start.weights)) < 1e-12
    if not plain or not equal or len(case.head.position) > 1 or not case.same_tokens:
        return None
    order = np.argsort(np.asarray(case.start.positions), kind="stable")
    x = case.points[:, order]
    angles = np.arccos(np.clip(x[0] @ x[0].T, -1.0, 1.0))
    moved = np.arccos(np.clip(np.sum(x * x[:1], axis=2), -1.0, 1.0))
    worst = 0.0
    for s in range(1, case.tokens):
        gap = float(angles[s, :s].min()) / 1.2
        try:
            factor = gap * math.sqrt(case.beta)
            log_time = causal.log_persistence_time(case.beta, s, factor=factor, drift=0.1)
        except ValueError:
            continue  # within reach of an earlier token
        held = np.log(np.maximum(case.times - case.times[0], 1e-300)) <= log_time
        worst = max(worst, float(moved[held, s].max(initial=0.0)) / (0.1 * gap))
    if worst == 0:
        return not_applicable(claim, source, "no frame before the first centre may move")
    return decide(worst <= 1, claim, source, "at most 1", worst, "bound")


def repulsive_minimum(case: Case) -> Verdict | None:
    """V = −I: the energy cannot fall below that of the sharp configuration, and may reach it."""
    if not case.isotropic or case.attractive or case.energies is None or case.beta == 0:
        return None
    known = configurations.sharp_configuration(case.dim, case.tokens)
    if known is None or np.ptp(np.asarray(case.start.weights)) > 1e-12:
        return None
    least = float(configurations.scaled_energy(known, case.beta))
    claim, source = f"energy bounded below by the {known.name}", "cohn2007universally"
    reached = float(case.energies[-1])
    held, gap = reached >= least * (1 - 1e-12), (reached - least) / least
    reason = "reached" if gap < 1e-9 else f"{gap:.2g} above"
    return decide(held, claim, source, least, reached, "not below", reason)


@continuous
def nested_hulls(case: Case) -> Verdict | None:
    """Pure attention with V = I: the convex hulls of the rescaled tokens shrink."""
    if not isinstance(case.field, Rescaled):
        return None
    attention: SelfAttention = case.field.attention
    matrices = matrices_of(attention, case.dim)
    value = matrices.pop("value")
    geometry = limits.limit_geometry(np.eye(case.dim) if value is None else value, **matrices)
    claim, source = "convex hulls of rescaled tokens are nested", geometry.source or "limits"
    if geometry.kind != "polytope":
        return not_applicable(claim, source, f"limit geometry: {geometry.kind or geometry.reason}")
    if case.dim > 4:
        return not_applicable(claim, source, "hulls are computed up to dimension 4")
    outside = sum(
        int(np.sum(~hull_contains(hull(before), after.points)))
        for before, after in zip(case.run.frames, case.run.frames[1:], strict=False)
    )
    return judge(claim + ", tokens outside", source, 0, outside, absolute=0.0)
