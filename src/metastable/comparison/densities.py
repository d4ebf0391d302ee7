"""Verdicts on the run of a density."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from metastable.comparison.case import Case, about
from metastable.comparison.equation import WIDE
from metastable.comparison.laws import budget
from metastable.core.numerics import jnp
from metastable.core.verdict import Verdict, judge, not_applicable
from metastable.fields.noise import diffusion
from metastable.flows import Adaptive, Fixed, Resolution, Trajectory, flow
from metastable.flows.solvers.mean_field import mean_field
from metastable.measures import Density
from metastable.observe.density import density_power, free_energy
from metastable.observe.summary import attention_of, energy_series
from metastable.theory import spectrum
from metastable.theory.grenier import expand
from metastable.theory.interaction import attention_interaction

TOLERANCE = 2e-10  # of a step and of the harmonics left out, relative
SMALL = 0.02  # contrast up to which linear theory holds to a few percent


@about(Density)
def judge_density(case: Case) -> tuple[Verdict, ...]:
    """Equation, budgets, energies, linear growth and second order of a run of a density."""
    run = case.run
    densities = [frame for frame in run.frames if isinstance(frame, Density)]
    rows = _equation(case, densities), _mass(densities), _energy(run), *_budgets(case, densities)
    laws = _free_energy(run, densities), _growth(run, densities), _second_order(case, densities)
    return *rows, *laws


def _budgets(case: Case, densities: list[Density]) -> list[Verdict]:
    """Entropy ∫f log f and contrast ∫(f−1)², gained between frames over ∫ of their rates.

    dH/dt = ∫ log f ∂_tf and dC/dt = 2∫(f−1)∂_tf, ∂_tf by the stated field: noise turns both down,
    attraction up.
    """
    source = "chain rule on the mean-field equation"
    names = "entropy", "contrast ∫(f−1)²"
    claims = [f"{name} gained over what the field gives" for name in names]
    if len(densities) < len(case.times) or len(densities) < WIDE:
        return [not_applicable(c, source, f"needs {WIDE} frames of a density") for c in claims]
    columns: list[list[float]] = [[], [], [], []]
    for frame in densities:
        fine = frame.resized(max(2 * frame.degree, 32))
        basis, c = fine.basis, jnp.asarray(fine.coefficients)
        change = mean_field(case.field, basis).derivative(c)
        h, moved = (np.asarray(basis.values(part)) for part in (c.at[0].set(0.0), change))
        if h.min() <= -1:
            return [not_applicable(c, source, "the density is not positive") for c in claims]
        rows = (1 + h) * np.log1p(h) - h, np.log1p(h) * moved, h**2, 2 * h * moved
        for column, values in zip(columns, rows, strict=True):
            column.append(float(basis.mean(jnp.asarray(values))))
    pairs = zip(claims, (columns[:2], columns[2:]), strict=True)
    return [
        budget(case, claim, source, *map(np.array, both), error=10 * TOLERANCE)
        for claim, both in pairs
    ]


def _second_order(case: Case, densities: list[Density]) -> Verdict:
    """A start 1 + δ cos ℓθ makes its own second harmonic: δ²u_2(e^{2λt} − e^{λ_{2ℓ}t}).

    Order two of Grenier's expansion, less its part at the start; the next order is (δe^{λt})²
    of it, and ten times that is allowed.
    """
    claim, source = "second harmonic made by the first, relative error", "grenier2000nonlinear"
    head, start = attention_of(case.field), densities[0]
    plain = head is not None and head.isotropic and head.query is None and head.key is None
    if head is None or not plain or head.value is not None or start.dim != 2 or head.beta == 0:
        return not_applicable(claim, source, "needs one plain attention head on the circle")
    size = np.abs(np.asarray(start.coefficients))
    mode = int(np.argmax(size[1:])) + 1
    if size[mode] == 0 or np.delete(size[1:], mode - 1).max(initial=0.0) > 1e-12 * size[mode]:
        return not_applicable(claim, source, "the start is not one harmonic")
    interaction = attention_interaction(float(head.beta), 2, normalized=head.normalized)
    kappa = 1 / case.rate if case.noisy else math.inf
    way = expand(interaction, order=2, mode=mode, kappa=kappa, pattern=start.coefficients[mode])
    second = float(interaction.growth_rates(2 * mode, kappa)[2 * mode])
    errors = []
    for frame, t in zip(densities[1:], case.times[1:], strict=False):
        grown = size[mode] * math.exp(min(way.rate * t, 50.0))
        expected = way.orders[2][2 * mode] * (math.exp(2 * way.rate * t) - math.exp(second * t))
        if grown < 0.1 and abs(expected) > 1e-12:
            seen = np.asarray(frame.resized(max(frame.degree, 2 * mode)).coefficients)[2 * mode]
            allowed = 10 * (grown**2 + TOLERANCE * len(case.times) * size[mode] / abs(expected))
            errors.append((abs(seen / expected - 1), allowed))
    if not errors:
        return not_applicable(claim, source, "no stretch of small contrast around uniform")
    worst, allowed = max(errors, key=lambda pair: pair[0] / pair[1])
    return judge(claim, source, 0.0, float(worst), absolute=float(allowed))


def _equation(case: Case, densities: list[Density]) -> Verdict:
    """Every interval solved again from its first frame: largest error of a coefficient.

    Relative to the largest coefficient but the mass, as the tolerance of the stepper.
    """
    claim = "the density moves by the stated field, worst error"
    source = "definition of the field"
    if len(densities) < 2:
        return not_applicable(claim, source, "needs two frames")
    if not isinstance(case.run.stepper, Adaptive | Fixed | Resolution | None):
        how = type(case.run.stepper).__name__
        return not_applicable(claim, source, f"the error of {how} is not known")
    errors = []
    for k, (before, after) in enumerate(itertools.pairwise(densities)):
        t0, t1 = case.times[k : k + 2]
        again = flow(before, case.field, float(t1 - t0), stepper=case.run.stepper, frames=2)
        if again.outcome.name != "done":
            continue  # the resolution ends in this interval, as it did in the run
        end = again.frames[-1]
        degree = max(end.degree, after.degree)
        one, other = (np.asarray(d.resized(degree).coefficients) for d in (end, after))
        size = float(np.abs(other.ravel()[1:]).max(initial=0.0))
        if size > 0:
            errors.append((float(np.abs(one - other).max()) / size, float(t1)))
    if not errors:
        return not_applicable(claim, source, "the density is uniform throughout")
    steps = max(1.0, float(case.run.statistics.get("steps", 0)) / len(errors))
    worst, when = max(errors)
    return judge(
        claim, source, 0.0, worst, absolute=10 * steps * TOLERANCE, reason=f"at t = {when:.4g}"
    )


def _mass(densities: list[Density]) -> Verdict:
    worst = max((float(abs(frame.mass - 1.0)) for frame in densities), default=0.0)
    return judge("mass is conserved", "definition", 0.0, worst, absolute=1e-13)


def _energy(run: Trajectory) -> Verdict:
    claim, source = "the energy is monotone", "geshkovski2023mathematical, §3"
    attention = attention_of(run.field)
    if attention is None or run.field is not attention or not attention.isotropic:
        return not_applicable(claim, source, "needs one isotropic attention head and no noise")
    series = energy_series(run)
    assert series is not None
    sign = -1.0 if attention.value is not None and float(attention.value) < 0 else 1.0
    fall = float(min((sign * np.diff(series)).min(initial=0.0), 0.0)) / float(np.abs(series).max())
    return judge(claim, source, 0.0, fall, absolute=1e-10)


def _free_energy(run: Trajectory, densities: list[Density]) -> Verdict:
    claim, source = "the free energy falls", "Wasserstein gradient flow"
    if run.field is None or float(diffusion(run.field)) == 0:
        return not_applicable(claim, source, "needs noise")
    if mean_field(run.field, densities[0].basis).heads:
        return not_applicable(claim, source, "softmax attention with noise has no free energy")
    field = run.field
    series = np.array([free_energy(frame, field) for frame in densities])
    rise = float(np.diff(series).max(initial=0.0))
    return judge(claim, source, 0.0, rise, absolute=1e-10)


def _growth(run: Trajectory, densities: list[Density]) -> Verdict:
    claim = "harmonics in the linear phase, relative error"
    source = "Funk–Hecke; bruno2024emergence on the circle"
    attention = attention_of(run.field)
    plain = attention is not None and attention.isotropic
    if attention is None or not plain or attention.query is not None or attention.key is not None:
        return not_applicable(claim, source, "needs one attention head with Q = K = I, V = ±I")
    sign = 1 if attention.value is None else float(attention.value)
    highest = min(densities[-1].degree, 64)
    norms = np.sqrt([density_power(frame, highest)[1:] for frame in densities])
    small = np.flatnonzero(norms.max(axis=1) <= SMALL)
    if abs(sign) != 1 or small.size < 2 or norms[0].max() == 0:
        return not_applicable(claim, source, "no stretch of small contrast around uniform")
    last = int(small[np.argmax(np.diff(np.append(small, -1)) != 1)])
    rate = float(diffusion(run.field)) if run.field is not None else 0.0
    beta, dim, kappa = float(attention.beta), densities[0].dim, 1 / rate if rate > 0 else math.inf
    how: dict[str, Any] = {"normalized": attention.normalized, "sign": int(sign), "kappa": kappa}
    rates = spectrum.growth_rates(beta, dim, highest, **how)
    predicted = norms[0] * np.exp(np.minimum(rates * run.times[last], 50.0))
    error = np.linalg.norm(norms[last] - predicted) / np.linalg.norm(predicted)
    return judge(claim, source, 0.0, float(error), absolute=0.05)
