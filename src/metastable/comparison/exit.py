"""The way out of the uniform measure: growth of modes, exit time, first clusters."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import chdtr, chdtrc, chdtri, stdtr

from metastable.comparison.case import Case, continuous
from metastable.comparison.consensus import rate_at, sharpness
from metastable.comparison.forces import mean_force
from metastable.core.verdict import Verdict, decide, not_applicable, sampled
from metastable.fields import Noise
from metastable.flows import Layers
from metastable.geometry.harmonics import multiplicity
from metastable.observe import kernel_modes, power
from metastable.observe.modes import signed_power
from metastable.observe.pairs import carrying
from metastable.theory import counts, noise, spectrum

EARLY = 0.05  # power in all degrees up to which growth is taken as linear, where a start has less
LARGEST = 0.3  # power beyond which it is not
FIRST = "number of first clusters"
SAMPLES = 1000  # random starts behind the law of first clusters
SOURCE = "Funk–Hecke; bruno2024emergence on the circle"


def growth(case: Case) -> Verdict | None:
    """How the harmonics of the start grew, against the rates of linear theory, as one factor.

    Degree ℓ has N_ℓ coefficients a, and a(t) = e^{λt}a(0) + ε. The deviation ε is quadratic in the
    amplitudes of a random uniform start, hence of no preferred direction among the N_ℓ: its part
    along a(0) shows in the growth, and the N_ℓ − 1 others say how large it is. A factor θ on all
    rates is estimated by weighted least squares; its error has a Student law with as many degrees
    of freedom (Welch–Satterthwaite). What is left of nonlinearity is of the order of the power in
    all degrees, and allowed for: measured over 240 starts, 0.3 to 0.9 of it. A residual layer of
    step ε multiplies a degree by 1 + ελ/(1 + εa), a = ⟨x,F⟩ in the uniform measure. Derived.
    """
    claim, source = "growth rates around uniform, as a factor of the predicted", SOURCE
    if case.growth is None or not case.same_tokens:
        return None
    if not case.starts_uniform:
        return not_applicable(claim, source, "the start is not uniform")
    strong = np.abs(case.rates) > 0.3 * np.abs(case.rates).max(initial=0.0)
    if not strong.any() or not np.isfinite(case.rates).all():
        return not_applicable(claim, source, "no degree grows or decays, or beyond doubles")
    k = _last_linear(case)
    if k is None:
        return not_applicable(claim, source, "no frame in the linear phase: keep more frames")
    degrees, t = np.arange(1, case.modes + 1)[strong], case.times[k]
    rates = case.rates[strong]
    if case.discrete and (rates := _in_layers(case, rates)) is None:
        return not_applicable(claim, source, "a statement about continuous depth")
    powers = _powers(case, k)
    total = float(max(powers[0][1:].sum(), powers[1][1:].sum()))
    if total > LARGEST:
        few = f"too few tokens: the harmonics hold {total:.2g} of the power of one point"
        return not_applicable(claim, source, few)
    before, after, both = (power[degrees] for power in powers)
    many = np.array([multiplicity(int(ell), case.dim) for ell in degrees], float)
    slope = both / before
    noise = np.maximum(after - both**2 / before, 0.0) / (many - 1)
    # Logarithms keep what a wrong label predicts beyond doubles a number.
    grown = np.exp(np.minimum(rates * t, 50.0))
    leverage = t * rates * grown
    weight = before * leverage**2
    if weight.sum() < 1e-200:
        return not_applicable(claim, source, "all degrees have decayed by the first frame")
    factor = 1 + float(np.sum(before * leverage * (slope - grown)) / weight.sum())
    parts = before * leverage**2 * noise / weight.sum() ** 2
    error = math.sqrt(float(parts.sum()))
    if error == 0:
        return not_applicable(claim, source, "nothing moves")
    freedom = float(parts.sum() ** 2 / np.sum(parts**2 / (many - 1)))
    p = 2 * float(stdtr(freedom, -max(abs(factor - 1) - total, 0.0) / error))
    reason = f"degrees {degrees[0]} to {degrees[-1]}, up to t = {t:.3g}; {total:.2g} nonlinear"
    return sampled(claim, source, 1.0, factor, p, error + total, reason)


def _in_layers(case: Case, rates: np.ndarray) -> np.ndarray | None:
    """Rates per unit of depth of residual layers; None where layers are of another kind."""
    stepper = case.run.stepper
    found = mean_force(case.field, np.eye(case.dim)[:1], np.zeros(1))
    if found is None or not isinstance(stepper, Layers) or not stepper.residual:
        return None
    factors = 1 + stepper.step * rates / (1 + stepper.step * float(found[0][0, 0]))
    return np.log(factors) / stepper.step if (factors > 0).all() else None


def _last_linear(case: Case) -> int | None:
    """The last frame in which the harmonics are small, None where the first is the only one."""
    small = lambda frame: power(frame, case.modes)[1:].sum()
    limit = max(EARLY, 2 * small(case.run.frames[0]))
    for k in range(1, len(case.times)):
        if small(case.run.frames[k]) > limit:
            return k - 1 if k > 1 else None
    return len(case.times) - 1 if len(case.times) > 1 else None


def _powers(case: Case, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """|a(0)|², |a(t)|² and ⟨a(t),a(0)⟩ of each degree from 0 on."""
    first, last = case.run.frames[0], case.run.frames[k]
    x, v, _ = carrying(first)
    y, w, _ = carrying(last)
    before, after = signed_power(x, v, case.modes), signed_power(y, w, case.modes)
    together = signed_power(np.concatenate([x, y]), np.concatenate([v, w]), case.modes)
    return before, after, (together - before - after) / 2


@continuous
def first_clusters(case: Case) -> Verdict | None:
    claim, source = FIRST, "linear growth of random amplitudes, derived"
    if not case.attractive or case.dim not in (2, 3) or case.beta == 0:
        return None
    if not case.starts_uniform:
        return not_applicable(claim, source, "the start is not uniform")
    if (few := counts.too_few(case.beta, case.dim, case.effective_tokens, case.crowd)) is not None:
        return not_applicable(claim, source, few)
    when = spectrum.exit_time(case.effective_tokens, case.max_rate)
    if case.times[-1] < when:
        return not_applicable(claim, source, f"the run ends before the exit at t = {when:.3g}")
    k = int(np.argmin(np.abs(case.times - when)))
    observed = kernel_modes(case.run.frames[k], case.beta).count
    law = counts.count_distribution(case.beta, case.dim, case.tokens, samples=SAMPLES).counts
    # One more draw than was made: a count never drawn has the probability of one in a thousand.
    tail = lambda counts: (1 + SAMPLES * sum(law.get(c, 0.0) for c in counts)) / (1 + SAMPLES)
    below, above = (
        tail([c for c in law if side(c)])
        for side in (lambda c: c <= observed, lambda c: c >= observed)
    )
    shown = ", ".join(f"{c}: {p:.2f}" for c, p in sorted(law.items()) if p >= 0.005)
    reason = f"by t = {case.times[k]:.3g}"
    return sampled(claim, source, shown, observed, min(1.0, 2 * min(below, above)), reason=reason)


def calm_amplitudes(case: Case) -> Verdict | None:
    """Below κ_# the harmonics of n tokens are Ornstein–Uhlenbeck processes of known variance.

    n|a_ℓ|² has the mean S − (S − 1)e^{2λt} from a uniform start, S = 1/(1 − κ/κ_ℓ), L/κ the decay
    by noise and −λ the whole one. The slowest degree, at times 2/|λ| apart, in which
    squares have forgotten each other (e^{−4}): χ² of as many squares as it has harmonics. Linear
    in the amplitudes: what is left is of the order S/n, and allowed for. Derived.
    """
    claim = "power of the slowest harmonic under noise, over the predicted"
    source = "linear stability with noise, derived"
    if case.growth is None or case.rate == 0 or not case.same_tokens:
        return None
    if not case.starts_uniform or np.max(case.rates) >= 0:
        return None
    degrees = np.arange(1, case.modes + 1)
    decay = degrees * (degrees + case.dim - 2) * case.rate
    large = decay / -case.rates
    which = int(np.argmin(-case.rates))
    rate, most, n = -float(case.rates[which]), float(large[which]), case.effective_tokens
    if most / n > 0.05:
        return not_applicable(claim, source, f"{case.crowd} are too few so close to κ_#")
    chosen = _apart(case.times, 2 / rate)
    if len(chosen) < 2:
        return not_applicable(claim, source, f"needs a run longer than {4 / rate:.3g}")
    expected = most - (most - 1) * np.exp(-2 * rate * case.times[chosen])
    many = multiplicity(which + 1, case.dim)
    squares = n * case.amplitudes[chosen, which] ** 2 / expected
    return _squares(claim, source, float(np.mean(squares)), many * len(chosen), 5 * most / n)


def cluster_width(case: Case) -> Verdict | None:
    """One cluster under noise: δ̇ = −rδ + √(2/κ)Ḃ about the mean, r its rate of contraction.

    Σ w_i|x_i − m|² has the mean (d−1)(1 − Σw²)/(κr): χ² of as many squares, at times 2/r apart.
    Its width s must be small: β s² and s² d are what linear theory leaves out, and allowed for.
    """
    claim, source = "width of the cluster under noise, over the predicted", "Ornstein–Uhlenbeck"
    if case.rate == 0 or case.common or not case.on_sphere or not case.same_tokens:
        return None
    if case.tokens < 3:
        return None
    movers = [p for p in getattr(case.field, "parts", ()) if not isinstance(p, Noise)]
    weights = np.asarray(case.start.weights)
    means = np.einsum("n,tnd->td", weights, case.points)
    if len(movers) != 1 or np.linalg.norm(means[-1]) < 0.5:
        return None
    rate = rate_at(movers[0], means[-1] / np.linalg.norm(means[-1]), float(case.times[-1]), 1.0)
    if rate is None or rate <= 0:
        return None
    expected = (case.dim - 1) * (1 - float(np.sum(weights**2))) * case.rate / rate
    doubt = expected * (sharpness(case.field) + case.dim)
    # Far outside what noise does to a cluster, so that it cuts nothing; and near on the sphere.
    widest = 7 * math.sqrt(expected) * (1 + math.sqrt(2 / (case.dim - 1)))
    if doubt > 0.1 or widest > 1.2:
        return not_applicable(claim, source, "noise too strong for a narrow cluster")
    off = np.linalg.norm(case.points - means[:, None], axis=2)
    inside = off.max(axis=1) < widest
    first = len(inside) - int(np.argmin(inside[::-1])) if not inside.all() else 0
    late = np.flatnonzero(case.times > case.times[min(first, len(inside) - 1)] + 4 / rate)
    chosen = late[_apart(case.times[late], 2 / rate)] if late.size else late
    if len(chosen) < 2:
        return not_applicable(claim, source, "no stretch of one cluster long enough")
    seen = float(np.mean(np.einsum("n,tn->t", weights, off[chosen] ** 2))) / expected
    freedom = len(chosen) * (case.effective_tokens - 1) * (case.dim - 1)
    return _squares(claim, source, seen, freedom, 3 * doubt)


def _apart(times: np.ndarray, gap: float) -> np.ndarray:
    """Frames at least `gap` apart, the last first to be chosen and the first left out."""
    chosen, last = [], math.inf
    for k in range(len(times) - 1, 0, -1):
        if last - times[k] >= gap:
            chosen.append(k)
            last = times[k]
    return np.array(chosen[::-1], int)


def _squares(claim: str, source: str, seen: float, freedom: float, doubt: float) -> Verdict:
    """A mean of squares over its expectation against χ², an unknown bias `doubt` allowed for."""
    low, high = seen * (1 + doubt), seen / (1 + doubt)
    p = 2 * min(chdtr(freedom, freedom * low), chdtrc(freedom, freedom * high))
    return sampled(claim, source, 1.0, seen, min(1.0, float(p)), math.sqrt(2 / freedom) + doubt)


def noise_threshold(case: Case) -> Verdict | None:
    """Below κ_# uniform tokens stay uniform; above it they leave.

    Without clusters the amplitude of degree ℓ of n tokens has mean square 1/(n(1 − κ/κ_ℓ)), κ_ℓ
    the κ at which it becomes unstable (1/n above it): linear growth against noise. n times
    that square is a mean of as many squared normals as the degree has harmonics; a larger value
    than 99.9 % of the largest over all degrees, averaged over the last quarter of the run, is a
    cluster. Just above κ_# clusters have amplitude near √(κ/κ_# − 1), and just below it
    fluctuations are large: tokens cannot tell with n(κ/κ_# − 1) < 50, or n(1 − κ/κ_#) < 20, where
    that value nears 0.7 on the circle.
    """
    if case.rate == 0 or case.head is None or not case.on_sphere or not case.head.isotropic:
        return None
    head = case.head
    if head.query is not None or head.key is not None or head.value is not None:
        return None
    kappa, n = 1 / case.rate, case.effective_tokens
    critical = float(noise.critical_kappa(case.beta, case.dim, normalized=head.normalized))
    claim, source = "uniform is stable iff κ < κ_#", "linear stability; mun2026phase for USA"
    if not case.starts_uniform:
        return not_applicable(claim, source, "the start is not uniform")
    if n * abs(kappa / critical - 1) < (50 if kappa > critical else 20):
        return not_applicable(claim, source, f"{case.crowd} are too few so close to κ_#")
    degrees = np.arange(1, case.modes + 1)
    decay = degrees * (degrees + case.dim - 2) / kappa
    rate = float(np.max(case.rates))
    if kappa > critical and rate * case.times[-1] < math.log(n):
        return not_applicable(claim, source, "too short for an instability to show")
    # With clusters expected there is no stationary uniform state to compare with: plain sampling.
    calm = -case.rates / decay if kappa < critical else np.ones(case.modes)
    many = np.array([multiplicity(int(k), case.dim) for k in degrees], float)
    most = np.sqrt(chdtri(many, 1e-3 / case.modes) / many / (n * calm))
    if most.min() > 0.5:
        return not_applicable(claim, source, f"{case.crowd} are too few to tell clusters")
    late = (case.amplitudes[-len(case.times) // 4 :] / most).max(axis=1).mean()
    expected = "clusters" if kappa > critical else "uniform"
    observed = "clusters" if late > 1 else "uniform"
    ends, reason = (expected, observed), f"κ = {kappa:.4g}, κ_# = {critical:.4g}"
    same = expected == observed
    return decide(same, claim, source, *ends, "99.9 % of uniform samples", reason)
