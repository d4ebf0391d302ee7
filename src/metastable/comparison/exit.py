"""The way out of the uniform measure: growth of modes, exit time, first clusters."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp
from scipy.stats import chi2

from metastable.comparison.case import Case, continuous
from metastable.core.verdict import Verdict, decide, judge, not_applicable
from metastable.geometry.harmonics import multiplicity
from metastable.observe import kernel_modes
from metastable.theory import counts, noise, spectrum

# Amplitude, relative to uniform, up to which growth is taken as linear. Modes feed each other a
# little even there; over 40 random starts (n = 500 and 1000, β = 9, circle) the mean rate is off by
# up to 11 %, the amplitudes by up to 25 %, the time by up to 0.16/λ. The tolerances leave room.
EARLY = 0.15
SOURCE = "Funk–Hecke; bruno2024emergence on the circle"


@continuous
def growth(case: Case) -> Verdict | None:
    claim = "modes grow at the predicted mean rate"
    window = _linear_window(case, claim)
    if not isinstance(window, int):
        return window
    strong = case.rates > 0.3 * case.rates.max()
    before, after = case.amplitudes[0, strong] ** 2, case.amplitudes[window, strong] ** 2
    span = case.times[window]
    grown = float(np.asarray(logsumexp(2 * case.rates[strong] * span, b=before)))
    expected = (grown - math.log(before.sum())) / (2 * span)
    observed = math.log(after.sum() / before.sum()) / (2 * span)
    return judge(claim, SOURCE, float(expected), observed, relative=0.15)


@continuous
def growth_of_each(case: Case) -> Verdict | None:
    claim = "amplitudes of all growing modes at the end of the linear phase"
    window = _linear_window(case, claim)
    if not isinstance(window, int):
        return window
    # A rate that would carry an amplitude past e^50 is wrong already; the cap keeps it a number.
    predicted = case.amplitudes[0] * np.exp(np.minimum(case.rates * case.times[window], 50.0))
    error = np.linalg.norm(case.amplitudes[window] - predicted) / np.linalg.norm(predicted)
    return judge(claim + ", relative error", SOURCE, 0.0, float(error), absolute=0.3)


@continuous
def leaves_uniform(case: Case) -> Verdict | None:
    """When the modes of one degree have become visible, against linear growth from the start.

    Earlier than `theory.spectrum.exit_time`, the time to leave uniform that predictions show.
    """
    claim = f"time at which the modes of one degree reach amplitude {EARLY:g}"
    source = "derived from the growth rates"
    if not case.attractive:
        return None
    if not case.starts_uniform:
        return not_applicable(claim, source, "the start is not uniform")
    largest = case.amplitudes.max(axis=1)
    left = np.flatnonzero(largest > EARLY)
    if left.size == 0 or largest[0] > EARLY:
        return not_applicable(claim, source, "no frame before, or none after, that moment")
    k = int(left[0])
    observed = np.interp(math.log(EARLY), np.log(largest[k - 1 : k + 1]), case.times[k - 1 : k + 1])
    growing = case.rates > 0
    expected = np.min(np.log(EARLY / case.amplitudes[0, growing]) / case.rates[growing])
    exit = spectrum.exit_time(case.effective_tokens, case.max_rate)
    reason = f"before the time to leave uniform, ln n/(2λ_max) = {float(exit):.4g}"
    allowed = 0.3 / float(case.rates.max())
    return judge(claim, source, float(expected), float(observed), absolute=allowed, reason=reason)


@continuous
def first_clusters(case: Case) -> Verdict | None:
    claim, source = "number of first clusters", "linear growth of random amplitudes, derived"
    if not case.attractive or case.dim not in (2, 3) or case.beta == 0:
        return None
    if not case.starts_uniform:
        return not_applicable(claim, source, "the start is not uniform")
    if (few := counts.too_few(case.beta, case.dim, case.effective_tokens)) is not None:
        return not_applicable(claim, source, few)
    when = spectrum.exit_time(case.effective_tokens, case.max_rate)
    if case.times[-1] < when:
        return not_applicable(claim, source, f"the run ends before the exit at t = {when:.3g}")
    k = int(np.argmin(np.abs(case.times - when)))
    observed = kernel_modes(case.run.frames[k], case.beta).count
    law = counts.count_distribution(case.beta, case.dim, case.tokens, samples=1000).counts
    below = sum(p for count, p in law.items() if count <= observed)
    above = sum(p for count, p in law.items() if count >= observed)
    likely = min(below, above) >= 0.005
    shown = ", ".join(f"{c}: {p:.2f}" for c, p in sorted(law.items()) if p >= 0.005)
    return decide(likely, claim, source, shown, observed, "central 99 %")


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
    if not case.noisy or case.head is None or not case.on_sphere or not case.head.isotropic:
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
        return not_applicable(claim, source, f"{n:.4g} tokens are too few so close to κ_#")
    degrees = np.arange(1, case.modes + 1)
    decay = degrees * (degrees + case.dim - 2) / kappa
    rate = float(np.max(case.rates - decay))
    if kappa > critical and rate * case.times[-1] < math.log(n):
        return not_applicable(claim, source, "too short for an instability to show")
    # With clusters expected there is no stationary uniform state to compare with: plain sampling.
    calm = 1 - case.rates / decay if kappa < critical else np.ones(case.modes)
    many = np.array([multiplicity(int(k), case.dim) for k in degrees], float)
    most = np.sqrt(chi2.isf(1e-3 / case.modes, many) / many / (n * calm))
    late = (case.amplitudes[-len(case.times) // 4 :] / most).max(axis=1).mean()
    expected = "clusters" if kappa > critical else "uniform"
    observed = "clusters" if late > 1 else "uniform"
    ends, reason = (expected, observed), f"κ = {kappa:.4g}, κ_# = {critical:.4g}"
    same = expected == observed
    return decide(same, claim, source, *ends, "99.9 % of uniform samples", reason)


def _linear_window(case: Case, claim: str) -> int | Verdict | None:
    """Index of the last frame of the linear phase, or why there is none."""
    if not case.attractive:
        return None
    if not case.starts_uniform:
        return not_applicable(claim, SOURCE, "the start is not uniform")
    small = case.amplitudes.max(axis=1) < EARLY
    window = int(np.argmin(small)) - 1 if not small.all() else small.size - 1
    # Time enough to grow by a third: before that the mean rate is all sampling noise.
    if window < 2 or case.rates.max() * case.times[window] < 0.3:
        few = "fewer than three frames in the linear phase: keep more frames"
        return not_applicable(claim, SOURCE, few)
    return window
