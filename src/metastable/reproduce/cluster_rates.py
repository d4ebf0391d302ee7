"""How fast one cluster forms, near β = 0, in high dimension, and for other matrices."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

from metastable.comparison.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import orthogonal, uniform
from metastable.reproduce.finding import Finding, holds
from metastable.reproduce.rescaled_runs import fitted_slope, legend_below
from metastable.theory.equiangular import equiangular_cosine, equiangular_rate
from metastable.theory.regimes import single_cluster_theorem

__all__ = ["exponential_rate", "general_matrices", "small_beta_slope"]


def exponential_rate(*, tokens: int, dim: int, beta: float, draws: int) -> Finding:
    """d ≥ n: tokens reach one point exponentially; the rate for SA, USA, and random Q, K."""
    from metastable.report.plots import draw_lines

    random = np.random.default_rng(0)
    turn = np.linalg.qr(random.normal(size=(dim, dim)))[0]  # QᵀK = I, kept as a matrix
    free = random.normal(size=(dim, dim)) / np.sqrt(dim)
    law = lambda normalized: single_cluster_theorem(tokens, dim, beta, normalized=normalized)
    cases = {
        "SA": (SelfAttention(beta, turn, turn), 12.0),
        "SA, random Q and K": (SelfAttention(beta, free, turn), 12.0),
        "USA": (SelfAttention(beta, turn, turn, normalized=False), 9.0 * np.exp(-beta) + 2.0),
    }
    curves, rates, below = {}, {}, True
    for name, (field, horizon) in cases.items():
        rates[name] = []
        want = float(np.exp(beta)) if name == "USA" else 1.0
        for seed in range(draws):
            run = flow(uniform(tokens, dim, seed), field, horizon * 2, frames=81)
            centre = run.points[-1].mean(axis=0)
            apart = np.linalg.norm(run.points - centre / np.linalg.norm(centre), axis=2).max(axis=1)
            # The end of the run stands for x*, and the start may take its time: fit in between.
            early = apart > 1e-7
            late = early & (apart < 1e-3)
            rate = -fitted_slope(run.times[late], np.log(apart[late]))
            rates[name].append(rate)
            # A straight line on a logarithmic scale, down to 1e−7 of x*.
            line = np.log(apart[late]) + rate * run.times[late]
            below &= bool(rate > 0 and apart.min() < 1e-7 and np.ptp(line) < 0.1)
        curves[name] = (run.times[early] * want, apart[early])
    far = lambda name, want: max(rates[name], key=lambda rate: abs(rate - want))
    rows = [
        holds(
            "‖x_i − x*‖ ≤ C e^{−λt} with some C, λ > 0",
            "Theorem 5",
            below,
            "λ > 0, a straight line in log scale to 1e−7",
            f"λ from {min(map(min, rates.values())):.3f}",
            f"{3 * draws} random starts with d ≥ n",
        )
    ]
    for name, normalized in (("SA", True), ("SA, random Q and K", True), ("USA", False)):
        theorem = law(normalized)
        want = theorem.rate if theorem is not None and theorem.rate is not None else np.nan
        rows.append(
            judge(f"the rate λ, {name}", "derived here; geshkovski2023mathematical, §6.1", want,
                  far(name, want), relative=0.03)
        )  # fmt: skip
    figure = draw_lines(
        curves,
        "time λt (own clock of each)",
        "largest ‖x_i − x*‖",
        f"{tokens} random tokens in dimension {dim}, β = {beta:g}, on their way to one point.",
        theory={"$e^{-\\lambda t}$": (np.linspace(0, 16, 50), np.exp(-np.linspace(0, 16, 50)))},
        log="y",
        lines=True,
    )
    return Finding(rows, {"rates": figure})


def small_beta_slope(*, tokens: int, dim: int, betas: list[float], horizon: float) -> Finding:
    """Distance of the flow at small β from the flow at β = 0, against β."""
    from metastable.report.plots import draw_lines

    start = uniform(tokens, dim, seed=2)
    still = flow(start, SelfAttention(0.0), horizon, frames=41)
    runs = [flow(start, SelfAttention(beta), horizon, frames=41) for beta in betas]
    apart = np.array([np.abs(run.points - still.points).max(axis=(1, 2)) for run in runs])
    at = np.argmin(np.abs(still.times - 1.0))
    small = np.array(betas) <= 0.1
    x0 = np.asarray(start.points)
    tiny = 1e-4
    linear = stepped(x0, tiny, still.times[at]) - stepped(x0, 0.0, still.times[at])
    felt = max(
        float(gap[still.times <= 0.1 / beta].max() / beta)
        for gap, beta in zip(apart[small], np.array(betas)[small], strict=True)
    )
    rows = [
        judge(
            "the velocity is that of β = 0 up to O(β): slope of log distance against log β at "
            "t = 1",
            "section on small β, eq. (49)",
            1.0,
            fitted_slope(np.log(betas)[small], np.log(apart[small, at])),
            absolute=0.05,
        ),
        judge(
            "its constant: distance/β at t = 1 for the smallest β, against independent "
            "Runge–Kutta steps",
            "derived here",
            float(np.abs(linear).max() / tiny),
            float(apart[0, at] / betas[0]),
            relative=0.03,
        ),
        holds(
            "for t ≪ 1/β tokens do not feel it: largest distance up to t = 0.1/β, over β",
            "section on small β",
            felt < 1,
            "below 1",
            f"{felt:.2f}",
        ),
    ]
    figure = draw_lines(
        {
            "distance at t = 1": (betas, apart[:, at]),
            "largest distance": (betas, apart.max(axis=1)),
        },
        "β",
        "distance from the flow at β = 0",
        f"How far {tokens} tokens on S^{dim - 1} are from where β = 0 would have them (SA clock).",
        theory={"slope 1": (betas, apart[0, at] * np.array(betas) / betas[0])},
        log="xy",
    )
    return Finding(rows, {"slope": figure})


def general_matrices(
    *, tokens: int, dims: list[int], beta: float, tilt: float, horizon: float
) -> Finding:
    """Equiangular tokens for other Q, K, V: an exact case, a limit d → ∞, and where it ends."""
    from metastable.report.plots import draw_lines

    n = tokens
    ones = np.full((n, n), 1 / n)
    a, b, c, e = 0.8, 0.5, 1.2, 0.6
    exact = SelfAttention(beta, a * np.eye(n) + b * ones, None, c * np.eye(n) + e * ones)
    run = flow(orthogonal(n, n), exact, horizon, frames=31)
    gamma = np.array([_cosines(x) for x in run.points])  # (time, pair)
    # QᵀK = aI + bJ and V = cI + eJ commute with permutations of the frame: tokens stay
    # equiangular, b drops out of the softmax, and s² = ⟨x_i,Σx_j⟩ = 1 + (n−1)γ. Derived here.
    speed = lambda t, g: (
        c * equiangular_rate(g, a * beta, n) + 2 * e / n * (1 - g) * (1 + (n - 1) * g)
    )
    solved = solve_ivp(speed, (0, horizon), [0.0], t_eval=run.times, rtol=1e-10, atol=1e-12).y[0]
    off, curves = [], {}
    for dim in dims:
        random = np.random.default_rng(dim)
        key = tilt * np.eye(dim) + random.normal(size=(dim, dim)) / np.sqrt(dim)
        field = SelfAttention(beta, None, key)
        seen = flow(uniform(n, dim, seed=0), field, horizon, frames=31)
        cosines = np.array([_cosines(x) for x in seen.points])
        effective = beta * np.trace(key) / dim
        off.append(np.abs(cosines - equiangular_cosine(seen.times, effective, n)[:, None]).max())
        curves[f"random QᵀK, d = {dim}"] = (seen.times, cosines.mean(axis=1))
    bent = np.eye(n) + np.random.default_rng(1).normal(size=(n, n)) / np.sqrt(n)
    turned = flow(orthogonal(n, n), SelfAttention(beta, bent, None, bent), horizon, frames=31)
    mean = np.array([_cosines(x).mean() for x in turned.points])
    curves["generic V, orthogonal start"] = (turned.times, mean)
    plain = equiangular_cosine(turned.times, beta, n)
    rows = [
        judge(
            "Theorem 7 for QᵀK = aI + bJ, V = cI + eJ (J the mean over the frame): one cosine, "
            "γ̇ = c·(rate at aβ) + (2e/n)(1−γ)(1+(n−1)γ); largest difference",
            "Problem 10; derived here",
            0.0,
            float(np.abs(gamma - solved[:, None]).max()),
            absolute=1e-6,
        ),
        holds(
            "Theorem 8 for V = I and any QᵀK: γ at the temperature β·tr(QᵀK)/d; largest difference "
            f"for d = {dims}, in units of √(log d/d)",
            "Problem 10; derived here",
            max(off / np.sqrt(np.log(dims) / np.array(dims))) < 4 and off[-1] < off[0],
            "bounded, and smaller for larger d",
            ", ".join(f"{one:.3f}" for one in off / np.sqrt(np.log(dims) / np.array(dims))),
            "differences " + ", ".join(f"{one:.3f}" for one in off),
        ),
        holds(
            "for a generic V one scalar equation is not enough",
            "Problem 10",
            np.abs(mean - plain).max() > 0.05,
            "differs from γ_β",
            f"by up to {np.abs(mean - plain).max():.2f}",
        ),
    ]
    figure = draw_lines(
        curves,
        "time t (SA clock)",
        "mean cosine of two tokens",
        f"{n} random tokens, β = {beta:g}, with QᵀK = {tilt:g}·I + noise: the closed form at the "
        "temperature β·tr(QᵀK)/d, and a V for which it does not hold.",
        theory={
            "γ at β·tr(QᵀK)/d": (run.times, equiangular_cosine(run.times, tilt * beta, n)),
            "γ at β": (run.times, plain),
        },
    )
    legend_below(figure)
    return Finding(rows, {"cosines": figure})


def stepped(x: np.ndarray, beta: float, time: float, steps: int = 200) -> np.ndarray:
    """Plain SA by classical Runge–Kutta steps in NumPy: a witness that shares no code."""

    def drift(x: np.ndarray) -> np.ndarray:
        weight = np.exp(beta * (x @ x.T))
        pull = weight @ x / weight.sum(axis=1, keepdims=True)
        return pull - np.sum(pull * x, axis=1, keepdims=True) * x

    h = time / steps
    for _ in range(steps):
        k1 = drift(x)
        k2 = drift(x + h / 2 * k1)
        k3 = drift(x + h / 2 * k2)
        k4 = drift(x + h * k3)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return x


def _cosines(x: np.ndarray) -> np.ndarray:
    return (x @ x.T)[np.triu_indices(len(x), 1)]
