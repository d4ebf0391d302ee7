"""Counting gaps gives three laws of the critical temperature."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from metastable.core.verdict import judge
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.context import accumulation_scale
from reproductions._slopes import fitted_slope

ENTRY = Entry(
    title="Three laws from one counting function",
    places=["arXiv:2605.12697, abstract"],
    claim=(
        "The critical inverse temperature of a row follows from the number of competitors within "
        "each gap of its largest logit, and is of order (log n)^(1/2), log n or (log n)² "
        "according to the family of scores."
    ),
    method=(
        "Families of scores: independent normal ones, n at one fixed gap, n at gap 1/log n. β at "
        "which the largest weight is 1/2, by bisection, against the scale of the counts; its "
        "power of log n for n up to e^60, scores beyond 10^6 by quantiles."
    ),
    subject="long context",
    basis="abstract",
    limits=(
        "The scale is our form, max_g log N(g)/g; the paper's was not seen. Large n use expected "
        "counts in place of a sample, the largest score at its median."
    ),
    planted="accumulation_scale.gaps * 0.3",
    settings={"logs": [6.0, 9.0, 15.0, 25.0, 40.0, 60.0], "samples": 200},
    fast={"samples": 40},
)


def gap_counting(*, logs: list[float], samples: int) -> Finding:
    """β at half weight, and the scale, over families and sizes."""
    families = {"normal scores": (0.5, _normal), "one gap 0.5": (1.0, _fixed),
                "gap 1/log n": (2.0, _narrow)}  # fmt: skip
    rows, seen, laws, ratios = [], {}, {}, []
    for name, (power, family) in families.items():
        found, scales = [], []
        for log_n in logs:
            gaps, log_counts = family(log_n)
            found.append(_half(gaps, log_counts))
            # Counts overflow beyond e^700 only: e^60 is a number.
            scales.append(accumulation_scale(gaps, 1 + np.exp(log_counts)))
        # The last sizes, where lower terms matter least; Gaussian ones fall like 1/log n.
        slope = fitted_slope(np.log(logs[-3:]), np.log(found[-3:]))
        rows.append(judge(f"power of log n of the critical β, {name}", "hayase2026unified", power,
                          slope, absolute=0.1))  # fmt: skip
        ratios.append(found[-1] / scales[-1])
        rows.append(holds(f"critical β over the scale of the counts, {name}", "hayase2026unified",
                          0.5 < ratios[-1] < 2, "0.5 to 2 at the largest n",
                          f"{ratios[-1]:.3f}"))  # fmt: skip
        seen[name] = (logs, np.array(found))
        laws[f"scale, {name}"] = (logs, scales)
    n = round(math.exp(logs[0]))
    sampled = [_sampled(np.random.default_rng(seed).standard_normal(n)) for seed in range(samples)]
    middle = float(np.median(sampled))
    quarter, three = np.percentile(sampled, [25, 75])
    error = 1.2533 * float(three - quarter) / 1.349 / math.sqrt(samples)
    rows.append(judge(f"median β at half weight of {n} sampled normal scores, over quantiles'",
                      "derived", 1.0, middle / seen["normal scores"][1][0],
                      absolute=0.15 + 4 * error / middle))  # fmt: skip
    figure = plot_lines(
        seen, "log n", "critical β",
        "Three families of scores; β at which the largest weight is 1/2.",
        theory=laws, log="xy",
    )  # fmt: skip
    return Finding(rows, {"scales": figure})


def _fixed(log_n: float) -> tuple[np.ndarray, np.ndarray]:
    return np.array([0.5]), np.array([log_n])


def _narrow(log_n: float) -> tuple[np.ndarray, np.ndarray]:
    return np.array([1 / log_n]), np.array([log_n])


def _normal(log_n: float) -> tuple[np.ndarray, np.ndarray]:
    """Expected numbers within each gap of the median of the largest of n normal scores."""
    low, high, top = 0.0, math.sqrt(2 * log_n) + 1, 0.0
    for _ in range(80):
        top = (low + high) / 2  # n·P(X > top) = log 2
        few = log_n + float(log_ndtr(-top)) < math.log(math.log(2))
        low, high = (low, top) if few else (top, high)
    gaps = np.geomspace(1e-3, top, 600)
    # Those above the top itself are left out: they are less than one, log 2.
    within = log_ndtr(gaps - top) + np.log(-np.expm1(log_ndtr(-top) - log_ndtr(gaps - top)))
    return gaps, log_n + within


def _half(gaps: np.ndarray, log_counts: np.ndarray) -> float:
    """β at which one token weighs as much as all competitors, Σ e^{−βg} dN(g) = 1."""
    counts = np.exp(log_counts - log_counts[-1])
    shares = np.diff(counts, prepend=counts[0] if len(counts) > 1 else 0.0)
    low, high = 1e-6, 1e7
    for _ in range(100):
        beta = math.sqrt(low * high)
        with np.errstate(divide="ignore"):
            mass = log_counts[-1] + np.log(np.sum(shares * np.exp(-beta * (gaps - gaps[0]))))
        heavy = mass - beta * gaps[0] > 0
        low, high = (beta, high) if heavy else (low, beta)
    return low


def _sampled(scores: np.ndarray) -> float:
    """The same for given scores."""
    gaps = np.sort(scores.max() - scores)[1:]
    low, high = 1e-3, 1e4
    for _ in range(60):
        beta = math.sqrt(low * high)
        heavy = np.exp(-beta * gaps).sum() > 1
        low, high = (beta, high) if heavy else (low, beta)
    return low
