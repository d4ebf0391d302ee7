"""What the last token of a prompt forgets."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from metastable.core.verdict import judge
from metastable.observe.retrieval import position_bias, position_weights, retrieval_profile
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.retrieval import (
    critical_retrieval_time,
    least_retrieved,
    retrieval_law,
    retrieval_row,
)
from metastable.theory.spectrum import growth_rates

ENTRY = Entry(
    title="What the last token of a prompt forgets",
    places=["arXiv:2605.09213, abstract and public code"],
    claim=(
        "For uniform independent tokens under causal attention with ALiBi the retrieval of a "
        "source by the last token is U-shaped in its position, in closed form, with primacy, "
        "recency and one minimum, until a critical time."
    ),
    method=(
        "Estimate the profile by derivatives along random chains of growing length, extrapolate in "
        "1/N, and solve the linear equation in position for the critical time. The paper was read "
        "as its abstract and code; retrieval is taken of the source's initial token."
    ),
    subject="long context",
    basis="code",
    limits=(
        "First Fourier mode and one slope; particles at finite N are compared after an "
        "extrapolation in 1/N, and sources in the first quarter are left out."
    ),
    planted="retrieval_profile.horizon * 2.0",
    settings={"sizes": [32, 64, 128], "systems": 8192, "slope": 1.0, "beta": 1.0},
    fast={"sizes": [16, 32], "systems": 2048},
)


def lost_middle(*, sizes: list[int], systems: int, slope: float, beta: float) -> Finding:
    """Profiles of particles, extrapolated, against the closed form; the critical time."""
    rate = float(growth_rates(beta, 2, 1, normalized=False)[0])
    edges = np.array([0.25, 0.5, 0.75, 1.0])  # in thirds, and not where early tokens dominate
    curves, ratios, errors = {}, [], []
    for count in sizes:
        bias = position_bias(count, slope, own=False)
        how = {"systems": systems, "precision": "float32", "steps": 8}
        profile = retrieval_profile(bias, beta, 1 / rate, **how)
        law = retrieval_law(profile.position, slope)
        group = np.digitize(profile.position, edges)
        mean = np.array([law[group == k].mean() for k in (1, 2, 3)])
        _, value, error = profile.binned(edges).T
        ratios.append(value / mean)
        errors.append(error / mean)
        curves[f"{count} tokens"] = tuple(profile.binned(np.linspace(0, 1, 9)).T)
    # Two sizes, N and 2N: 2R(2N) − R(N) is free of the term in 1/N.
    limit = 2 * ratios[-1] - ratios[-2]
    error = np.sqrt(4 * errors[-1] ** 2 + errors[-2] ** 2)
    source = "duerinckx2026kinetic"
    rows = [
        judge(f"retrieval in the {part} over the closed form, in the limit of many tokens", source,
              1.0, float(value), absolute=max(0.02, 3 * float(bound)))
        for part, value, bound in zip(("second quarter", "third quarter", "last quarter"), limit,
                                      error, strict=True)
    ]  # fmt: skip
    expected = critical_retrieval_time(slope, rate)
    flat = []
    for count in (128, 256):
        pull = position_weights(position_bias(count, slope, own=False))
        rise = lambda c, pull=pull: float(np.diff(retrieval_row(pull, c)[-2:])[0])
        place: Any = brentq(rise, 0.05, 8.0)
        flat.append(place / rate)
    rows.append(
        judge("time at which recency is lost, by the linear equation in position", source,
              expected, 2 * flat[1] - flat[0], relative=0.02)
    )  # fmt: skip
    bottom = least_retrieved(slope)
    first, middle, last = retrieval_law([0.02, bottom, 1.0], slope)
    rows.append(
        holds("the closed form is U-shaped", source, bool(first > last > middle),
              "first > last > middle", f"{first:.3f}, {last:.3f}, {middle:.3f} at s = {bottom:.3f}")
    )  # fmt: skip
    s = np.linspace(0.03, 1.0, 150)
    figure = plot_lines(
        curves, "position s of the source", "retrieval by the last token",
        f"Retrieval by the last token at a₁t = 1, {systems} random starts.",
        theory={"closed form, many tokens": (s, retrieval_law(s, slope))},
    )  # fmt: skip
    return Finding(rows, {"profile": figure})
