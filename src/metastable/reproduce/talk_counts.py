"""The talk on how many clusters form: growth of modes, Bessel functions, harmonics, periods."""

from __future__ import annotations

import math

import numpy as np

from metastable.comparison.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Adaptive, flow
from metastable.measures import Density, Points, uniform
from metastable.observe import clusters, kernel_modes, power
from metastable.observe.equilibria import Share
from metastable.reproduce.finding import Finding, holds
from metastable.reproduce.noise_and_scales import clusters_from_beta
from metastable.theory.bessel import bessel_ratio
from metastable.theory.counts import count_distribution, expected_count
from metastable.theory.spectrum import dominant_mode, exit_time, growth_rates, max_rate

__all__ = [
    "clusters_by_bessel",
    "growth_of_modes",
    "periodic",
    "periodic_starts",
    "random_harmonics",
]

# Of the SA clock: k clusters form within 10; two in a sector may take far longer to become one.
TIMES = [0.0, 10.0, 20.0, 40.0, 240.0]


def growth_of_modes(*, betas: list[float], modes: int) -> Finding:
    """Rates of Fourier modes around uniform, against the eigenvalue on the blackboard."""
    from metastable.report.plots import draw_lines

    order = np.arange(1, modes + 1)
    said, right, picked, falls, curves, theory = [], [], [], [], {}, {}
    for beta in betas:
        field = SelfAttention(beta, normalized=False)
        rates = growth_rates(beta, 2, modes, normalized=False)
        span, seen = 2 / rates.max(), []
        for k in order:
            run = flow(Density.mode(2, int(k), 1e-9), field, span, frames=2,
                       stepper=Adaptive(rtol=1e-12, atol=1e-14))  # fmt: skip
            first, last = (float(np.sqrt(power(x, int(k))[k])) for x in run.frames)
            seen.append(math.log(last / first) / span)
        seen = np.array(seen)
        printed = bessel_ratio(0, order, beta)
        # Over the first mode's, where the clock of the board plays no part.
        said.append(np.abs(printed / printed[0] / (seen / seen[0]) - 1).max())
        right.append(np.abs(seen / rates - 1).max())
        picked.append(int(order[seen.argmax()]))
        falls.append(bool((np.diff(seen / order**2) < 0).all()))
        curves[f"density flow, β = {beta:g}"] = (order, seen / seen[0])
        theory[f"k²I_k/I_1, β = {beta:g}"] = (order, rates / rates[0])
    theory[f"I_k/I_1 as said, β = {betas[0]:g}"] = (
        order, bessel_ratio(0, order, betas[0]) / bessel_ratio(0, 1, betas[0])
    )  # fmt: skip
    wanted = [dominant_mode(beta, 2) for beta in betas]
    rows = [
        judge("λ_k/λ_1 = I_k(β)/I_1(β): largest relative error", "eigenvalue on the blackboard",
              0.0, max(said), absolute=0.01),
        judge("λ_k = k²I_k(β)/β (USA clock): largest relative error", "Funk–Hecke; derived", 0.0,
              max(right), absolute=1e-6),
        holds(f"fastest mode at β = {', '.join(f'{b:g}' for b in betas)}; I_k alone gives 1",
              "argmax k²I_k(β)", picked == wanted, wanted, picked),
        holds("λ_k/k² falls with k, as I_k does; Bessel functions of the second kind grow with k",
              "kind of the Bessel functions", all(falls), "falls",
              "falls" if all(falls) else "does not fall"),
    ]  # fmt: skip
    figure = draw_lines(
        curves, "mode k", "rate over that of mode 1", "Growth of single modes around uniform.",
        theory=theory, log="y", size=(5.4, 3.6),
    )  # fmt: skip
    figure.axes[0].set_xticks(order)
    return Finding(rows, {"rates": figure})


def clusters_by_bessel(*, betas: list[float], tokens: int, seeds: int) -> Finding:
    """The dominant mode as a number of clusters: exact in every run, or the centre of a law?"""
    found = clusters_from_beta(betas=betas, tokens=tokens, seeds=seeds)
    means = np.array([row.observed for row in found.rows])
    modes = np.array([dominant_mode(beta, 2) for beta in betas])
    off = np.abs(means - modes)
    rows = [
        judge("every start shows as many clusters as the dominant mode: mean count off by",
              "experiment at the end of the talk", 0.0, float(off.max()), absolute=1e-9),
        holds(f"the nearest whole number to the mean count, β = {_list(betas)}",
              "dominant mode, argmax k²I_k(β)", bool((means.round() == modes).all()),
              _list(modes), _list(means.round())),
        *found.rows,
    ]  # fmt: skip
    note = (
        "The dominant mode outgrows the next one only by a small power of n, so that single "
        "starts show one cluster more or fewer; the law of the count is predicted without a fit."
    )
    order = ["means", *(name for name in found.figures if name != "means")]
    return Finding(rows, {name: found.figures[name] for name in order}, [note])


def random_harmonics(*, betas: list[float], tokens: int, seeds: int, degree: int) -> Finding:
    """On S² all harmonics of one degree grow alike; random ones leave about β/√3 clusters."""
    from metastable.report.globe import draw_strip
    from metastable.report.plots import draw_lines

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
    figure = draw_lines(
        {"seen": (betas, means, errors)}, "β", "mean number of clusters at exit",
        f"{seeds} starts of {tokens} tokens on S² for each β; bars: standard errors.",
        theory={
            "random amplitudes, grown": (betas, foretold),
            "β/√3": (line, [expected_count(b, 3) for b in line]),
        },
    )  # fmt: skip
    assert last is not None
    return Finding(rows, {"counts": figure, "exit": draw_strip(last, 2)})


def periodic_starts(*, beta: float, tokens: int, copies: list[int], starts: int) -> Finding:
    """Do exactly k-periodic starts end in exactly k clusters, and do nearly periodic ones?"""
    from metastable.report.plots import draw_bars

    noises, shares = (0.0, 1e-6, 0.1), {}
    for noise in noises:
        for k in copies:
            counts = []
            for seed in range(starts):
                start = periodic(k, tokens // k, noise, seed)
                run = flow(start, SelfAttention(beta), TIMES[-1], frames=TIMES)
                counts.append({clusters(x, beta).count for x in run.frames[1:]})
            shares[k, noise] = Share(sum(k in seen for seen in counts), starts)
    best = dominant_mode(beta, 2)
    above = [k for k in copies if k > best]
    values = lambda noise, which: [shares[k, noise].value for k in which]
    rows = [
        judge("share of exactly k-periodic starts that reach exactly k clusters, least over k",
              "discussion after the talk", 1.0, min(values(0.0, copies)), absolute=0.0),
        judge("the same with noise of 1e−6 on every token", "discussion after the talk", 1.0,
              min(values(1e-6, copies)), absolute=0.0),
        holds(f"with noise of 0.1 periods above the dominant k = {best} are often lost",
              "the dominant mode outgrows the others",
              np.mean(values(0.1, above)) < 0.75, "below 3/4 on average",
              float(np.mean(values(0.1, above)))),
    ]  # fmt: skip
    figure = draw_bars(
        copies, {f"noise {noise:g}": values(noise, copies) for noise in noises},
        "period k of the start", "share that reach k clusters",
        f"{starts} starts of {tokens} tokens on the circle, β = {beta:g}; counted at four times.",
    )  # fmt: skip
    figure.axes[0].set_ylim(0, 1.4)  # room for the legend above full bars
    return Finding(rows, {"shares": figure})


def periodic(copies: int, each: int, noise: float, seed: int) -> Points:
    """Uniform tokens in one of k sectors of the circle, its copies, and noise on each."""
    random = np.random.default_rng(seed)
    psi = random.uniform(0, 2 * np.pi, each)
    angles = np.concatenate([(psi + 2 * np.pi * q) / copies for q in range(copies)])
    angles = angles + noise * random.standard_normal(angles.size)
    return Points(np.stack([np.cos(angles), np.sin(angles)], axis=1))


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


def _list(values: object) -> str:
    return ", ".join(f"{value:g}" for value in np.asarray(values, float))
