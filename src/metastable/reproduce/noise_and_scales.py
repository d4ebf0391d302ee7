"""Noise against order, and how β, n and d set the number of clusters and the time scales."""

from __future__ import annotations

import math

import numpy as np

from metastable.comparison.verdict import judge
from metastable.fields import Noise, SelfAttention
from metastable.flows import flow
from metastable.measures import Density, uniform
from metastable.observe import amplitudes, kernel_modes, power
from metastable.reproduce.finding import Finding, holds
from metastable.theory.branches import branch_in_kappa, transition
from metastable.theory.counts import count_distribution, expected_count
from metastable.theory.noise import critical_kappa, tricritical_beta
from metastable.theory.spectrum import dominant_mode, exit_time, growth_rates, max_rate

__all__ = ["bending_branches", "clusters_from_beta", "exit_times", "noise_threshold"]


def exit_times(*, beta: float, tokens: list[int], seeds: int, dims: list[int]) -> Finding:
    """The time to leave uniform grows like log n over twice the largest rate."""
    from metastable.report.plots import draw_lines

    curves, theory, rows = {}, {}, []
    for dim in dims:
        rate, mode = max_rate(beta, dim), dominant_mode(beta, dim)
        seen = []
        for n in tokens:
            left = []
            for seed in range(seeds):
                run = flow(uniform(n, dim, seed), SelfAttention(beta),
                           1.6 * exit_time(n, rate) + 3 / rate, frames=121)  # fmt: skip
                size = np.array([amplitudes(frame, mode)[mode - 1] for frame in run.frames])
                above = np.flatnonzero(size > 0.3)
                left.append(run.times[above[0]] if above.size else np.nan)
            seen.append(float(np.nanmedian(left)))
        slope = np.polyfit(np.log(tokens), seen, 1)[0]
        rows.append(
            judge(f"growth of the exit time with log n, d = {dim}", "time scales", 0.5 / rate,
                  slope, relative=0.25)
        )  # fmt: skip
        curves[f"d = {dim}"] = (tokens, seen)
        law = np.log(tokens) * 0.5 / rate
        theory[f"log n/2λ + const, d = {dim}"] = (tokens, law + np.mean(np.array(seen) - law))
    figure = draw_lines(
        curves,
        "tokens n",
        "exit time (SA clock)",
        log="x",
        theory=theory,
        caption=f"Median over {seeds} starts, β = {beta:g}: the dominant mode passes 0.3.",
    )
    return Finding(rows, {"times": figure})


def clusters_from_beta(*, betas: list[float], tokens: int, seeds: int) -> Finding:
    """The number of first clusters follows from β by the Bessel formula, as a distribution."""
    from metastable.report.plots import draw_bars, draw_lines

    means, errors, expected, figures = [], [], [], {}
    for beta in betas:
        rate = max_rate(beta, 2)
        foretold = count_distribution(beta, 2, tokens, samples=2000)
        time = exit_time(tokens, rate)
        counts = []
        for seed in range(seeds):
            run = flow(uniform(tokens, 2, seed), SelfAttention(beta), time, frames=2)
            counts.append(len(kernel_modes(run.frames[-1], beta).masses))
        means.append(float(np.mean(counts)))
        errors.append(float(np.std(counts) / math.sqrt(seeds)))
        expected.append(foretold.mean)
        most = max(max(counts), max(foretold.counts)) + 1
        seen = np.bincount(counts, minlength=most) / seeds
        places = list(range(1, most))
        figures[f"beta{beta:g}"] = draw_bars(
            places,
            {
                "predicted": [foretold.counts.get(k, 0.0) for k in places],
                "seen": seen[1:most].tolist(),
            },
            "clusters at exit", "share",
            f"β = {beta:g}: {seeds} starts of {tokens} tokens; dominant mode "
            f"{dominant_mode(beta, 2)}.",
        )  # fmt: skip
    rows = [
        judge(f"mean number of first clusters, β = {beta:g}", "eigenvalue k²I_k(β)/(βI_0(β))",
              e, m, absolute=0.15 + 3 * s)
        for beta, e, m, s in zip(betas, expected, means, errors, strict=True)
    ]  # fmt: skip
    figures["means"] = draw_lines(
        {"seen": (betas, means, errors)}, "β", "mean number of clusters at exit",
        "Circle, softmax attention.",
        theory={
            "predicted distribution": (betas, expected),
            "√(2β)": (betas, [expected_count(b, 2) for b in betas]),
        },
    )  # fmt: skip
    return Finding(rows, figures)


def noise_threshold(*, betas: list[float], dims: list[int]) -> Finding:
    """Noise keeps the uniform measure stable exactly below κ_#."""
    from metastable.report.plots import draw_lines

    wrong, curves, theory = 0, {}, {}
    for normalized, clock in ((True, "SA"), (False, "USA")):
        for dim in dims:
            found = []
            for beta in betas:
                threshold = float(critical_kappa(beta, dim, normalized=normalized))
                rates = []
                for factor in (0.9, 1.1):
                    kappa = factor * threshold
                    field = SelfAttention(beta, normalized=normalized) + Noise(kappa)
                    start = Density.mode(dim, 1, 1e-7, zonal=True if dim > 3 else None)
                    span = 0.1 * kappa
                    run = flow(start, field, span, frames=2)
                    a, b = (float(np.sqrt(power(frame, 1)[1])) for frame in run.frames)
                    rates.append(math.log(b / a) / span)
                    exact = growth_rates(beta, dim, 1, normalized=normalized, kappa=kappa)[0]
                    wrong += abs(rates[-1] - exact) > 1e-4 * abs(exact) + 1e-9
                # The rate λ − (d−1)/κ is linear in 1/κ: where two of them cross zero.
                u = 1 / (np.array([0.9, 1.1]) * threshold)
                found.append(1 / (u[0] - rates[0] * (u[1] - u[0]) / (rates[1] - rates[0])))
            curves[f"{clock}, d = {dim}"] = (betas, found)
            theory[f"κ_#, {clock}, d = {dim}"] = (
                betas, critical_kappa(betas, dim, normalized=normalized),
            )  # fmt: skip
    off = max(
        np.abs(np.array(c[1]) / t[1] - 1).max()
        for c, t in zip(curves.values(), theory.values(), strict=True)
    )
    rows = [
        judge("largest relative error of the threshold", "stability under noise", 0.0, off,
              absolute=1e-4),
        judge("growth rates with noise off the formula", "stability under noise", 0, wrong,
              absolute=0),
    ]  # fmt: skip
    figure = draw_lines(
        curves, "β", "critical κ", "Where the first mode neither grows nor decays.", log="y",
        theory=theory, size=(5.4, 3.6),
    )  # fmt: skip
    return Finding(rows, {"threshold": figure})


def bending_branches(*, around: float, dims: list[int]) -> Finding:
    """USA's ordered branch bends back exactly above β_*; SA's never does."""
    from metastable.report.noise import draw_branches

    rows, shown = [], []
    for dim in dims:
        turning = tricritical_beta(dim)
        for factor, bends in ((1 - around, False), (1 + around, True)):
            found = transition(factor * turning, dim, normalized=False)
            back = found.kappa_ordered < found.kappa_uniform * (1 - 1e-9)
            rows.append(
                holds(f"d = {dim}, USA, β = {factor:g} β_*: the branch bends back",
                      "transition continuous iff β ≤ β_*", back == bends,
                      "yes" if bends else "no", "yes" if back else "no")
            )  # fmt: skip
        smooth = transition((1 + around) * turning, dim, normalized=True)
        rows.append(
            holds(f"d = {dim}, SA at the same β: it bends back", "derived",
                  smooth.kappa_ordered >= smooth.kappa_uniform * (1 - 1e-9), "no",
                  f"κ at the fold over κ_#: {smooth.kappa_ordered / smooth.kappa_uniform:.6f}")
        )  # fmt: skip
    turning = tricritical_beta(dims[0])
    shown = [
        branch_in_kappa(factor * turning, dims[0], normalized=False)
        for factor in (1 - around, 1 + around)
    ]
    return Finding(rows, {"branches": draw_branches(shown)})
