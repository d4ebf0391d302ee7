"""Does the run obey its own equation, noise, and energy law?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metastable.comparison import equation
from metastable.comparison.case import MANY, Case, continuous
from metastable.comparison.laws import budget, derivative
from metastable.comparison.simulation import Draws, simulated
from metastable.core.verdict import Verdict, decide, judge, not_applicable, sampled
from metastable.fields import Block, SelfAttention
from metastable.flows import Adaptive, Fixed, Geodesic, Hardmax, Layers, Merging
from metastable.theory.configurations import scaled_energy_lower_bound

PAPER = "geshkovski2023mathematical"
NOISE = "definition of the noise; exchangeable simulation, derived"
FEWEST = 12  # intervals below which no exchange of noise can reach p = 0.01


def stays_on_sphere(case: Case) -> Verdict | None:
    if not case.on_sphere:
        return None
    drift = max(
        float(np.max(np.abs(np.linalg.norm(np.asarray(f.points), axis=1) - 1)))
        for f in case.run.frames
    )
    return judge("frames lie on the sphere", "definition", 0.0, drift, absolute=1e-12)


def follows_field(case: Case) -> Verdict | None:
    """Every token over every interval between frames; see `equation`."""
    run, stepper = case.run, case.run.stepper
    claim = "tokens move by the stated field, worst error"
    source = "definition of the field"
    if case.noisy or isinstance(stepper, Hardmax):
        return None
    if len(case.times) < 2:
        return not_applicable(claim, source, "needs two frames")
    if case.discrete:
        if not isinstance(stepper, Layers):
            return not_applicable(claim, source, "the run does not say how its layers step")
        worst = equation.reapplied(run, stepper)
    elif isinstance(stepper, Adaptive | Fixed | Merging | None):
        worst = equation.worst_residual(run)
    else:
        how = type(stepper).__name__
        return not_applicable(claim, source, f"the error of {how} is not known")
    if worst is None:
        return not_applicable(claim, source, "no interval without mergers in finite time")
    where = f"{run.clock} clock, {worst.intervals} intervals; at t = {worst.time:.4g}, "
    where += f"token {worst.token}"
    return judge(claim, source, 0.0, worst.error, absolute=worst.allowed, reason=where)


def noise_strength(case: Case) -> Verdict | None:
    """Squares of what the noise did over each interval, against a simulation from its start.

    Given a frame, the next one and a simulated one are two draws of one law, so that the logarithm
    of the ratio of their squared distances from the path without noise is as likely positive as
    negative. For differences D_k of conditionally symmetric law P(|ΣD| ≥ z√ΣD²) ≤ 2e^{−z²/2} at
    any length (de la Peña, Annals of Probability 27, 1999): no linearisation, any spacing.
    """
    claim = "strength κ of the noise"
    draws = _noise(case, claim)
    if not isinstance(draws, Draws):
        return draws
    observed, simulated = draws.squares()
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(observed) - np.log(simulated)
    ratios = np.nan_to_num(ratios, nan=0.0, posinf=50.0, neginf=-50.0)
    kappa, count = 1 / case.rate, len(ratios)
    error = kappa * math.sqrt(float(np.sum(ratios**2))) / count
    seen = kappa * math.exp(-float(np.mean(ratios)))
    return sampled(claim, NOISE, kappa, seen, symmetric(ratios), error)


def noise_drift(case: Case) -> Verdict | None:
    """The drift of noisy tokens along the path without noise, against the same simulation."""
    claim = "drift under noise along the stated one, as a factor"
    draws = _noise(case, claim)
    if not isinstance(draws, Draws):
        return draws
    along, lengths = draws.along()
    if lengths.sum() == 0:
        return not_applicable(claim, NOISE, "the stated field moves nothing")
    seen = 1 + float(along.sum() / lengths.sum())
    error = math.sqrt(float(np.sum(along**2))) / float(lengths.sum())
    return sampled(claim, NOISE, 1.0, seen, symmetric(along), error)


def _noise(case: Case, claim: str) -> Any:
    """Simulations of every interval, or why there are none."""
    if case.rate == 0 or case.common:
        return None
    if not isinstance(case.run.stepper, Geodesic | None):
        return not_applicable(claim, NOISE, f"not for {type(case.run.stepper).__name__}")
    if case.tokens > MANY:
        return not_applicable(claim, NOISE, f"more than {MANY} tokens: too long to simulate again")
    if len(case.times) <= FEWEST:
        return not_applicable(claim, NOISE, f"needs more than {FEWEST} frames")
    if not hasattr(case, "draws"):
        case.draws = simulated(case.run)  # pyright: ignore[reportAttributeAccessIssue]
    return case.draws  # pyright: ignore[reportAttributeAccessIssue]


def symmetric(differences: np.ndarray) -> float:
    """Bound on the probability of so large a sum of conditionally symmetric differences."""
    size = float(np.sum(differences**2))
    return 1.0 if size == 0 else min(1.0, 2 * math.exp(-(float(differences.sum()) ** 2) / size / 2))


def energy_monotone(case: Case) -> Verdict | None:
    """Along the flow; and for residual layers x ← (x + εm)/‖·‖ of one plain head at every ε > 0.

    There E = ½‖Σwφ(x)‖² in the feature space of the kernel, so that E′ − E ≥ Σ w(g(x′) − g(x))
    with g convex and ∇g(x_i) = Z_im_i, and x′ has turned toward m. Derived.
    """
    energies = _energies(case)
    if energies is None:
        return None
    sign = _sign(case)
    claim = "the energy never falls" if sign > 0 else "the energy never rises"
    residual = isinstance(case.run.stepper, Layers) and case.run.stepper.residual
    if case.discrete and not (residual and case.attractive):
        return not_applicable(claim, f"{PAPER}, §3", "a statement about continuous depth")
    change = sign * np.diff(energies)
    size = max(float(np.abs(energies).max()), 1e-300)  # a graph without edges has no energy
    worst = float(min(change.min(initial=0.0), 0.0)) / size
    return judge(claim, f"{PAPER}, §3; derived", 0.0, worst, absolute=1e-10)


@continuous
def energy_identity(case: Case) -> Verdict | None:
    """E gained over an interval against the integral of what the field gives, worst interval."""
    claim, source = "dE/dt = ∫m‖v‖² dμ, gained over given", f"{PAPER}, §3; derived"
    energies = _energies(case)
    if energies is None or case.climb is None:
        return None
    if case.tokens > MANY:
        return not_applicable(claim, source, "too many tokens for a direct sum at each frame")
    speed = np.sum(_pushes(case) * _turning(case), axis=2)
    frames = [
        frame.directions() if isinstance(case.field, Block) else frame for frame in case.run.frames
    ]
    weights = np.asarray(case.start.weights)
    metric = np.stack([case.climb.metric(frame) for frame in frames])
    return budget(case, claim, source, energies, (weights * metric * speed).sum(axis=1))


@continuous
def no_torque(case: Case) -> Verdict | None:
    """An energy that knows inner products alone turns nothing: Σ w m (x ẋᵀ − ẋ xᵀ) = 0.

    m the metric in which the field climbs it (Z for SA, 1 for USA and potentials); ẋ from the
    frames, not from the field. Noether's theorem for rotations, derived.
    """
    claim, source = "net torque over the motion, ‖Σwm(xẋᵀ − ẋxᵀ)‖/Σw‖mẋ‖", "rotation symmetry"
    climb = case.climb
    if climb is None or not case.on_sphere or not case.same_tokens or case.tokens > MANY:
        return None
    form = [getattr(case.field, name, None) for name in ("query", "key", "value")]
    if any(operator is not None and np.ndim(operator) for operator in form):
        return None
    if len(case.times) < equation.WIDE:
        return not_applicable(claim, source, f"needs {equation.WIDE} frames")
    weights, rows = np.asarray(case.start.weights), []
    for k in range(3, len(case.times) - 3, max(1, len(case.times) // 25)):
        mass = weights * np.asarray(climb.metric(case.run.frames[k]))
        speeds = [derivative(case, k, width) for width in (7, 5, 3)]
        turns = [(mass[:, None] * case.points[k]).T @ v for v in speeds]
        turns = [turn - turn.T for turn in turns]
        size = float(np.abs(mass) @ np.linalg.norm(speeds[0], axis=1))
        gap = float(np.diff(case.times[k - 1 : k + 2]).min())
        noise = 1e-9 * float(np.abs(mass).sum()) / gap
        rough = [float(np.linalg.norm(turns[j] - turns[j + 1])) for j in (0, 1)]
        unsure = rough[0] + 0.05 * rough[1] + noise
        rows.append((float(np.linalg.norm(turns[0])), unsure, size, case.times[k]))
    seen, unsure, size, times = (np.array(column) for column in zip(*rows, strict=True))
    around = np.pad(unsure, 1, mode="edge")
    allowed = equation.MARGIN * np.max([around[j : j + len(unsure)] for j in range(3)], axis=0)
    sharp = np.flatnonzero(allowed < 0.02 * size)
    if not sharp.size:
        return not_applicable(claim, source, "the frames are too far apart to tell: keep more")
    worst = sharp[np.argmax((seen / allowed)[sharp])]
    observed, most = float(seen[worst] / size[worst]), float(allowed[worst] / size[worst])
    return judge(claim, source, 0.0, observed, absolute=most, reason=f"at t = {times[worst]:.4g}")


def energy_bounds(case: Case) -> Verdict | None:
    claim, source = "2βe^{−β}E lies between uniform and one point", f"{PAPER}, §3"
    if not case.isotropic or case.energies is None or case.beta == 0:
        return None
    low = float(scaled_energy_lower_bound(case.beta, case.dim))
    least, most = float(case.energies.min()), float(case.energies.max())
    inside = low * (1 - 1e-12) <= least and most <= 1 + 1e-12
    span = f"{least:.6g} to {most:.6g}"
    return decide(inside, claim, source, f"{low:.6g} to 1", span, "1e-12")


def _energies(case: Case) -> np.ndarray | None:
    """The energy that the field climbs, by frame; None where it climbs none, or tokens merge."""
    if not hasattr(case, "climbed"):
        case.climbed = _climbed(case)  # pyright: ignore[reportAttributeAccessIssue]
    return case.climbed  # pyright: ignore[reportAttributeAccessIssue]


def _climbed(case: Case) -> np.ndarray | None:
    climb = case.climb
    if climb is None or case.tokens > MANY or len(case.times) < 2:
        return None
    if not case.same_tokens:
        return None
    if isinstance(case.head, SelfAttention) and case.isotropic and case.beta > 0:
        return case.energies
    frames = case.run.frames
    if isinstance(case.field, Block):
        frames = [frame.directions() for frame in frames]
    return np.array([climb.energy(frame) for frame in frames])


def _pushes(case: Case) -> np.ndarray:
    """The velocity that the energy's own flow would give: that of the inner field, for a block."""
    if not isinstance(case.field, Block):
        return case.velocities
    frames = zip(case.run.frames, case.times, strict=True)
    inner = case.field.field
    return np.stack([np.asarray(inner.velocity(f.directions(), t=t)) for f, t in frames])


def _turning(case: Case) -> np.ndarray:
    """How directions move under the stated field."""
    if not isinstance(case.field, Block):
        return case.velocities
    radius = np.stack([np.linalg.norm(f.points, axis=1) for f in case.run.frames])[:, :, None]
    theta, v = case.points, case.velocities
    return (v - np.sum(theta * v, axis=2, keepdims=True) * theta) / radius


def _sign(case: Case) -> int:
    assert case.climb is not None
    first = case.start.directions() if isinstance(case.field, Block) else case.start
    return 1 if float(np.sum(case.climb.metric(first))) > 0 else -1
