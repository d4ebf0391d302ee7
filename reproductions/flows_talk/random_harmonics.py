"""Random harmonics on the sphere."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Adaptive, flow
from metastable.measures import Density, uniform
from metastable.observe import kernel_modes
from metastable.report.figures.plain import plot_lines
from metastable.report.figures.run import plot_strip
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.counts import count_distribution, expected_count
from metastable.theory.spectrum import exit_time, growth_rates, max_rate

ENTRY = Entry(
    title="Random harmonics on the sphere",
    places=["discussion: higher dimensions and spherical harmonics"],
    claim=(
        "On higher spheres the growth rate depends on the degree of the harmonic only; a "
        "random superposition of equally fast harmonics decides where clusters form, and how "
        "many is not known."
    ),
    method=(
        "A random wave of one degree in the density flow; then clusters counted at exit over "
        "many starts on S², beside random amplitudes grown by their rates and beside β/√3."
    ),
    subject="clusters",
    basis="text",
    limits="S² only, β up to 40, 1500 tokens, 40 starts; the rate for degree 3.",
    planted="SelfAttention.beta * 1.1",
    settings={"betas": [5.0, 10.0, 20.0, 40.0], "tokens": 1500, "seeds": 40, "degree": 3},
    fast={"betas": [5.0, 10.0], "tokens": 500, "seeds": 8},
)


def random_harmonics(*, betas: list[float], tokens: int, seeds: int, degree: int) -> Finding:
    """On S² all harmonics of one degree grow alike; random ones leave about β/√3 clusters."""
    spread, rate = _growth(betas[0], degree)
    means, errors, foretold, law, last = [], [], [], [], None
    for beta in betas:
        time = exit_time(tokens, max_rate(beta, 3))
        counts = []
        for seed in range(seeds):
            last = flow(uniform(tokens, 3, seed), SelfAttention(beta), time, frames=[0.0, time])
            counts.append(len(kernel_modes(last.frames[-1], beta).masses))
        means.append(float(np.mean(counts)))
        errors.append(float(np.std(counts, ddof=1) / math.sqrt(seeds)))
        foretold.append(count_distribution(beta, 3, tokens, samples=300).mean)
        law.append(expected_count(beta, 3))
    rows = [
        judge(f"all {2 * degree + 1} harmonics of degree {degree} grow alike: spread of the rate",
              "rate depends on the degree only", 0.0, spread, absolute=1e-6),
        judge("at the rate ℓ(ℓ+1)I_(ℓ+½)(β)/(βI_½(β)) (SA clock): relative error", "Funk–Hecke",
              0.0, rate, absolute=1e-6),
        *(
            judge(f"mean number of first clusters, β = {b:g}, random amplitudes",
                  "random superposition of harmonics; derived", f, m, absolute=0.05 * f + 3 * s)
            for b, f, m, s in zip(betas, foretold, means, errors, strict=True)
        ),
        *(
            judge(f"the same by β/√3, β = {b:g}", "maxima of a random wave; derived", e, m,
                  absolute=0.1 * e + 3 * s)
            for b, e, m, s in zip(betas, law, means, errors, strict=True)
        ),
    ]  # fmt: skip
    line = np.linspace(betas[0], betas[-1], 20)
    figure = plot_lines(
        {"seen": (betas, means, errors)}, "β", "mean number of clusters at exit",
        f"{seeds} starts of {tokens} tokens on S² for each β; bars: standard errors.",
        theory={
            "random amplitudes, grown": (betas, foretold),
            "β/√3": (line, [expected_count(b, 3) for b in line]),
        },
    )  # fmt: skip
    assert last is not None
    return Finding(rows, {"counts": figure, "exit": plot_strip(last, 2)})


def _growth(beta: float, degree: int) -> tuple[float, float]:
    """A random wave of one degree, 1e−8 of uniform: spread of its rates, error of their mean."""
    flat = np.zeros((degree + 1) ** 2)
    flat[0] = 1.0
    flat[degree**2 :] = 1e-8 * np.random.default_rng(0).choice([-1.0, 1.0], 2 * degree + 1)
    exact = float(growth_rates(beta, 3, degree)[-1])
    run = flow(Density(flat, 3), SelfAttention(beta), 1 / exact, frames=2,
               stepper=Adaptive(rtol=1e-12, atol=1e-15))  # fmt: skip
    grown = np.asarray(run.frames[-1].coefficients)[degree**2 : (degree + 1) ** 2]
    rates = np.log(grown / flat[degree**2 :])
    return float(np.ptp(rates)), float(abs(rates.mean() - 1))
