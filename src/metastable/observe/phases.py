"""Phases of a run read from time series: exponential growth, saturation, metastable plateaus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.core import checks


@dataclass(frozen=True)
class Plateau:
    """A stretch of time over which a count or an energy stands still; see `plateaus`."""

    start: float  # first frame on it
    end: float  # last frame on it
    value: float  # the count, or the median

    def __repr__(self) -> str:
        return f"Plateau({self.value:.4g} from {self.start:.4g} to {self.end:.4g})"


def plateaus(
    times: Any, values: Any, min_log_length: float = 1.0, tolerance: float = 0.0
) -> list[Plateau]:
    """Metastable plateaus of a series: where it stays constant for long in logarithmic time.

    A plateau is a longest run of frames with max − min ≤ `tolerance` (0 for counts; for the
    scaled energy a tenth of the smallest step 2 w_i w_j is good) and log(end/start) ≥
    `min_log_length`. Lifetimes grow exponentially with β (arXiv:2410.06833), so length is measured
    in log time and frames should be log-spaced. A time 0 counts as the first positive time.
    Neighbours of equal value, with an interruption shorter than `min_log_length`, are one plateau
    (a count flickers while two clusters touch).

    - `times`: (T,) increasing, ≥ 0; `values`: (T,).

    >>> plateaus([0, 1, 10, 100, 110, 1000, 1e4], [3, 3, 3, 3, 2, 2, 2])
    [Plateau(3 from 0 to 100), Plateau(2 from 110 to 1e+04)]
    """
    times, values = _series(times, "values", values, (1,))
    checks.nonnegative("min_log_length", min_log_length)
    checks.nonnegative("tolerance", tolerance)
    # A start at 0 alone has no scale: then every length is zero.
    smallest = times[times > 0][0] if (times > 0).any() else 1.0
    clock = np.log(np.maximum(times, smallest))
    runs = [(a, b) for a, b in _runs(values, tolerance) if clock[b] - clock[a] >= min_log_length]
    merged: list[tuple[int, int]] = []
    for a, b in runs:
        if merged and clock[a - 1] - clock[merged[-1][1] + 1] < min_log_length:
            before = slice(merged[-1][0], merged[-1][1] + 1)
            if abs(values[before].mean() - values[a : b + 1].mean()) <= tolerance:
                merged[-1] = (merged[-1][0], b)
                continue
        merged.append((a, b))
    return [
        Plateau(float(times[a]), float(times[b]), float(np.median(values[a : b + 1])))
        for a, b in merged
    ]


def _runs(values: np.ndarray, tolerance: float) -> list[tuple[int, int]]:
    runs, first = [], 0
    low = high = values[0]
    for index, value in enumerate(values):
        low, high = min(low, value), max(high, value)
        if high - low > tolerance:
            runs.append((first, index - 1))
            first, low, high = index, value, value
    return [*runs, (first, len(values) - 1)]


@dataclass(frozen=True)
class Phases:
    """The three phases out of the uniform measure, as intervals of time; see `phases`."""

    mode: int  # degree of the dominant mode
    rate: float  # exponential rate of its amplitude in the linear phase
    linear: tuple[float, float] | None
    quasilinear: tuple[float, float] | None
    collapsing: tuple[float, float] | None

    def __repr__(self) -> str:
        shown = [f"mode {self.mode}, rate {self.rate:.4g}"]
        for name in ("linear", "quasilinear", "collapsing"):
            span = getattr(self, name)
            shown.append(f"{name} {span[0]:.4g} to {span[1]:.4g}" if span else f"no {name}")
        return f"Phases({'; '.join(shown)})"


def phases(
    times: Any,
    amplitudes: Any,
    rate: float | None = None,
    small: float = 0.1,
    tolerance: float = 0.2,
) -> Phases:
    """Linear, quasi-linear and collapsing phase of a run that leaves the uniform measure.

    With a(t) the amplitude of the dominant mode (the largest when one first exceeds `small`) and
    r = d log a / dt:
    linear while a ≤ `small` and |r/λ − 1| ≤ `tolerance`, λ the `rate` of theory if given, else
    the least-squares slope of log a while a ≤ `small`; quasi-linear until r < λ/2; collapsing
    from there to the last frame. The names are those of arXiv:2410.23228; the thresholds are
    conventions of this package. For logistic growth ȧ = λa(1 − a) the phases change at a = 0.1 and
    a = 0.5. A run that stays below `small` is all linear; one that starts above it, with no `rate`
    given, all collapsing.

    - `times`: (T,) increasing, dense enough for r (some ten frames per 1/λ).
    - `amplitudes`: (T,) or (T, K), column k − 1 for degree k = 1, …, K, at most 1 each: |μ̂_k| on
      the circle, or the square root of `power` over its number of harmonics.
    """
    times, amplitudes = _series(times, "amplitudes", amplitudes, (1, 2))
    columns = amplitudes.reshape(len(times), -1)
    exceeded = columns.max(axis=1) > small
    out = int(np.argmax(exceeded)) if exceeded.any() else len(times) - 1
    mode = int(np.argmax(columns[out]))
    log_a = np.log(np.maximum(columns[:, mode], np.finfo(float).tiny))
    ends = float(times[0]), float(times[-1])
    if rate is None:
        if out < 3:  # nothing to fit: it left before the first frames, or there are only these
            spans = (None, None, ends) if exceeded.any() else (ends, None, None)
            return Phases(mode + 1, float("nan"), *spans)
        rate = float(np.polyfit(times[:out], log_a[:out], 1)[0])
    slopes = np.gradient(log_a, times) if len(times) > 1 else np.zeros(1)

    # One-sided slopes at the first frame are the least accurate: they do not decide.
    drifting = np.abs(slopes - rate) > tolerance * abs(rate)
    drifting[0] = False
    leaves = (columns[:, mode] > small) | drifting
    if not leaves.any():
        return Phases(mode + 1, rate, ends, None, None)
    left = int(np.argmax(leaves))
    slow = slopes[left:] < rate / 2
    settled = left + int(np.argmax(slow)) if slow.any() else None
    first = float(times[left])
    linear = (ends[0], first) if left > 0 else None
    if settled is None:
        return Phases(mode + 1, rate, linear, (first, ends[1]), None)
    second = float(times[settled])
    quasilinear = (first, second) if settled > left else None
    return Phases(mode + 1, rate, linear, quasilinear, (second, ends[1]))


def _series(
    times: Any, name: str, values: Any, axes: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    times, values = np.asarray(times, float), np.asarray(values, float)
    checks.finite_array("times", times, 1)
    if (np.diff(times) <= 0).any():
        raise ValueError("times must increase from frame to frame; sort the frames first.")
    if values.ndim not in axes or len(values) != len(times):
        raise ValueError(
            f"{name} must have one row per time ({len(times)}); got shape {values.shape}."
        )
    checks.finite_array(name, values, values.ndim)
    return times, values
