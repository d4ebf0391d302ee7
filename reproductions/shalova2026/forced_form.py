"""A small common bias makes opposite clusters meet in the end."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions._random_depth import cosines, expected_later, many_runs, mean_with_error, pair_at
from reproductions.shalova2026._forms import RandomForm, drift_of_gap, variance_of_gap

ENTRY = Entry(
    title="A small common bias makes opposite clusters meet in the end",
    places=["A. Shalova, Random quadratic form with random forcing, 2026, Lemmas 3.2 and 3.11"],
    claim=(
        "With forcing γ all tokens meet in one point, the opposite pair being metastable: with "
        "p = 2/(γ²+4), E(1−Z)^p falls at least like e^{−λt}, λ = 2γ²(d−1)/(γ²+4)."
    ),
    method=(
        "Two tokens from the antipode: E(1−Z)^p at several times against the stated bound, and "
        "against Kolmogorov's equation with the stated generator."
    ),
    subject="metastability",
    basis="text",
    limits="Two tokens, from nearly opposite and orthogonal starts; the attractor is not computed.",
    planted="RandomForm.forcing * 1.4",
    settings={"dim": 3, "gamma": 0.5, "rhos": [-0.999, 0.0], "times": [0.5, 1.0, 2.0, 4.0],
              "samples": 15000, "step": 0.005},
    fast={"samples": 8000, "step": 0.01, "rhos": [-0.999]},
)  # fmt: skip


def forced_form(
    *, dim: int, gamma: float, rhos: list[float], times: list[float], samples: int, step: float
) -> Finding:
    """E(1−Z)^p, its bound and its exact value."""
    rows, series = [], []
    power = 2 / (gamma**2 + 4)
    rate = power * gamma**2 * (dim - 1)
    drift, variance = drift_of_gap(gamma, dim), variance_of_gap(gamma)
    moment = lambda v: (2 * np.exp(v)) ** power
    for group, rho in enumerate(rhos):
        z = cosines(many_runs(RandomForm(gamma), pair_at(rho, dim), times, samples=samples,
                              step=step))  # fmt: skip
        found = [mean_with_error(np.maximum(1 - each, 0.0) ** power) for each in z]
        bound = (1 - rho) ** power * np.exp(-rate * np.array(times))
        exact = expected_later(drift, variance, moment, math.log((1 - rho) / 2), times, low=-30.0,
                               high=0.0, cells=6000)  # fmt: skip
        over = max(mean - 4 * error - top for (mean, error), top in zip(found, bound, strict=True))
        rows.append(
            holds(f"from Z = {rho:g}: E(1−Z)^p stays below its bound", "Lemma 3.2", over < 0,
                  "never above it", float(over))
        )  # fmt: skip
        rows += [
            judge(f"from Z = {rho:g}: E(1−Z)^p at time {time:g}", "generator of Lemma 3.11",
                  float(now), mean, absolute=4 * error + 3 * step)
            for time, now, (mean, error) in zip(times, exact, found, strict=True)
        ]  # fmt: skip
        means, errors = np.array(found).T
        series += [
            Series(f"from Z = {rho:g}", times, means, errors, style="points", group=group),
            Series("Kolmogorov's equation", times, exact, role="theory", group=group),
            Series("bound", times, bound, role="theory", group=group, dash="dotted"),
        ]
    axes = Axis("time t (entries of Q of variance 1)"), Axis("E(1−Z)^p", scale="log")
    caption = f"Two tokens, d = {dim}, γ = {gamma:g}, no attention."
    return Finding(rows, {"moments": Lines(*axes, series, caption=caption)})
