"""Coercive noise dissipates the energy on average, against a repulsive head if need be."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions._random_depth import cosines, expected_later, many_runs, mean_with_error, pair_at
from reproductions.agazzi2026._perceptron import RandomPerceptron

ENTRY = Entry(
    title="Coercive noise dissipates the energy on average, against a repulsive head if need be",
    places=["arXiv:2604.26898, abstract"],
    claim=(
        "If the common noise of random perceptrons is coercive enough against the drift of "
        "attention, the mean gap of two tokens falls exponentially; else it need not."
    ),
    method=(
        "Perceptrons φ(h) = 1 + h/2, κ(ρ) = a + bρ with a = 1 and b = ¼, beside attention of value "
        "−c: E(1−ρ) against e^{−λt}, λ = a(d−3) − 2b − 2c, and Kolmogorov's equation."
    ),
    subject="random depth",
    basis="derived",
    limits=(
        "Two tokens and one activation; the condition is derived here for that case, and the "
        "constants of the paper were not seen."
    ),
    planted="RandomPerceptron.scale = 0.8",
    settings={"dim": 6, "beta": 1.0, "repulsion": [0.0, 0.5, 4.0], "rho": 0.0,
              "times": [0.1, 0.3, 0.6], "samples": 10000, "step": 0.002},
    fast={"repulsion": [0.5, 4.0], "samples": 5000, "step": 0.005},
)  # fmt: skip

A, B = 1.0, 0.25


def coercive_noise(
    *, dim: int, beta: float, repulsion: list[float], rho: float, times: list[float],
    samples: int, step: float,
) -> Finding:  # fmt: skip
    """E(1−ρ) at several times for repulsive heads of several strengths."""
    rows, series = [], []
    for group, c in enumerate(repulsion):
        rate = A * (dim - 3) - 2 * B - 2 * c
        z = cosines(
            many_runs(RandomPerceptron("1 + h/2"), pair_at(rho, dim), times, samples=samples,
                      step=step, force=SelfAttention(beta, value=-c))
        )  # fmt: skip
        found = [mean_with_error(1 - each) for each in z]
        exact = expected_later(
            lambda v, c=c: _drift(v, c, beta, dim), _variance, lambda v: 2 * np.exp(v),
            math.log((1 - rho) / 2), times, low=-25.0, high=0.0, cells=4000,
        )  # fmt: skip
        rows += [
            judge(f"c = {c:g}: E(1−ρ) at time {time:g}", "Kolmogorov's equation", float(now), mean,
                  absolute=4 * error + dim * step * (1 + c) / 2)
            for time, now, (mean, error) in zip(times, exact, found, strict=True)
        ]  # fmt: skip
        means, errors = np.array(found).T
        bound = (1 - rho) * np.exp(-rate * np.array(times))
        if rate > 0:
            rows.append(
                holds(f"c = {c:g}: below e^{{−λt}}, λ = {rate:g}", "derived",
                      bool(np.all(means - 4 * errors < bound)), "never above", str(means / bound))
            )  # fmt: skip
        fine = np.linspace(0.02, times[-1], 30)
        series += [
            Series(f"c = {c:g}", times, means, errors, style="points", group=group),
            Series(f"e^{{−λt}}, λ = {rate:g}", fine, (1 - rho) * np.exp(-rate * fine),
                   role="theory", group=group),
        ]  # fmt: skip
    last = means[-1] / means[0]
    rows.append(
        holds("a head that repels more than the noise draws keeps tokens apart", "derived",
              last > 0.5, "no exponential decay", float(last))
    )  # fmt: skip
    axes = Axis("time t (SA clock)"), Axis("E(1−ρ)", scale="log")
    return Finding(rows, {"gaps": Lines(*axes, series, caption=f"Two tokens, d = {dim}.")})


def _drift(v: float, c: float, beta: float, dim: int) -> float:
    """Of v = log((1−ρ)/2): of 1 − ρ over itself, less half of the variance."""
    rho = 1 - 2 * math.exp(v)
    noise = A * (dim - 2 - rho) - B * rho * (1 + rho)
    other = 1 / (1 + math.exp(beta * (1 - rho)))
    return -noise + 2 * c * other * (1 + rho) - _variance(v) / 2


def _variance(v: float) -> float:
    rho = 1 - 2 * math.exp(v)
    return 2 * (1 + rho) * (A + B * (1 + rho))
