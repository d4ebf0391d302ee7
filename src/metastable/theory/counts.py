"""How many clusters form first, and where: the exit from the uniform measure.

n independent uniform tokens start with random harmonic amplitudes of variance 1/n, and each grows
at its own rate λ_ℓ. The best mode gains only n^{(λ_1st−λ_2nd)/(2λ_1st)} over the next, so the
prediction is a distribution of counts, not an integer. A cluster is a maximum of the potential
Σ_j w_j e^{β⟨x,x_j⟩}, not of the density, whose high modes are noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import root_scalar
from scipy.special import ndtr

from metastable.geometry.harmonics import (
    convolve,
    fourier_coefficients,
    harmonic_coefficients,
)
from metastable.geometry.maxima import Maxima, find_maxima
from metastable.theory.bessel import bessel_ratio
from metastable.theory.spectrum import dominant_mode, exit_time, growth_rates
from metastable.theory.waves import expected_maxima, maxima_variance

# Up to this β counts are sampled, above it they follow the law of many maxima. Sampling costs
# 0.5 ms a start on the circle and 1.5 ms on S² at these β, and grows like β and β^{3/2}.
SAMPLED = {2: 60.0, 3: 12.0}
# The law is worked out at this β at most and scaled, as the potential looks the same in units of
# its wavelength.
_SCALED_FROM = 2000.0
_MOST_COUNTS = 4096
_PER_MODE = 8  # tokens for each growing mode, see `fewest_tokens`


@dataclass(frozen=True)
class CountDistribution:
    """Probabilities of cluster counts.

    `standard_error` is that of `mean`, from the finite number of samples; 0 for the law of many
    maxima, which is not sampled. `deviation` is the standard deviation of the count. `counts` is
    empty where more than 4096 counts are likely.
    """

    counts: Mapping[int, float]
    mean: float
    standard_error: float
    deviation: float


def count_distribution(
    beta: float,
    dim: int,
    tokens: int,
    *,
    later: float = 0.0,
    normalized: bool = True,
    samples: int = 2000,
    seed: int = 0,
) -> CountDistribution:
    """Distribution of the number of clusters at t_exit + `later` from n independent uniform tokens.

    1. Amplitudes a_{ℓm} of variance 1/n, Gaussian (the limit of many tokens), grow as e^{λ_ℓ t}.
    2. They stop at t_exit = ln n/(2λ_max), or before, when the contrast that has grown,
       δ = Σ (e^{λ_ℓ t} − 1) a_{ℓm} Y_{ℓm}, has root mean square 1. In linear theory tokens move
       from q to q + ∇φ(q) with Jacobian 1 + Δφ = 1 − δ: where δ passes 1 that map folds, which
       the true flow never does, so linear growth cannot be trusted much beyond contrast one.
    3. At `later` = 0 the maxima of the potential (degree ℓ times I_{ℓ+ν}/I_ν) are counted.
       For `later` > 0 each maximum becomes a point with the mass of its basin, these few points
       move by the exact field for that time, and the maxima of their potential are counted.

    Derived here. No number is fitted, but the rule of step 2 was preferred to two others (t_exit
    alone; the first fold) after comparing with simulations; the first fold is closer on the circle
    and worse on S². Measured on the SA clock: on the circle (1200 starts, n = 1000; β = 5, 7, 10)
    the total variation distance is at most 0.07 at exit and 8 units later; on S² (100 starts,
    n = 1500; β = 10, 20, 40) the mean is within 3 % at exit and 1 to 4 % too low 5 units later.
    `later` is on the SA clock, or on the USA clock if not `normalized`; the count at exit is the
    same for both. `dim` is 2 or 3; `tokens` at least `fewest_tokens(beta, dim)`.

    Past β = 60 on the circle and 12 on S² the count at exit is not sampled: `samples` and `seed`
    are then unused. The amplitudes are Gaussian, so the Kac–Rice formula gives the mean, and on the
    circle the variance, of the number of maxima (`theory.waves`), at the time at which the
    expected contrast is one; the law is normal, rounded to integers. On S² the variance is
    0.19 (λ_max t)^{−0.3} of the mean, fitted to samples at β = 20 and 40. Past β = 2000 all is
    scaled from there. Measured against samples (n from 500 to 1e15): the mean within 1 % (β = 200
    and 400 on the circle, 20 and 40 on S²), the deviation within 4 % on the circle and 10 % on S²,
    total variation 0.01 to 0.04 and 0.05 to 0.1, which is the noise of the samples. Milliseconds.

    >>> prediction = count_distribution(5.0, 2, 1000, samples=500)
    >>> max(prediction.counts, key=prediction.counts.get)
    3
    """
    _require(beta, dim)
    if not 0 <= later < math.inf:
        raise ValueError(f"later must be finite and >= 0, got {later}; it is a time after exit.")
    if not (normalized or later == 0 or beta <= 700):
        raise ValueError(
            f"beta must be at most 700 on the USA clock, got {beta}; use the SA clock."
        )
    if not tokens >= 2:
        raise ValueError(f"tokens must be at least 2, got {tokens}; a lone token is one cluster.")
    if samples < 2:
        raise ValueError(f"samples must be at least 2, got {samples}; take a few hundred.")
    if tokens < (fewest := fewest_tokens(beta, dim)):
        raise ValueError(
            f"tokens must be at least {fewest} for this law at beta {beta:g}, got {tokens}; lower "
            "beta or take more tokens."
        )
    if later == 0 and beta > SAMPLED[dim]:
        return _many_maxima(beta, dim, tokens)
    kernel = _kernel(beta, dim)
    degree = len(kernel) - 1
    amplitudes = _initial_amplitudes(tokens, dim, degree, samples, np.random.default_rng(seed))
    # USA rates are SA rates times one constant, so the pattern at exit is the same.
    rates = np.r_[0.0, growth_rates(beta, dim, degree)]
    growth = np.exp(rates * _linear_time(amplitudes, rates, tokens, dim)[:, None])
    # The mean of the potential is left out: next to it a small β would leave only rounding.
    factors = growth * kernel / kernel[1]
    factors[:, 0] = 0
    kept = _heard(factors)
    amplitudes = amplitudes[:, : kept if dim == 2 else kept**2]
    found = find_maxima(convolve(amplitudes, factors[:, :kept], dim), dim)
    counts = found.counts
    if later > 0:
        points, masses = _clusters(found)
        points, masses = _move(points, masses, beta, later, normalized)
        counts = find_maxima(
            convolve(_coefficients(points, masses, degree), kernel, dim), dim
        ).counts
    numbers, frequency = np.unique(counts, return_counts=True)
    deviation = float(np.std(counts, ddof=1))
    return CountDistribution(
        counts={int(k): float(f) / samples for k, f in zip(numbers, frequency, strict=True)},
        mean=float(np.mean(counts)),
        standard_error=deviation / math.sqrt(samples),
        deviation=deviation,
    )


def fewest_tokens(beta: float, dim: int) -> int:
    """Fewest tokens for which the law of first clusters is given: 8 ℓ*^{d−1}, d = 2 or 3.

    Linear growth needs a phase in which it is small: the ~ℓ*^{d−1} degrees of freedom of the
    growing modes start with a total contrast near √(ℓ*^{d−1}/n), and with n ≈ ℓ*^{d−1} tokens that
    is one from the start. Measured on the circle, β = 20 (300 starts each): with 1, 2, 4, 8, 16
    tokens per mode the simulated mean is 31, 13, 6, 5 and 3 % below the law and the total variation
    distance 0.69, 0.31, 0.17, 0.14 and 0.09; on S², β = 10 (60 starts), with 1, 2, 4 and 8 the mean
    is 13, 8, 3 and 1 % below and the distance 0.33, 0.19, 0.19 and 0.14.

    >>> fewest_tokens(5.0, 2)
    24
    """
    _require(beta, dim)
    return _PER_MODE * dominant_mode(beta, dim) ** (dim - 1)


def too_few(beta: float, dim: int, tokens: float, crowd: str = "") -> str | None:
    """Why the law of first clusters does not hold for so few tokens; None where it does.

    `crowd` is what to call them, such as "24 tokens of unequal mass, as 9 equal ones,".

    >>> too_few(5.0, 2, 2)
    '2 tokens are too few for ℓ* = 3 modes: the law needs 24'
    """
    fewest = fewest_tokens(beta, dim)
    if tokens >= fewest:
        return None
    modes = dominant_mode(beta, dim) ** (dim - 1)
    name = "ℓ*" if dim == 2 else "ℓ*²"
    crowd = crowd or f"{_short(tokens)} tokens"
    few = f"{crowd} are too few for {name} = {_short(modes)} modes"
    return f"{few}: the law needs {_short(fewest)}"


def _short(number: float) -> str:
    return f"{number:.0f}" if number < 1e6 else f"{float(number):.3g}"


def _many_maxima(beta: float, dim: int, tokens: int) -> CountDistribution:
    """The count at exit by Kac–Rice instead of samples; see `count_distribution`."""
    scale = max(1.0, beta / _SCALED_FROM) ** ((dim - 1) / 2)
    beta = min(beta, _SCALED_FROM)
    power, grown = _power_at_exit(beta, dim, tokens / scale)
    mean = scale * expected_maxima(power, dim)
    if dim == 2:
        variance = scale * maxima_variance(power)
    else:
        variance = 0.19 * grown**-0.3 * mean
    deviation = math.sqrt(variance)
    low, high = max(1, math.floor(mean - 6 * deviation)), math.ceil(mean + 6 * deviation)
    counts: dict[int, float] = {}
    if high - low < _MOST_COUNTS:
        # Rounding a normal variable to integers adds 1/12 to its variance.
        width = math.sqrt(max(variance - 1 / 12, 1e-4))
        edges = ndtr((np.arange(low, high + 2) - 0.5 - mean) / width)
        shares = np.diff(edges) / (edges[-1] - edges[0])
        counts = {low + k: float(p) for k, p in enumerate(shares) if p > 1e-9}
    return CountDistribution(counts, mean, 0.0, deviation)


def _power_at_exit(beta: float, dim: int, tokens: float) -> tuple[np.ndarray, float]:
    """Power of degrees 1.. of the potential at the expected contrast one, and λ_max t there."""
    kernel = _kernel(beta, dim)[1:]
    rates = growth_rates(beta, dim, len(kernel))
    degree = np.arange(1.0, len(kernel) + 1)
    many = np.full(len(kernel), 2.0) if dim == 2 else 2 * degree + 1
    excess = lambda t: float(many @ np.expm1(rates * t) ** 2) - tokens
    last = exit_time(tokens, float(rates.max()))
    time = last if excess(last) <= 0 else root_scalar(excess, bracket=(0.0, last)).root
    return many * (kernel * np.exp(rates * time)) ** 2, float(rates.max() * time)


def expected_count(beta: float, dim: int) -> float:
    """Expected number of first clusters from a uniform start: √(2β) on the circle, β/√3 on S².

    The dominant degree obeys ℓ(ℓ+d−2) ≈ 2β; a wave of degree k on the circle has k maxima, a
    random wave of degree ℓ on S² has ℓ(ℓ+1)/(2√3) on average. Derived here; not below one.
    Counts simulated at exit are within 10 % of it for β from 5 to 40; mergers take away up to a
    tenth in the next five units of the SA clock.

    >>> round(expected_count(40.0, 3), 2)
    23.09
    """
    _require(beta, dim)
    return max(1.0, math.sqrt(2 * beta) if dim == 2 else beta / math.sqrt(3))


def predicted_angles(angles: Any, weights: Any, beta: float) -> np.ndarray:
    """Where the first clusters will form on the circle, from the initial tokens.

    θ_j = (2πj − arg μ̂_k)/k, j = 0..k−1, with k the dominant mode and μ̂_k = Σ w e^{−ikθ}: the
    maxima of the fastest-growing wave. Exact when it outgrows all others, a guide otherwise.
    `angles` and `weights` (n,) (None: equal weights); returns (k,), sorted, in [0, 2π).
    """
    _require(beta, 2)
    k = dominant_mode(beta, 2)
    phase = np.angle(fourier_coefficients(angles, weights, degree=k)[k])
    return np.sort((2 * np.pi * np.arange(k) - phase) / k % (2 * np.pi))


def total_variation(first: Mapping[int, float], second: Mapping[int, float]) -> float:
    """Total variation distance ½ Σ_k |p_k − q_k| between two distributions of counts.

    >>> total_variation({3: 0.75, 4: 0.25}, {3: 1.0})
    0.25
    """
    return sum(abs(first.get(k, 0.0) - second.get(k, 0.0)) for k in {*first, *second}) / 2


def _kernel(beta: float, dim: int) -> np.ndarray:
    """Funk–Hecke weights I_{ℓ+ν}/I_ν of the potential, degree 1 and those above 1e−10."""
    kernel = bessel_ratio(dim / 2 - 1, np.arange(math.ceil(math.sqrt(60 * beta)) + 12), beta)
    return kernel[: max(2, np.count_nonzero(kernel > 1e-10))]


def _heard(factors: np.ndarray) -> int:
    """How many degrees matter to maxima: those of 1e−8 of the power in second derivatives."""
    bends = np.max(factors**2 * np.arange(factors.shape[1]) ** 4.0, axis=0)
    return 1 + int(np.flatnonzero(bends > 1e-8 * bends.max())[-1])


def _initial_amplitudes(
    tokens: int, dim: int, degree: int, samples: int, rng: np.random.Generator
) -> np.ndarray:
    if dim == 2:
        normal = rng.standard_normal((samples, degree + 1, 2)) / math.sqrt(2 * tokens)
        amplitudes = normal[..., 0] + 1j * normal[..., 1]
    else:
        amplitudes = rng.standard_normal((samples, (degree + 1) ** 2)) / math.sqrt(tokens)
    amplitudes[:, 0] = 1
    return amplitudes


def _linear_time(amplitudes: np.ndarray, rates: np.ndarray, tokens: int, dim: int) -> np.ndarray:
    """End of linear growth for each sample: contrast of order one, or the exit time if sooner."""
    if dim == 2:
        power = 2 * np.abs(amplitudes) ** 2
    else:
        power = np.add.reduceat(amplitudes**2, np.arange(len(rates)) ** 2, axis=1)
    fastest = rates.max()
    last = exit_time(tokens, fastest)
    time = np.full(len(amplitudes), last)
    # The contrast is nearly proportional to e^{λ_max t} − 1; dividing that by the contrast until
    # it is one gains a digit a round.
    for _ in range(12):
        contrast = np.sqrt(np.sum(power * np.expm1(rates * time[:, None]) ** 2, axis=1))
        time = np.log1p(np.expm1(fastest * time) / contrast) / fastest
    return np.minimum(time, last)


def _clusters(found: Maxima) -> tuple[np.ndarray, np.ndarray]:
    """Maxima as points (samples, m, d) with basin masses (samples, m); the rest is massless."""
    samples, most = len(found.counts), int(found.counts.max())
    rank = np.arange(len(found.owner)) - np.searchsorted(found.owner, found.owner)
    points = np.empty((samples, most, found.points.shape[1]))
    masses = np.zeros((samples, most))
    points[:] = found.points[np.searchsorted(found.owner, np.arange(samples))][:, None]
    points[found.owner, rank] = found.points
    masses[found.owner, rank] = found.shares
    return points, masses / masses.sum(1, keepdims=True)


def _coefficients(points: np.ndarray, masses: np.ndarray, degree: int) -> np.ndarray:
    if points.shape[-1] == 3:
        return harmonic_coefficients(points, masses, degree=degree)
    return fourier_coefficients(np.arctan2(points[..., 1], points[..., 0]), masses, degree=degree)


def _velocity(x: np.ndarray, w: np.ndarray, beta: float, normalized: bool) -> np.ndarray:
    """The exact field at massive points, read at x/|x|; zero at massless ones; USA in units e^β."""
    x = x / np.linalg.norm(x, axis=2, keepdims=True)
    force = w[:, None, :] * np.exp(beta * (x @ x.swapaxes(1, 2) - 1))
    massive = (w > 0)[..., None]
    if normalized:
        force /= np.where(massive, force.sum(2, keepdims=True), 1)
    pull = force @ x
    return massive * (pull - np.sum(x * pull, 2, keepdims=True) * x)


def _move(
    points: np.ndarray, masses: np.ndarray, beta: float, time: float, normalized: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Few massive points per sample moved by the exact field, merging those that meet.

    Bogacki–Shampine 3(2) with a step of its own for every sample; merging removes the stiff
    scale, so that steps can grow between mergers.
    """
    points, masses = points.copy(), masses.copy()
    width = 1 / math.sqrt(beta)
    left = np.full(len(points), time * (1.0 if normalized else math.exp(beta)))
    step = np.minimum(left, 0.1)
    active = np.flatnonzero(left > 0)
    while len(active):
        x, w, h = points[active], masses[active], step[active, None, None]
        v1 = _velocity(x, w, beta, normalized)
        v2 = _velocity(x + h / 2 * v1, w, beta, normalized)
        v3 = _velocity(x + 3 * h / 4 * v2, w, beta, normalized)
        new = x + h * (2 * v1 + 3 * v2 + 4 * v3) / 9
        v4 = _velocity(new, w, beta, normalized)
        gap = h * (-5 * v1 + 6 * v2 + 8 * v3 - 9 * v4) / 72
        error = np.max(np.linalg.norm(gap, axis=2), axis=1) / (1e-3 * width)
        taken = error <= 1
        new /= np.linalg.norm(new, axis=2, keepdims=True)
        points[active[taken]] = new[taken]
        left[active[taken]] -= step[active[taken]]
        step[active] *= np.clip(0.9 / np.maximum(error, 1e-12) ** (1 / 3), 0.2, 4)
        _merge(points, masses, active[taken], 0.01 * width)
        active = active[left[active] > 1e-12 * time]
        step[active] = np.minimum(step[active], left[active])
    return points, masses


def _merge(points: np.ndarray, masses: np.ndarray, rows: np.ndarray, distance: float) -> None:
    """Join the closest pair of each sample until none is closer than `distance`, in place."""
    while len(rows):
        x, w = points[rows], masses[rows]
        gram = x @ x.swapaxes(1, 2)
        off = np.triu(np.ones(gram.shape[1:], bool), 1) & (w[:, :, None] * w[:, None, :] > 0)
        closeness = np.where(off, gram, -1.0).reshape(len(rows), -1)
        pair = np.argmax(closeness, 1)
        close = closeness[np.arange(len(rows)), pair] > math.cos(distance)
        rows, pair = rows[close], pair[close]
        i, j = np.divmod(pair, points.shape[1])
        centre = masses[rows, i, None] * points[rows, i] + masses[rows, j, None] * points[rows, j]
        points[rows, i] = points[rows, j] = centre / np.linalg.norm(centre, axis=1)[:, None]
        masses[rows, i] += masses[rows, j]
        masses[rows, j] = 0.0


def _require(beta: float, dim: int) -> None:
    if dim not in (2, 3):
        raise ValueError(f"dim must be 2 or 3, got {dim}; counts are known on these only.")
    if not 0 < beta < math.inf:
        raise ValueError(f"beta must be finite and > 0, got {beta}; at 0 there is one cluster.")
