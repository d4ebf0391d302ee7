"""A small perturbation leaves the uniform measure through periodic states."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Density
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.spectrum import dominant_mode, growth_rates

ENTRY = Entry(
    title="A small perturbation leaves the uniform measure through periodic states",
    places=["arXiv:2410.23228, abstract", "Theorem 4.3, by the caption of Figure 4"],
    claim=(
        "From a perturbation of all modes the solution first comes close to a k_max-periodic "
        "state, the closer the smaller the perturbation (the more tokens)."
    ),
    method=(
        "Densities with the same amplitude δ in every mode and random phases, run to the time at "
        "which mode k_max is of order one: what is left in modes that are no multiple of k_max, "
        "for δ over many decades, against δ^{1−λ_2nd/λ_max}."
    ),
    subject="clusters",
    basis="report",
    limits=(
        "Densities on the circle in the SA clock, δ ~ n^{−1/2} stands for tokens. The exponent is "
        "that of the linear phase, derived here. Only the first state, not how long it stays."
    ),
    planted="SelfAttention.beta * 0.6",
    settings={"betas": [5.0, 7.0], "deltas": [1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10], "seeds": 4},
    fast={"betas": [5.0], "deltas": [1e-4, 1e-8], "seeds": 2},
)


def near_periodic(*, betas: list[float], deltas: list[float], seeds: int) -> Finding:
    """Of order one: when growth at its first rate would make |μ̂_k| = 0.3."""
    rows, curves, theory = [], {}, {}
    for beta in betas:
        best, rates = dominant_mode(beta, 2), growth_rates(beta, 2, 8)
        second = float(np.sort(rates)[-2])
        found = []
        for delta in deltas:
            left = []
            for seed in range(seeds):
                phases = np.random.default_rng(seed).uniform(0, 2 * np.pi, 8)
                start = Density(np.append(1.0, delta * np.exp(1j * phases)), 2)
                late = np.log(0.3 / delta) / rates[best - 1]
                run = flow(start, SelfAttention(beta), late, frames=2)
                size = np.abs(np.asarray(run.frames[-1].resized(24).coefficients))
                other = [k for k in range(1, 25) if k % best]
                left.append(np.sqrt((size[other] ** 2).sum()))
            found.append(float(np.median(left)))
        slope = float(np.polyfit(np.log(deltas), np.log(found), 1)[0])
        rows.append(holds(f"β = {beta:g}: what is not {best}-periodic shrinks with δ",
                          "Theorem 4.3", found[-1] < 0.5 * found[0],
                          f"below half of {found[0]:.3g}", f"{found[-1]:.3g}"))  # fmt: skip
        rows.append(judge(f"β = {beta:g}: exponent 1 − λ_2nd/λ_max", "derived",
                          1 - second / float(rates.max()), slope, relative=0.1))  # fmt: skip
        curves[f"β = {beta:g}"] = (deltas, found)
        scale = found[-1] / deltas[-1] ** (1 - second / rates.max())
        theory[f"δ^(1−λ₂/λ₁), β = {beta:g}"] = (
            deltas, scale * np.array(deltas) ** (1 - second / rates.max()))  # fmt: skip
    figure = plot_lines(
        curves, "amplitude δ of every mode at the start", "amplitude off the periodic states",
        "When mode k_max is about 0.3.", theory=theory, log="xy",
    )  # fmt: skip
    return Finding(rows, {"left": figure})
