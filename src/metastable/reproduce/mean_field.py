"""The mean-field limit: three phases, growth of modes, bounds, expansions, other potentials."""

from __future__ import annotations

import math

import numpy as np

from metastable.comparison.verdict import Verdict, judge
from metastable.fields import Potential, SelfAttention
from metastable.flows import Adaptive, flow, push
from metastable.measures import Density, Points, uniform
from metastable.numerics import jnp
from metastable.observe import amplitudes, kernel_modes, peaks, phases, power, sobolev_distance
from metastable.reproduce.finding import Finding, holds
from metastable.theory.grenier import expand
from metastable.theory.interaction import attention
from metastable.theory.spectrum import dominant_mode, growth_rates, max_rate, potential_rates

__all__ = [
    "carried_tokens",
    "expansion_orders",
    "linear_growth",
    "other_potentials",
    "sobolev_bounds",
    "three_phases",
    "tokens_and_density",
]

TIGHT = Adaptive(rtol=1e-12, atol=1e-14)


def three_phases(*, beta: float, amplitude: float, tokens: int, horizon: float) -> Finding:
    """Linear, quasi-linear, collapsing: one run, as a density first and as tokens after it."""
    from metastable.report.densities import draw_amplitudes, draw_density

    mode, rate = dominant_mode(beta, 2), max_rate(beta, 2)
    start = Density.mode(2, mode, amplitude)
    run = flow(start, SelfAttention(beta), horizon, frames=121, handover=tokens)
    table = np.array([amplitudes(frame, 2 * mode) for frame in run.frames])
    found = phases(run.times, table, rate=rate)
    last = run.frames[-1]
    count = len(kernel_modes(last, beta).masses) if isinstance(last, Points) else peaks(last, beta)
    linear = (table[:, mode - 1] < 0.02) & (run.times > 0)
    slope = np.polyfit(run.times[linear], np.log(table[linear, mode - 1]), 1)[0]
    seen = [found.linear, found.quasilinear, found.collapsing]
    rows = [
        holds("a linear, a quasi-linear and a collapsing phase follow each other", "summary",
              all(seen), "three phases", f"{sum(map(bool, seen))} phases"),
        judge("growth rate of the dominant mode in the first", "linear phase", rate, slope,
              relative=1e-3),
        holds("one cluster for each wave of that mode when tokens collapse", "number of clusters",
              count == mode, mode, count),
        holds("the density is handed to tokens when it can no longer be resolved", "one call",
              isinstance(last, Points), "tokens", type(last).__name__),
    ]  # fmt: skip
    return Finding(rows, {"density": draw_density(run), "modes": draw_amplitudes(run)})


def linear_growth(*, cases: list[list[float]], modes: int) -> Finding:
    """Each mode of a small perturbation of uniform grows at its own rate."""
    from metastable.report.plots import draw_lines

    figures, worst = {}, {"SA": 0.0, "USA": 0.0}
    for dim, beta in ((int(d), b) for d, b in cases):
        measured, expected = {}, {}
        for normalized, clock in ((True, "SA"), (False, "USA")):
            rates = growth_rates(beta, dim, modes, normalized=normalized)
            field = SelfAttention(beta, normalized=normalized)
            span, seen = 2.0 / np.abs(rates).max(), []
            for k in range(1, modes + 1):
                start = Density.mode(dim, k, 1e-9, zonal=True if dim > 3 else None)
                run = flow(start, field, span, frames=2, stepper=TIGHT)
                a, b = (float(np.sqrt(power(frame, k)[k])) for frame in run.frames)
                seen.append(math.log(b / a) / span)
            off = np.abs(np.array(seen) - rates).max() / np.abs(rates).max()
            worst[clock] = max(worst[clock], off)
            order = np.arange(1, modes + 1)
            scale = np.abs(rates).max()
            measured[f"{clock}, largest rate {scale:.3g}"] = (order, np.array(seen) / scale)
            expected[f"theory, {clock}"] = (order, rates / scale)
        figures[f"d{dim}"] = draw_lines(
            measured, "degree ℓ", "growth rate / largest",
            f"Density flow against the formula, d = {dim}, β = {beta:g}.", theory=expected,
        )  # fmt: skip
    rows = [
        judge(f"largest error of a rate, relative to the largest rate ({clock})", "linear phase",
              0.0, off, absolute=1e-6)
        for clock, off in worst.items()
    ]  # fmt: skip
    return Finding(rows, figures)


def sobolev_bounds(*, beta: float, tokens: int, seeds: int, orders: list[float]) -> Finding:
    """In negative Sobolev norms a sampled start is small, and grows no faster than its rate."""
    from metastable.report.plots import draw_lines

    rate = max_rate(beta, 2)
    horizon = 0.8 * math.log(tokens) / (2 * rate)
    curves, slopes, starts = {}, [], {s: [] for s in orders}
    for seed in range(seeds):
        run = flow(uniform(tokens, 2, seed), SelfAttention(beta), horizon, frames=25)
        for s in orders:
            size = np.array([sobolev_distance(frame, s, highest=256) for frame in run.frames])
            starts[s].append(size[0] * math.sqrt(tokens))
            slopes.append(np.diff(np.log(size)).max() / np.diff(run.times).max())
            if seed == 0:
                curves[f"H^(−{s:g})"] = (run.times, size)
    top = next(iter(curves.values()))
    rows = [
        holds("no norm grows faster than the largest rate", "long-term bounds",
              max(slopes) < 1.05 * rate, f"below {rate:.4g}", max(slopes)),
        *[_judge_sampling(s, np.square(values)) for s, values in starts.items()],
    ]  # fmt: skip
    figure = draw_lines(
        curves, "time t (SA clock)", "‖μ_n − uniform‖", log="y", lines=True,
        caption=f"{tokens} tokens on the circle, β = {beta:g}, before they leave uniform.",
        theory={"e^(λt)": (top[0], top[1][0] * np.exp(rate * top[0]))},
    )  # fmt: skip
    return Finding(rows, {"norms": figure})


def expansion_orders(*, beta: float, orders: list[int]) -> Finding:
    """Grenier's expansion of order N misses the equation's solution by δ^(N+1)."""
    from metastable.report.plots import draw_lines

    deltas, curves, slopes = np.array([0.004, 0.008, 0.016]), {}, {}
    for order in orders:
        way_out = expand(attention(beta, 2, normalized=True), order, pattern=0.3 - 0.4j)
        horizon, size = math.log(5) / way_out.rate, way_out.orders.shape[1]
        errors = []
        for delta in deltas:
            start = Density(way_out.at(delta), 2)
            run = flow(start, SelfAttention(beta), horizon, frames=[0.0, horizon],
                       stepper=Adaptive(rtol=1e-13, atol=1e-15))  # fmt: skip
            end = np.array(run.frames[-1].coefficients)
            end[:size] -= way_out.at(delta, horizon)
            errors.append(np.linalg.norm(end))
        curves[f"order {order}"] = (deltas, errors)
        slopes[order] = np.polyfit(np.log(deltas), np.log(errors), 1)[0]
    rows = [
        judge(f"power of δ in the error of order {order}", "Grenier's iterative method",
              order + 1.0, slope, absolute=0.2)
        for order, slope in slopes.items()
    ]  # fmt: skip
    figure = draw_lines(
        curves,
        "size δ of the start",
        "error at the end",
        log="xy",
        lines=True,
        caption=f"Circle, β = {beta:g}, when the mode has grown fivefold.",
    )
    return Finding(rows, {"errors": figure})


def carried_tokens(*, beta: float, tokens: list[int], seeds: int) -> Finding:
    """Tokens carried by the density's velocity stay distributed by it, to their sampling error."""
    from metastable.report.plots import draw_lines

    mode, rate = dominant_mode(beta, 2), max_rate(beta, 2)
    run = flow(Density.mode(2, mode, 0.05), SelfAttention(beta), 2.0 / rate, frames=9)
    before, after = [], []
    for n in tokens:
        sizes = []
        for seed in range(seeds):
            moved = push(run, run.frames[0].sample(n, seed))
            ends = [(moved.frames[k], run.frames[k]) for k in (0, -1)]
            sizes.append([sobolev_distance(a, 1.0, b) for a, b in ends])
        first, last = np.sqrt(np.mean(np.square(sizes), axis=0))
        before.append(first)
        after.append(last)
    ratio = float(np.max(np.array(after) / before))
    slope = np.polyfit(np.log(tokens), np.log(after), 1)[0]
    rows = [
        holds("distance from the density at the end over that at the start", "Lagrangian flow",
              ratio < 2, "of order one", ratio),
        judge("power of n in it", "sampling error", -0.5, slope,
              absolute=0.1 + 1 / math.sqrt(seeds * len(tokens))),
    ]  # fmt: skip
    figure = draw_lines(
        {"start": (tokens, before), "carried to the end": (tokens, after)},
        "tokens n", "distance in H^(−1)", log="xy", lines=True,
        caption=f"Root mean square over {seeds} samples, circle, β = {beta:g}.",
        theory={"n^(−1/2)": (tokens, before[0] * np.sqrt(tokens[0] / np.array(tokens)))},
    )  # fmt: skip
    return Finding(rows, {"distance": figure})


def tokens_and_density(*, beta: float, tokens: list[int], seeds: int) -> Finding:
    """n tokens stay n^(−1/2) away from the density of infinitely many, until they leave uniform."""
    from metastable.report.plots import draw_lines

    mode, rate = dominant_mode(beta, 2), max_rate(beta, 2)
    start, span = Density.mode(2, mode, 0.1), 1.0 / rate
    whole = flow(start, SelfAttention(beta), span, frames=2).frames[-1]
    sizes = []
    for n in tokens:
        runs = [
            flow(start.sample(n, seed), SelfAttention(beta), span, frames=2).frames[-1]
            for seed in range(seeds)
        ]
        sizes.append(np.sqrt(np.mean([sobolev_distance(x, 1.0, whole) ** 2 for x in runs])))
    slope = np.polyfit(np.log(tokens), np.log(sizes), 1)[0]
    error = 1.5 / math.sqrt(2 * seeds) / math.log(tokens[-1] / tokens[0])
    rows = [
        judge("power of n in the distance from the density", "mean-field limit", -0.5, slope,
              absolute=0.05 + error)
    ]  # fmt: skip
    figure = draw_lines(
        {"runs": (tokens, sizes)},
        "tokens n",
        "‖μ_n − μ‖ in H^(−1)",
        log="xy",
        caption=f"Root mean square over {seeds} samples, one e-folding time, β = {beta:g}.",
        theory={"n^(−1/2)": (tokens, sizes[0] * np.sqrt(tokens[0] / np.array(tokens)))},
    )
    return Finding(rows, {"distance": figure})


def other_potentials(*, modes: int, dims: list[int]) -> Finding:
    """For any potential of the inner product a mode grows at L times its coefficient."""
    from metastable.report.plots import draw_lines

    potentials = {
        "s²/2": (lambda s: s**2 / 2, lambda s: s**2 / 2),
        "cosh 3s": (lambda s: jnp.cosh(3 * s), lambda s: np.cosh(3 * s)),
        "1/(1.5 − s)": (lambda s: 1 / (1.5 - s), lambda s: 1 / (1.5 - s)),
    }
    worst, figures, order = 0.0, {}, np.arange(1, modes + 1)
    for dim in dims:
        measured, expected = {}, {}
        for name, (potential, same) in potentials.items():
            rates = potential_rates(same, dim, modes)
            span, seen = 1.0 / np.abs(rates).max(), []
            for k in order:
                start = Density.mode(dim, int(k), 1e-9, zonal=True if dim > 3 else None)
                run = flow(start, Potential(potential), span, frames=2, stepper=TIGHT)
                a, b = (float(np.sqrt(power(frame, int(k))[k])) for frame in run.frames)
                seen.append(math.log(b / a) / span)
            scale = np.abs(rates).max()
            worst = max(worst, np.abs(np.array(seen) - rates).max() / scale)
            measured[name] = (order, np.array(seen) / scale)
            expected[f"theory, {name}"] = (order, rates / scale)
        figures[f"d{dim}"] = draw_lines(
            measured, "degree ℓ", "growth rate / largest", f"Three potentials, d = {dim}.",
            theory=expected,
        )  # fmt: skip
    rows = [
        judge("largest error of a rate, relative to the largest", "broader class of potentials",
              0.0, worst, absolute=1e-6)
    ]  # fmt: skip
    return Finding(rows, figures)


def _judge_sampling(s: float, squares: np.ndarray) -> Verdict:
    """n‖μ_n − uniform‖² of independent tokens has a known mean; four of its standard errors."""
    claim = f"n times the squared norm of the start, mean over the samples, s = {s:g}"
    error = 4 * squares.std(ddof=1) / math.sqrt(len(squares))
    source = "variance of n independent tokens"
    return judge(claim, source, _sampling(s), squares.mean(), absolute=error)


def _sampling(s: float) -> float:
    """Σ_{k≠0} (1+k²)^(−s): mean of n‖μ_n − uniform‖² of independent tokens on the circle."""
    k = np.arange(1, 257)
    return float(2 * np.sum((1.0 + k**2) ** -s))
