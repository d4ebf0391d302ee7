"""A density falls together half as fast as tokens."""

from __future__ import annotations

import numpy as np
from scipy.special import spence

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions.chen2025._axial import (
    axial_nodes,
    distance_to_pole,
    mirrored,
    zonal_start,
)

ENTRY = Entry(
    title="A density falls together half as fast as tokens",
    places=["arXiv:2504.14697, abstract", "the bound W_2 ≤ Ce^{−t/100}"],
    claim=(
        "For small β a square integrable density with a mean tends to a point mass exponentially "
        "fast in W_2, at a rate of at least 1/100."
    ),
    method=(
        "On the circle: at β = 0 a Poisson kernel keeps its form, W_2² = π²/3 + 4 Li_2(−r) with "
        "r² logistic in time; at β > 0 the late rate against that of the mass that stands "
        "opposite, ½ in the SA clock and e^{−β}/2 in the USA clock; tokens without that mass."
    ),
    subject="rates",
    basis="report",
    limits=(
        "Symmetric densities on the circle, held by weighted tokens. The sharp rates are derived "
        "here and hold late; C and the range of β of the theorem are not tested."
    ),
    planted="SelfAttention.beta + 0.2",
    settings={"radius": 0.3, "betas": [0.3, 0.6], "clocks": [True, False], "horizon": 14.0},
    fast={"betas": [0.3], "clocks": [True]},
)


def density_rate(
    *, radius: float, betas: list[float], clocks: list[bool], horizon: float
) -> Finding:
    """W_2 to the final point: closed form at β = 0, late rates beyond it."""
    start = zonal_start(2, 0.5)
    s = axial_nodes()
    kernel = mirrored(s, 1 / np.cosh(s) / (1 + 2 * radius * np.tanh(s) + radius**2))
    run = flow(kernel, SelfAttention(0.0), horizon, frames=57)
    odds = radius**2 / (1 - radius**2) * np.exp(run.times)
    r = np.sqrt(odds / (1 + odds))
    exact = np.sqrt(np.maximum(np.pi**2 / 3 + 4 * spence(1 + r), 0))  # Li_2(−r) = spence(1 + r)
    seen = np.array([distance_to_pole(frame) for frame in run.frames])
    rates, rows = [], []
    middle = [k for k in range(57) if exact[k] > 1e-2]
    # Positions are right to 10⁻⁸ and the weights to rounding.
    rows.append(judge("β = 0: W_2 against the closed form, largest relative error", "derived", 0.0,
                      np.abs(seen / exact - 1)[middle].max(), absolute=1e-5))  # fmt: skip
    curves = {"β = 0": (run.times, seen)}
    cases = [(b, clock) for b in betas for clock in clocks]
    few = mirrored(np.linspace(-3.0, 0.5, len(s)), np.ones(len(s)))
    for beta, normalized in cases:
        field = SelfAttention(beta, normalized=normalized)
        name = f"β = {beta:g}, {'SA' if normalized else 'USA'}"
        for what, measure in (("density", start), ("tokens", few)):
            run = flow(measure, field, horizon, frames=57)
            far = np.array([distance_to_pole(frame) for frame in run.frames])
            late = slice(36, 49) if what == "density" else slice(24, 33)
            rate = -np.polyfit(run.times[late], np.log(far[late]), 1)[0]
            if what == "density":
                expected = 0.5 if normalized else np.exp(-beta) / 2
                rates.append(rate)
            else:
                expected = 1.0 if normalized else np.exp(beta)
            rows.append(judge(f"{name}: late rate of W_2, {what}", "derived", expected, rate,
                              relative=0.02))  # fmt: skip
            if normalized:
                curves[f"{name}, {what}"] = (run.times, far)
    claim = holds("W_2 falls exponentially, rate at least 1/100", "reported bound",
                  min(rates) > 0.01, "> 0.01", f"{min(rates):.3f}")  # fmt: skip
    figure = plot_lines(
        {name: (t[w > 1e-7], w[w > 1e-7]) for name, (t, w) in curves.items()},
        "time t (SA clock)", "W_2 to the final point",
        "Densities on the circle fall like e^{−t/2}, finitely many tokens like e^{−t}; dashed: "
        "closed form.",
        theory={"Poisson kernel": (np.linspace(0, horizon, 57), exact)}, log="y", lines=True,
    )  # fmt: skip
    return Finding([claim, *rows], {"distance": figure})
