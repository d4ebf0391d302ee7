"""Claims about a whole diagram: theory wherever it speaks of what a sweep varied.

A claim gives a probability for each cell (its samples and repetitions together), or says why there
is none. Its row shows the cell that fits least, and the probability of all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import xarray
from scipy.stats import binom, chi2, gamma, norm

from metastable.core.verdict import LEVEL, Comparison, Verdict, not_applicable, sampled, settle
from metastable.fields.build import build_field
from metastable.fields.noise import diffusion
from metastable.flows.spec import AdaptiveSpec, Experiment, FixedSpec, GeodesicSpec
from metastable.geometry.harmonics import multiplicity
from metastable.measures.spec import Uniform
from metastable.observe.summary import attention_of
from metastable.sweep.layout import labels
from metastable.sweep.observables import LARGE, highest_degree, sampled_rows
from metastable.sweep.own import claims_in, judge_overall, judge_own
from metastable.sweep.plan import Plan, plan_sweep
from metastable.sweep.rows import claim_of, reason_of
from metastable.sweep.spec import Sweep, experiment_with
from metastable.sweep.status import means
from metastable.sweep.words import located
from metastable.theory import context, counts, noise, spectrum
from metastable.theory.equiangular import phase_curve

MOST = 1000  # cells looked at, evenly spread
DRAWS, STARTS = 4000, 400  # random late orders or degrees, and random starts, behind a law
MERGED = 0.06  # of the first clusters may have merged when they are counted, or not yet have
LARGEST = 500  # β, beyond which rates of the USA clock leave the doubles
MISFIT = 0.15  # of runs may have another fastest degree than linear theory says
SMALLEST = 1e-12  # probability that is told from rounding
BEYOND = f"theory is asked for β up to {LARGEST}"
OTHER = "the field is not one head with Q = K = V = I"


class Setting(NamedTuple):
    """What theory needs to know of uniform tokens under one plain head; κ = ∞ without noise."""

    beta: float
    dim: int
    tokens: int
    normalized: bool
    kappa: float
    times: np.ndarray


class Cell(NamedTuple):
    """Runs of one experiment; `setting` says why theory is silent where it is."""

    where: str
    setting: Setting | str
    runs: int
    values: np.ndarray  # (repetitions,) or (repetitions, T), each a mean over samples


class Test(NamedTuple):
    """A cell under a claim."""

    where: str
    expected: Any
    observed: Any
    error: float | None
    p: float
    off: float = 0.0  # how far out, where p is below all rounding

    @property
    def fit(self) -> tuple[float, float]:
        """The smallest belongs to the cell that fits least."""
        numbers = isinstance(self.observed, float) and isinstance(self.expected, float)
        off = self.off or (abs(self.observed - self.expected) / self.error
                           if numbers and self.error else 0.0)  # fmt: skip
        return max(self.p, SMALLEST), -off


Answers = Iterator[Test | str]


def compare_sweep(data: xarray.Dataset) -> Comparison:
    """Test every claim of the theory that speaks of the diagram of an opened sweep, and the user's.

    Sampled rows are judged together, as those of a run: an honest diagram carries a false
    "disagree" in 1 % of cases at most.
    """
    plan = plan_sweep(Sweep.model_validate(data.attrs["sweep"]))
    rows = [*judge_overall(means(data)), *(judge_own(data, name) for name in claims_in(data))]
    for name in plan.sweep.observables:
        if name in CLAIMS:
            claim, source, judge = CLAIMS[name]
            answers = list(judge(_cells(plan, data[[name, "done"]].load())))
            independent = not plan.sweep.same_starts
            rows += _row(claim_of(claim, name), source, answers, independent, SLACK.get(name, ""))
    return Comparison(settle(rows), plan.clock)


def _row(
    claim: str, source: str, answers: list[Test | str], independent: bool, slack: str
) -> list[Verdict]:
    """The worst cell, with twice the smaller of Bonferroni's and Fisher's probability of all."""
    tests = [answer for answer in answers if isinstance(answer, Test)]
    reasons = [answer for answer in answers if isinstance(answer, str)]
    if not tests:
        return [not_applicable(claim, source, reason) for reason in reasons[:1]]
    worst = min(tests, key=lambda test: test.fit)
    p = min(1.0, len(tests) * min(test.p for test in tests))
    if len(tests) > 1 and independent:
        logs = sum(math.log(max(test.p, 1e-300)) for test in tests)
        p = min(1.0, 2 * min(p, float(chi2.sf(-2 * logs, 2 * len(tests)))))
    reason = reason_of(len(tests), worst.where, reasons, slack)
    return [sampled(claim, source, worst.expected, worst.observed, p, worst.error, reason)]


def _cells(plan: Plan, data: xarray.Dataset) -> Iterator[Cell]:
    """The cells that have runs, found by the labels of their axes."""
    (name,) = set(data) - {"done"}
    axes = [labels(values) for values in plan.values]
    every = list(product(*(range(len(values)) for values in plan.values)))
    for index in every[:: -(-len(every) // MOST)]:
        at = {dim: axis[k] for dim, axis, k in zip(plan.dims, axes, index, strict=True)}
        here = data.sel(at)
        numbers = here[name].values[here["done"].values]
        if len(numbers):
            chosen = zip(plan.dims, plan.values, index, strict=True)
            place = ", ".join(located(dim, values[k]) for dim, values, k in chosen)
            overrides = plan.cell((*index, 0)).overrides
            setting = _setting(experiment_with(plan.sweep.base, overrides))
            if any("seed" in key for key in (*overrides, *overrides.get("measure", ()))):
                setting = "its seed is stated: every run has the same start"
            yield Cell(place, setting, len(numbers) * plan.sweep.samples, numbers)


def _setting(experiment: Experiment) -> Setting | str:
    start, how = experiment.measure, experiment.flow
    if not isinstance(start, Uniform):
        return "the start is not uniform"
    if not isinstance(how.stepper, AdaptiveSpec | FixedSpec | GeodesicSpec | None):
        return "a statement about continuous depth"
    field = build_field(experiment.field, start.dim)
    head, rate = attention_of(field), float(diffusion(field))
    movers = [part for part in getattr(field, "parts", (field,)) if part.clock is not None]
    if head is None or not head.isotropic or len(movers) > 1:
        return OTHER
    if not head.query is head.key is head.value is None:
        return OTHER
    if start.tokens < 2 or not float(head.beta) >= 0:
        return "theory is asked for two tokens or more, and β ≥ 0"
    kappa, times = 1 / rate if rate else math.inf, np.linspace(0, float(how.horizon), how.frames)
    return Setting(float(head.beta), start.dim, start.tokens, head.normalized, kappa, times)


def _each(
    test: Callable[[Setting, np.ndarray, int], Any], most: float = LARGEST
) -> Callable[[Iterator[Cell]], Answers]:
    """A claim about single cells without noise, and β of `most` at most."""

    def judge(cells: Iterator[Cell]) -> Answers:
        for where, setting, runs, values in cells:
            if isinstance(setting, str):
                yield setting
            elif setting.beta > most:
                yield BEYOND
            elif math.isinf(setting.kappa):
                answer = test(setting, values, runs)
                yield answer if isinstance(answer, str) else Test(where, *answer)

    return judge


def _pages(cells: Iterator[Cell]) -> Answers:
    """Of honest runs one in a hundred has a row that disagrees at most, by Holm's method."""
    for where, _, runs, values in cells:
        pages = round(float(values.mean()) * runs)
        p, observed = float(binom.sf(pages - 1, runs, LEVEL)), f"{pages} of {runs} runs"
        yield Test(where, f"at most {LEVEL:.0%} of runs", observed, None, p, pages / runs)


def _threshold(cells: Iterator[Cell]) -> Answers:
    """Below κ_# uniform tokens stay uniform, above it order sets in: the bracket of the diagram.

    Too close to κ_# for n tokens nothing is judged (the rule of `comparison.exit.noise_threshold`),
    nor where a degree above 1 grows fastest, nor where the transition is discontinuous.
    """
    judged, uniform, ordered = [], 0.0, math.inf
    for where, setting, runs, values in cells:
        if isinstance(setting, str) or math.isinf(setting.kappa) or setting.beta > LARGEST:
            if isinstance(setting, str) or setting.beta > LARGEST:
                yield setting if isinstance(setting, str) else BEYOND
            continue
        (beta, dim, n, normalized, kappa, times), late = setting, values.mean(axis=0)
        late = float(late[len(late) // 2 :].mean() if late.ndim else late)
        off = kappa / float(noise.critical_kappa(beta, dim, normalized=normalized)) - 1
        if noise.transition_order(beta, dim, normalized=normalized) == "discontinuous":
            yield "the transition is discontinuous: order may set in before κ_#"
        elif n * abs(off) < (50 if off > 0 else 20):
            yield f"{n} tokens are too few for κ = {1 + off:.3g} κ_#"
        elif off > 0 and (dim - 1) * off / kappa * times[-1] < math.log(n):
            yield "too short for order to set in"
        elif off > 0 and spectrum.dominant_mode(beta, dim, normalized=normalized, kappa=kappa) > 1:
            yield "a degree above 1 grows fastest, which the order parameter does not show"
        else:
            p, level = _order_law(setting, off, late, runs)
            judged.append((where, p))
            uniform = max(uniform, (late <= level) * (1 + off))
            ordered = min(ordered, 1 + off if late > level else math.inf)
    error = (ordered - uniform) / math.sqrt(12)  # of a value somewhere in an interval
    bracket = f"uniform up to {uniform:.3g}, order from {ordered:.3g}"
    for where, p in judged:
        yield Test(where, 1.0, bracket, error if 0 < error < math.inf else None, p)


def _order_law(setting: Setting, off: float, late: float, runs: int) -> tuple[float, float]:
    """Probability of a late order so far out below κ_#, so small above it; and the level of order.

    In linear theory the mean m of n tokens is an Ornstein–Uhlenbeck process, at first with
    E|m|² = 1/n: dm = λm dt + √(2(d−1)/(κnd)) dW, λ = (d−1)(κ/κ_# − 1)/κ. Below κ_# its mean square
    tends to 1/(nε), ε = 1 − κ/κ_#, less some 2/(nε²) of that, which is not linear and allowed for;
    above, it grows past the level under which 99.9 % of uniform tokens stay. Derived.
    """
    _, dim, n, _, kappa, times = setting
    rng, draws = np.random.default_rng(0), max(100, min(DRAWS, 10**5 // dim))
    grown = math.exp(min((dim - 1) * off / kappa * times[1], 300.0))
    spread = math.sqrt((grown**2 - 1) / (n * off * dim))
    m, orders = rng.normal(size=(draws, dim)) / math.sqrt(n * dim), []
    with np.errstate(over="ignore"):
        for _ in times:
            orders.append(np.linalg.norm(m, axis=1))
            m = grown * m + spread * rng.normal(size=m.shape)
    level = math.sqrt(chi2.isf(1e-3, dim) / (dim * n)) if off > 0 else math.inf
    each = np.minimum(orders[len(times) // 2 :], level).mean(axis=0)
    few = min(runs, 64)  # the mean of more is normal, and its error falls as a root
    means = rng.choice(each, (draws, few)).mean(axis=1)
    means = each.mean() + (means - each.mean()) * math.sqrt(few / runs)
    if off > 0:
        return (1 + int((means <= late).sum())) / (1 + draws), level
    squares = means**2  # gamma for one moment, and close to it for a mean
    scale = float(squares.var() / squares.mean())
    law, bent = gamma(squares.mean() / scale, scale=scale), max(1 - 2 / (n * off**2), 0.0)
    lower = law.cdf(late**2 / bent) if bent > 0.5 else 1.0
    return min(1.0, 2 * float(min(lower, law.sf(late**2)))), float(np.quantile(means, 0.999))


def _meeting(setting: Setting, values: np.ndarray, runs: int) -> Any:
    """When half of the pairs have met, against Γ_∞, the limit of many dimensions.

    In d dimensions first cosines scatter by d^{−1/2}, so meeting times scatter too, and their
    middle is displaced by less than the time in which P rises from 1/6 to 5/6 (by 0.8 of it at most
    for n = 8 and 32, d = 64 to 1024, β = 0.5 to 6, measured), which is allowed.
    """
    near = values.mean(axis=0)
    if setting.dim < setting.tokens:
        return "Γ_∞ is the limit of many dimensions: they must be as many as tokens"
    if runs < 16:
        return "fewer than 16 samples"
    if near[0] >= 1 / 6 or near.max() < 5 / 6:
        return "too few pairs met between start and end"
    rising = np.maximum.accumulate(near) + 1e-12 * setting.times
    low, half, high = np.interp([1 / 6, 1 / 2, 5 / 6], rising, setting.times)
    expected = float(phase_curve(setting.beta, setting.tokens, normalized=setting.normalized))
    error = 0.5 / math.sqrt(runs) * (high - low) / (2 / 3)  # of a share of 1/2, over its slope
    z = max(abs(half - expected) - (high - low), 0.0) / error
    return expected, float(half), float(error + high - low), 2 * float(norm.sf(z))


def _first_clusters(setting: Setting, values: np.ndarray, runs: int) -> Any:
    """Mean count against the law of random amplitudes.

    Counted when a harmonic exceeds 1/2, a little after the exit that the law speaks of: the mean
    lies 0 to 5 % below it for n = 100 to 400 (measured); 6 % either way are allowed.
    """
    if setting.dim not in (2, 3) or setting.beta == 0:
        return "the law of counts is that of the circle and S² with β > 0"
    if (unsuited := _unsuited(setting)) is not None:
        return unsuited
    law = counts.count_distribution(setting.beta, setting.dim, setting.tokens, samples=STARTS)
    if not law.counts:
        return "more than 4096 counts are likely"
    shares = np.full(2 * max(law.counts) + 1, 0.5 / max(law.counts))  # one more draw, anywhere
    for count, share in law.counts.items():
        shares[count] += STARTS * share
    mean, allowed = float(values.mean()), MERGED * law.mean
    p = _tails(shares / shares.sum(), round(mean * runs), runs, allowed)
    return law.mean, mean, law.deviation / math.sqrt(runs) + allowed, p


def _dominant_mode(setting: Setting, values: np.ndarray, runs: int) -> Any:
    """How many runs have a fastest degree above the median of linear theory.

    Degree ℓ starts with power χ²/(N_ℓn), N_ℓ degrees of freedom, and grows as e^{2λ_ℓt}: which has
    grown most in the first frame in which one has grown enough? Derived. Up to 0.14 of runs have
    another degree for n = 100 to 400, d = 2 to 4 (measured), a few of them a very high one.
    """
    if (unsuited := _unsuited(setting)) is not None:
        return unsuited
    if runs > len(values):
        return "means over samples hide a few high degrees: ask for repetitions"
    beta, dim, n, normalized, _, times = setting
    rates = spectrum.growth_rates(beta, dim, highest_degree(dim), normalized=normalized)
    many = np.array([multiplicity(ell, dim) for ell in range(1, rates.size + 1)], float)
    first = np.random.default_rng(0).chisquare(many, (DRAWS, rates.size)) / (many * n)
    grow = 2 * np.maximum(rates, 1e-300)
    when = (np.log1p(max(LARGE**2, 9 / n) / first) / grow).min(axis=1)
    frame = np.minimum(np.searchsorted(times, when), times.size - 1)
    grown = first * np.expm1(grow * times[frame][:, None])
    below = np.cumsum(np.bincount(grown.argmax(axis=1) + 1)) / DRAWS
    middle = int(np.argmin(np.abs(below - 0.5)))
    law, above = np.array([below[middle], 1 - below[middle]]), int((values > middle).sum())
    expected, observed = (f"{share:.2f} above {middle}" for share in (law[1], above / runs))
    error = math.sqrt(law.prod() / runs) + MISFIT
    off = abs(law[1] - above / runs) / error
    return expected, observed, error, _tails(law, above, runs, MISFIT), off


def _rows_of(name: str) -> Callable[[Setting, np.ndarray, int], Any]:
    """Mean over sampled rows of uniform tokens, against its exact law `row_law`.

    Rows of one start that see different tokens are taken for independent.
    """

    def test(setting: Setting, values: np.ndarray, runs: int) -> Any:
        law: Any = context.row_law(setting.beta, setting.dim, setting.tokens)
        expected, spread = getattr(law, name), getattr(law, f"{name}_spread")
        rows = runs * sampled_rows(setting.tokens)
        if (1 - expected) * rows < 20:
            return "hard attention: too few rows look at a second token to tell"
        seen, error = float(values.mean()), spread / math.sqrt(rows)
        # Spreads below 1e−7 are rounding of the quadrature.
        allowed = 1e-6 * expected
        z = max(abs(seen - expected) - allowed, 0.0) / max(error, 1e-300)
        return expected, seen, error + allowed, 2 * float(norm.sf(z))

    return test


def _unsuited(setting: Setting) -> str | None:
    """Why runs do not show how they left the uniform measure."""
    beta, dim, n, normalized, _, times = setting
    rate = spectrum.max_rate(beta, dim, normalized=normalized)
    when, fewest = spectrum.exit_time(n, rate), 8 * spectrum.dominant_mode(beta, dim) ** (dim - 1)
    if n < fewest:
        return f"{n} tokens are too few for the growing modes: {fewest} at least"
    if times[-1] < 1.5 * when:
        enough = f"a horizon of {1.5 * when:.3g} would do"
        return f"the run ends too soon after the exit at t = {when:.3g}: {enough}"
    return "frames are too far apart to show the exit" if rate * times[1] > 0.5 else None


def _tails(law: np.ndarray, total: int, runs: int, shift: float) -> float:
    """Probability of a sum of draws as far out as `total`, where `law` may be moved by `shift`."""
    whole, part = int(shift), shift % 1.0
    padded, size = np.pad(law, whole + 1), runs * (law.size + 2 * whole + 1) + 1
    at, tails = total + runs * (whole + 1), []
    for sign in (1, -1):
        moved = (1 - part) * np.roll(padded, sign * whole)
        moved += part * np.roll(padded, sign * (whole + 1))
        sums = np.fft.irfft(np.fft.rfft(moved, size) ** runs, size)
        tails.append(sums[at:].sum() if sign > 0 else sums[: at + 1].sum())
    return float(np.clip(2 * min(tails), 0.0, 1.0))


SLACK = {  # what a claim allows beside chance; its ± contains it
    "first_clusters": f"± {MERGED:.0%} of the mean",
    "dominant_mode": f"± {MISFIT} of the runs",
}
_NOISE = "κ/κ_# at which order sets in", "linear stability; mun2026phase for USA", _threshold
_PAIRS = "time at which half of the pairs have met, Γ_∞", "geshkovski2023mathematical, §6"
_LINEAR = "linear growth of random amplitudes, derived"
_ROWS = "attention rows of uniform tokens, exact law", "derived; bruno2026scaling"
CLAIMS: dict[str, tuple[str, str, Callable[[Iterator[Cell]], Answers]]] = {
    "late_order": _NOISE,
    "order": _NOISE,
    "pair_probability": (*_PAIRS, _each(_meeting)),
    "near_pairs": (*_PAIRS, _each(_meeting)),
    "first_clusters": ("mean number of first clusters", _LINEAR, _each(_first_clusters)),
    "dominant_mode": ("share of runs with a high fastest degree", _LINEAR, _each(_dominant_mode)),
    "row_participation": (*_ROWS, _each(_rows_of("participation"), math.inf)),
    "row_largest": (*_ROWS, _each(_rows_of("largest"), math.inf)),
    "disagreements": ("how often a run contradicts theory by chance", "Holm's method", _pages),
}
