"""Theorems that promise one cluster."""

from __future__ import annotations

import numpy as np
from jaxtyping import Array

from metastable.comparison.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.flows.ensemble import Gram, sample_ensemble
from metastable.measures import Points, orthogonal, uniform
from metastable.numerics import jax, jnp
from metastable.observe import clusters, hemisphere
from metastable.reproduce.finding import Finding, holds
from metastable.sphere import retract
from metastable.theory.equiangular import equiangular_cosine
from metastable.theory.hemisphere import wendel_probability

__all__ = ["beta_zero", "high_dimension", "many_dimensions", "orthogonal_tokens", "wendel"]


def wendel(*, sizes: list[list[int]], draws: int) -> Finding:
    """How often random tokens share a hemisphere, against the formula as printed and as proved."""
    from metastable.report.plots import draw_lines

    seen, proved = [], []
    for tokens, dim in sizes:
        starts = _starts(draws, tokens, dim)
        seen.append(np.mean([bool(hemisphere(Points(start))) for start in starts]))
        proved.append(wendel_probability(tokens, dim))
    # The printed sum starts at k = 1 and so loses its first term, 2^{−(n−1)}.
    printed = np.array(proved) - [0.5 ** (tokens - 1) for tokens, _ in sizes]
    error = np.sqrt(np.array(proved) * (1 - np.array(proved)) / draws)
    off = [np.abs((np.array(seen) - law) / error).max() for law in (printed, np.array(proved))]
    rows = [
        holds(
            f"share of random starts in one hemisphere, the sum from k = {first}",
            source,
            distance < 4,
            "within 4 standard errors",
            f"{distance:.1f} standard errors off",
        )
        for first, source, distance in zip(
            (1, 0), ("Theorem 6", "wendel1962problem"), off, strict=True
        )
    ]
    order = np.arange(len(sizes))
    figure = draw_lines(
        {"random starts": (order, seen, error)},
        "size (n, d)",
        "share in one hemisphere",
        f"Share of {draws} random starts that lie in one open hemisphere.",
        theory={"sum from k = 0": (order, proved), "as printed, from k = 1": (order, printed)},
    )
    figure.axes[0].set_xticks(order, [f"({n}, {d})" for n, d in sizes])
    return Finding(rows, {"shares": figure})


def high_dimension(*, tokens: int, dim: int, betas: list[float], horizon: float) -> Finding:
    """d ≥ n: all tokens meet, exponentially fast, with any Q and K."""
    from metastable.report.plots import draw_lines

    random = np.random.default_rng(0)
    query, key = random.normal(size=(2, dim, dim)) / np.sqrt(dim)
    curves, rates, ends = {}, [], []
    for beta in betas:
        for name, field in {
            f"SA, β = {beta:g}": SelfAttention(beta),
            f"USA, β = {beta:g}": SelfAttention(beta, normalized=False),
            f"SA, β = {beta:g}, random Q, K": SelfAttention(beta, query, key),
        }.items():
            run = flow(uniform(tokens, dim, seed=1), field, horizon, frames=41)
            far = np.linalg.norm(run.points - run.points[-1].mean(axis=0), axis=2).max(axis=1)
            spread = np.array([_diameter(x) for x in run.points])
            ends.append(spread[-1])
            late = (spread < 0.1) & (spread > 1e-8)
            rates.append(-np.polyfit(run.times[late], np.log(spread[late]), 1)[0])
            keep = far > 1e-7
            curves[name] = (run.times[keep], spread[keep])
    rows = [
        holds(
            "largest distance of two tokens at the end",
            "Theorem 5; geshkovski2023mathematical, Theorem 6.1",
            max(ends) < 1e-5,
            "to 0",
            max(ends),
        ),
        holds(
            "rate λ of the last exponential, slowest case",
            "Theorem 5",
            min(rates) > 0,
            "positive",
            min(rates),
        ),
        # Near the limit each token is pulled to the mean of all at unit speed in the SA clock.
        judge("the same, SA with Q = K = I", "linearisation at the cluster", 1.0, rates[0],
              relative=0.02),
    ]  # fmt: skip
    caption = f"Largest distance of two of {tokens} tokens in d = {dim} (each in its own clock)."
    figure = draw_lines(
        curves, "time t", "largest distance", caption, log="y", lines=True, size=(5.4, 3.6)
    )
    return Finding(rows, {"distances": figure})


def orthogonal_tokens(*, tokens: int, betas: list[float], horizon: float) -> Finding:
    """Pairwise orthogonal tokens stay equiangular and follow one ordinary differential equation."""
    from metastable.report.plots import draw_lines

    measured, expected, worst = {}, {}, {}
    apart = np.triu_indices(tokens, 1)
    for normalized, clock in ((True, "SA"), (False, "USA")):
        worst[clock] = unequal = 0.0
        for beta in betas:
            field = SelfAttention(beta, normalized=normalized)
            run = flow(orthogonal(tokens, tokens, seed=2), field, horizon, frames=25)
            cosines = np.array([(x @ x.T)[apart] for x in run.points])
            theory = equiangular_cosine(run.times, beta, tokens, normalized=normalized)
            worst[clock] = max(worst[clock], np.abs(cosines - theory[:, None]).max())
            unequal = max(unequal, np.ptp(cosines, axis=1).max())
            measured[f"{clock}, β = {beta:g}"] = (run.times, cosines.mean(axis=1))
            expected[f"γ_β, {clock}, β = {beta:g}"] = (run.times, theory)
        worst[f"{clock}, pairs"] = unequal
    rows = [
        judge(
            f"{what} ({clock})", f"Theorem 7, eq. ({number})", 0.0, worst[key], absolute=1e-7
        )
        for clock, number in (("SA", 42), ("USA", 43))
        for what, key in (
            ("all pairs have one cosine: largest difference", f"{clock}, pairs"),
            ("it solves the equation: largest error", clock),
        )
    ]  # fmt: skip
    figure = draw_lines(
        measured, "time t (each in its own clock)", "cosine of every pair",
        f"{tokens} orthogonal tokens; dashed: the solution γ_β of the equation.",
        theory=expected, size=(5.4, 3.6),
    )  # fmt: skip
    return Finding(rows, {"cosines": figure})


def many_dimensions(*, tokens: int, beta: float, dims: list[int], samples: int) -> Finding:
    """Random tokens in high dimension follow the equiangular curve, closer as d grows."""
    from metastable.report.plots import draw_lines

    horizon, frames = 8.0, 33
    times = np.linspace(0, horizon, frames)
    theory = equiangular_cosine(times, beta, tokens)
    worst, curves = [], {}
    for dim in dims:
        seen = sample_ensemble(
            Gram(jnp.asarray(beta)), 0, samples, tokens, dim, horizon, frames,
            lambda form, y: form.pair(y),
        )  # fmt: skip
        off = np.abs(np.asarray(seen, float) - theory[:, None])
        worst.append(np.median(off.max(axis=0)))
        curves[f"d = {dim}"] = (times, np.quantile(off, 0.9, axis=1))
    slope = np.polyfit(np.log(dims), np.log(worst), 1)[0]
    rows = [
        judge(
            "exponent of d in the typical largest deviation from γ_β",
            "Theorem 8 (√(log d/d)); at fixed n the typical deviation is d^(−1/2)",
            -0.5, slope, absolute=0.06,
        ),
        holds(
            "deviation at the end, largest d", "Theorem 8, Ce^(−λt)",
            curves[f"d = {dims[-1]}"][1][-1] < 0.1 * worst[-1], "far below its largest",
            float(curves[f"d = {dims[-1]}"][1][-1]),
        ),
    ]  # fmt: skip
    order = np.array(dims, float)
    figures = {
        "deviation": draw_lines(
            {"typical largest deviation": (order, worst)},
            "dimension d",
            "deviation from γ_β",
            f"Median over {samples} random starts of {tokens} tokens, β = {beta:g}.",
            theory={
                "d^(−1/2)": (order, worst[0] * (order / order[0]) ** -0.5),
                "√(log d/d)": (
                    order,
                    worst[0] * np.sqrt(np.log(order) / order / (np.log(order[0]) / order[0])),
                ),
            },
            log="xy",
        ),
        "in-time": draw_lines(
            curves, "time t (SA clock)", "deviation from γ_β", "Nine starts in ten stay below.",
            log="y", lines=True,
        ),
    }  # fmt: skip
    note = (
        "The constants of the theorem are vacuous at these sizes (the probability "
        "1 − 2n²d^(−1/64) is negative until d passes 1e200); the scaling is what can be seen."
    )
    return Finding(rows, figures, [note])


def beta_zero(*, sizes: list[list[int]], starts: int, horizon: float) -> Finding:
    """β = 0: every random start on every sphere ends in one cluster."""
    from metastable.report.plots import draw_lines

    field, ends, curves = SelfAttention(0.0), {}, {}
    for tokens, dim in sizes:

        def move(x: Array) -> Array:
            run = flow(Points(x), field, horizon, frames=33, progress=False)
            return jnp.stack([frame.points for frame in run.frames])

        runs = np.asarray(jax.jit(jax.vmap(move))(_starts(starts, tokens, dim)))
        counts = [clusters(Points(run[-1]), angle=1e-3).count for run in runs]
        ends[f"n = {tokens}, d = {dim}"] = np.mean(np.array(counts) == 1)
        mean = np.linalg.norm(runs.mean(axis=2), axis=2)
        times = np.linspace(0, horizon, 33)
        curves[f"n = {tokens}, d = {dim}"] = (times, np.median(1 - mean, axis=0))
    rows = [
        judge(f"share of {starts} starts that end in one cluster, {name}", "Theorem 11", 1.0, share,
              absolute=0.0)
        for name, share in ends.items()
    ]  # fmt: skip
    keep = {name: (t[y > 1e-9], y[y > 1e-9]) for name, (t, y) in curves.items()}
    figure = draw_lines(
        keep, "time t (SA clock)", "1 − ‖mean of all tokens‖", "Median over the random starts.",
        log="y", lines=True,
    )  # fmt: skip
    return Finding(rows, {"order": figure})


def _starts(draws: int, tokens: int, dim: int) -> np.ndarray:
    """Independent uniform starts (draws, n, d)."""
    raw = np.random.default_rng([tokens, dim]).normal(size=(draws, tokens, dim))
    return np.asarray(retract(jnp.asarray(raw)))


def _diameter(x: np.ndarray) -> float:
    return float(np.linalg.norm(x[:, None] - x[None], axis=2).max())
