"""Laws of oscillators on graphs, and where convex pulls end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.linalg import expm

from metastable.comparison.case import Case, continuous
from metastable.comparison.consensus import MANY, late_frames
from metastable.comparison.laws import derivative
from metastable.comparison.pulls import cluster_theorem, convex_pull
from metastable.core.verdict import Verdict, decide, judge, not_applicable
from metastable.fields import Kuramoto, KuramotoNetwork
from metastable.observe import clusters, hemisphere
from metastable.theory import networks

STILL = 1e-6  # of the spread of frequencies: what turns as one
WIDTH = 5  # frames behind a velocity in the end


@continuous
def laplacian_decay(case: Case) -> Verdict | None:
    """Near synchrony δ̇ = −K L δ, L the Laplacian of the graph: all its modes, by the exponential.

    The slowest decays at K times the spectral gap, which is the rate once the others are gone.
    """
    claim, source = "decay near synchrony by the graph's Laplacian", "dorfler2014synchronization"
    field = case.field
    if not isinstance(field, KuramotoNetwork) or field.frequencies is not None:
        return None
    if (late := late_frames(case)) is None:
        return None
    if not isinstance(late, slice) or case.tokens > MANY:
        many = f"more than {MANY} tokens"
        return not_applicable(claim, source, late if isinstance(late, str) else many)
    points, times = case.points[late], case.times[late]
    weights = np.asarray(case.start.weights)
    apart = points - np.einsum("n,tnd->td", weights, points)[:, None]
    sizes = np.sqrt(np.einsum("n,tnd->t", weights, apart**2))
    span = float(times[-1] - times[0])
    edges, coupling = field.pairs(case.tokens), float(field.coupling)
    left = expm(-coupling * span * networks.graph_laplacian(edges, weights)) @ apart[0]
    size = math.sqrt(float(weights @ np.sum(left**2, axis=1)))
    expected, observed = -math.log(size / sizes[0]) / span, -math.log(sizes[-1] / sizes[0]) / span
    radius, scale = float(np.abs(apart[0]).max()), 1 + abs(expected)
    allowed = 10 * (radius * scale + 1e-10 / sizes[-1] / span) + 1e-6 * scale
    gap = coupling * networks.spectral_gap(edges, weights)
    reason = f"K times the spectral gap is {gap:.6g}"
    return judge(claim, source, expected, observed, absolute=allowed, reason=reason)


@continuous
def locked_state(case: Case) -> Verdict | None:
    """The complete graph can turn as one from K_c on, and then at its known order parameter."""
    source = "aeyels2004existence; mirollo2005spectrum"
    found = _oscillators(case)
    if found is None or found[1] != "complete":
        return None
    coupling, _, omega = found
    weights = np.asarray(case.start.weights)
    critical = networks.locking_coupling(omega, weights)
    spread = _speed_spread(case)
    if coupling < critical * (1 - 1e-6):
        return _never_locks(case, source, critical, spread)
    claim = "order parameter of the state that turns as one"
    if spread > STILL * np.ptp(omega):
        return not_applicable(claim, source, f"still settling at t = {case.times[-1]:.4g}")
    expected = networks.locked_order(coupling, omega, weights)
    if expected is None:
        return not_applicable(claim, source, f"too close to K_c = {critical:.6g}")
    observed = float(np.linalg.norm(weights @ case.points[-1]))
    slow = max(1e-6, 1e3 * STILL * float(np.ptp(omega)) / coupling)
    reason = f"K = {coupling:.6g}, K_c = {critical:.6g}"
    return judge(claim, source, expected, observed, absolute=slow, reason=reason)


@continuous
def tree_locks(case: Case) -> Verdict | None:
    """On a tree each edge must carry what its branch lacks: sin of its angle is known."""
    source = "dorfler2013synchronization"
    found = _oscillators(case)
    if found is None or found[1] == "complete":
        return None
    coupling, field, omega = found
    assert isinstance(field, KuramotoNetwork)
    edges, weights = field.pairs(case.tokens), np.asarray(case.start.weights)
    claim = "sines across the edges of the tree that turns as one, worst error"
    if len(edges) != case.tokens - 1 or not networks.is_connected(edges, case.tokens):
        return not_applicable(claim, source, "exact for trees and the complete graph only")
    critical = networks.tree_coupling(edges, omega, weights)
    spread = _speed_spread(case)
    if coupling < critical * (1 - 1e-6):
        return _never_locks(case, source, critical, spread)
    if spread > STILL * np.ptp(omega):
        return not_applicable(claim, source, f"still settling at t = {case.times[-1]:.4g}")
    off = omega - weights @ omega
    incidence = np.zeros((case.tokens, len(edges)))
    rows = np.arange(len(edges))
    incidence[edges[:, 0], rows], incidence[edges[:, 1], rows] = 1.0, -1.0
    carried = np.linalg.lstsq(incidence, weights * off, rcond=None)[0]
    first, second = edges.T
    expected = carried / (coupling * weights[first] * weights[second])
    x, y = case.points[-1][first], case.points[-1][second]
    error = float(np.abs(y[:, 0] * x[:, 1] - y[:, 1] * x[:, 0] - expected).max())
    reason = f"K = {coupling:.6g}, K_c = {critical:.6g}"
    heavy = float(weights[first].min() * weights[second].min())
    allowed = 10 * STILL * float(np.ptp(omega)) / (coupling * heavy) + 1e-7
    return judge(claim, source, 0.0, error, absolute=allowed, reason=reason)


def _never_locks(case: Case, source: str, critical: float, spread: float) -> Verdict:
    """Below K_c no state turns as one; what is left of the frequencies' spread is seen."""
    claim = f"below K_c = {critical:.6g} oscillators do not turn as one, spread of speeds"
    if math.isinf(spread):
        return not_applicable(claim, source, f"needs {WIDTH} frames")
    least = STILL * float(np.ptp(np.asarray(case.field.frequencies)))  # pyright: ignore[reportAttributeAccessIssue]
    return decide(spread > least, claim, source, f"> {least:.2g}", spread, "of a stepper")


def _oscillators(case: Case) -> tuple[float, Any, np.ndarray] | None:
    """Coupling, graph and frequencies of oscillators of unequal frequencies on the circle."""
    field = case.field
    if not isinstance(field, Kuramoto | KuramotoNetwork) or field.frequencies is None:
        return None
    omega = np.asarray(field.frequencies)
    if case.dim != 2 or not case.same_tokens or np.ptp(omega) == 0 or float(field.coupling) <= 0:
        return None
    complete = isinstance(field, Kuramoto) or field.edges == "complete"
    return float(field.coupling), "complete" if complete else field, omega


def _speed_spread(case: Case) -> float:
    """Largest difference of angular velocities in the end, by the frames alone."""
    if len(case.times) < WIDTH:
        return math.inf
    x, v = case.points[-1], derivative(case, len(case.times) - 1, WIDTH)
    speeds = x[:, 0] * v[:, 1] - x[:, 1] * v[:, 0]
    return float(np.ptp(speeds))


def _generic(x: np.ndarray) -> bool:
    """Whether no two pairs of tokens are equally far apart, as under a symmetry some are."""
    cosines = np.sort((x @ x.T)[np.triu_indices(len(x), 1)])
    return bool((np.diff(cosines) > 1e-14).all())


def pulled_together(case: Case) -> Verdict | None:
    """One cluster in the end, where it is proved for almost every start."""
    claim = "all tokens end in one cluster"
    if not case.on_sphere or case.noisy or case.discrete or not convex_pull(case.field):
        return None
    together = None if case.dim > 64 else hemisphere(case.start).exists
    theorem = cluster_theorem(case.field, case.dim, case.tokens, together)
    if theorem is None:
        return not_applicable(claim, "regimes", "no theorem covers this graph, start or dimension")
    end = case.run.frames[-1]
    c = np.asarray(end.weights) @ np.asarray(end.points)
    c = c / max(float(np.linalg.norm(c)), 1e-300)
    wide = float(np.linalg.norm(np.asarray(end.points) - c, axis=1).max())
    if wide < 0.1:
        return decide(True, claim, theorem.source, 1, 1, "0.1", theorem.name)
    # At rest and apart: a start of measure zero, or a theorem that fails.
    if case.tokens > MANY or not _generic(np.asarray(case.start.points)):
        return not_applicable(claim, theorem.source, "the start may be symmetric")
    few = len(case.times) < WIDTH
    speed = math.inf if few else derivative(case, len(case.times) - 1, WIDTH)
    if np.max(np.abs(speed)) > 1e-6:
        why = f"tokens still move at t = {case.times[-1]:.4g}: ask for a longer horizon"
        return not_applicable(claim, theorem.source, why)
    count = clusters(end).count
    return decide(False, claim, theorem.source, 1, count, "0.1", "tokens rest apart")
