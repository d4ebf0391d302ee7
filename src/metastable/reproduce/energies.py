"""The interaction energy: what climbs it, what its extremes are, and whose gradient it gives."""

from __future__ import annotations

import numpy as np
from scipy.integrate import simpson

from metastable.comparison.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Adaptive, flow
from metastable.measures import Points, uniform
from metastable.numerics import jax, jnp
from metastable.observe import energy, log_potential
from metastable.reproduce.finding import Finding, holds
from metastable.sphere import project, retract
from metastable.theory.configurations import (
    cube,
    design_strength,
    energy_lower_bound,
    scaled_energy,
    sharp_configuration,
)

__all__ = [
    "distance_form",
    "energy_extremes",
    "energy_monotone",
    "repulsive_configurations",
    "unnormalised_gradient",
    "weighted_gradient",
]


def energy_monotone(*, tokens: int, dim: int, beta: float, horizon: float) -> Finding:
    """The energy climbs for V = I and falls for V = −I, at the rate of the identity."""
    from metastable.report.plots import draw_lines

    start, curves, expected, worst, wrong = uniform(tokens, dim, seed=3), {}, {}, 0.0, 0.0
    stepper = Adaptive(rtol=1e-10, atol=1e-10)
    for sign in (1.0, -1.0):
        run = flow(start, SelfAttention(beta, value=sign), horizon, frames=201, stepper=stepper)
        level = np.array([float(energy(frame, beta)) for frame in run.frames])
        wrong = max(wrong, (-sign * np.diff(level)).max() / level[0])
        rate = [_dissipation(frame, beta) for frame in run.frames]
        gained = [simpson(rate[: k + 1], x=run.times[: k + 1]) for k in range(2, 201, 2)]
        worst = max(worst, np.abs(level[2::2] - level[0] - sign * np.array(gained)).max())
        curves[f"V = {'' if sign > 0 else '−'}I"] = (run.times, level)
        expected[f"start plus ∫∫‖v‖²Z, V = {'' if sign > 0 else '−'}I"] = (
            run.times[2::2],
            level[0] + sign * np.array(gained),
        )
    rows = [
        holds(
            "largest step in the wrong direction, V = ±I", "equation 18", wrong < 1e-12,
            "none", wrong,
        ),
        judge("energy minus its integrated rate", "equation 18", 0.0, worst, absolute=1e-5),
    ]  # fmt: skip
    figure = draw_lines(
        curves, "time t (SA clock)", "energy E_β",
        f"{tokens} tokens, d = {dim}, β = {beta:g}; dashed: the start plus the integrated rate.",
        theory=expected, lines=True,
    )  # fmt: skip
    return Finding(rows, {"energy": figure})


def energy_extremes(*, dim: int, betas: list[float], tokens: int, draws: int) -> Finding:
    """Uniform is least, a point mass most: no random measure lies outside the two."""
    from metastable.report.plots import draw_lines

    random = np.random.default_rng(4)
    lowest, highest, floor = [], [], []
    points = np.asarray(retract(jnp.asarray(random.normal(size=(draws, tokens, dim)))))
    # Concentrated and spread weights alike.
    weights = random.dirichlet(np.full(tokens, 0.3), size=draws)
    for beta in betas:
        seen = [
            float(energy(Points(x, w), beta, scaled=True))
            for x, w in zip(points, weights, strict=True)
        ]
        lowest.append(min(seen))
        highest.append(max(seen))
        floor.append(float(energy_lower_bound(dim, beta)) * 2 * beta * np.exp(-beta))
    even = flow(uniform(tokens, dim, 5), SelfAttention(betas[0], value=-1.0), 200.0, frames=2)
    reached = float(energy(even.frames[-1], betas[0], scaled=True))
    rows = [
        holds("no random measure below the uniform one", "Proposition 4.1",
              all(a >= b for a, b in zip(lowest, floor, strict=True)), "energy ≥ uniform's",
              f"least excess {min(a - b for a, b in zip(lowest, floor, strict=True)):.2g}"),
        holds("no random measure above a point mass", "Proposition 4.1", max(highest) <= 1 + 1e-12,
              "scaled energy ≤ 1", max(highest)),
        judge(f"{tokens} repelling tokens against the uniform measure, β = {betas[0]:g}",
              "Proposition 4.1", floor[0], reached, relative=0.02),
    ]  # fmt: skip
    figure = draw_lines(
        {"highest of the random measures": (betas, highest), "lowest": (betas, lowest)},
        "β",
        "2βe^(−β) E_β",
        f"{draws} random measures on S^{dim - 1}, between the uniform measure and a point mass.",
        theory={"point mass": (betas, np.ones(len(betas))), "uniform": (betas, floor)},
        log="y",
    )
    return Finding(rows, {"extremes": figure})


def unnormalised_gradient(*, tokens: int, dim: int, betas: list[float]) -> Finding:
    """The USA velocity is n times the gradient of the energy in the tokens."""
    from metastable.report.plots import draw_bars

    start = uniform(tokens, dim, seed=6)
    differences = {"USA": [], "SA": []}
    for beta in betas:
        slope = jax.grad(lambda x, b=beta: energy(Points(x), b))(start.points)
        gradient = tokens * np.asarray(project(start.points, slope))
        for name, series in differences.items():
            speed = SelfAttention(beta, normalized=name == "SA")
            v = np.asarray(speed.velocity(start))
            series.append(float(np.abs(v - gradient).max() / np.abs(v).max()))
    rows = [
        judge("USA velocity minus n times the gradient, relative", "Proposition 4.2, equation 36",
              0.0, max(differences["USA"]), absolute=1e-12),
        holds("SA velocity is no such gradient", "remark after equation 34",
              min(differences["SA"]) > 0.01, "differs", min(differences["SA"])),
    ]  # fmt: skip
    figure = draw_bars(
        [f"β = {beta:g}" for beta in betas],
        {name: [max(v, 1e-17) for v in series] for name, series in differences.items()},
        "inverse temperature",
        "relative difference",
        f"Velocity against n times the gradient of E_β, {tokens} tokens, d = {dim}.",
    )
    figure.axes[0].set_yscale("log")
    return Finding(rows, {"difference": figure})


def weighted_gradient(*, tokens: int, dim: int, betas: list[float]) -> Finding:
    """With V = QᵀK symmetric, SA is the gradient of the energy in the metric weighted by Z."""
    from metastable.report.plots import draw_bars

    start, random = uniform(tokens, dim, seed=7), np.random.default_rng(7)
    root = random.normal(size=(dim, dim))
    symmetric = (root + root.T) / np.linalg.norm(root + root.T, 2)
    worst, plain = [], []
    for beta in betas:
        slope = jax.grad(lambda x, b=beta: energy(Points(x), b, symmetric))(start.points)
        x = np.asarray(start.points)
        mass = np.exp(beta * x @ symmetric @ x.T).sum(axis=1)  # Z_i, a sum as in (38)
        # (39) is n² times our energy, so that its gradient in the weighted metric is n²∂E/Z_i.
        gradient = np.asarray(project(start.points, slope)) * tokens**2
        v = np.asarray(SelfAttention(beta, query=symmetric, value=symmetric).velocity(start))
        worst.append(float(np.abs(v - gradient / mass[:, None]).max() / np.abs(v).max()))
        scale = np.vdot(gradient, v) / np.vdot(gradient, gradient)
        plain.append(float(np.abs(v - scale * gradient).max() / np.abs(v).max()))
    rows = [
        judge("SA velocity minus the gradient in the weighted metric, relative",
              "equations 38 to 40", 0.0, max(worst), absolute=1e-12),
        holds("without the weights it is not proportional to the gradient", "equation 38",
              min(plain) > 0.01, "differs", min(plain)),
    ]  # fmt: skip
    figure = draw_bars(
        [f"β = {beta:g}" for beta in betas],
        {"metric weighted by Z": [max(v, 1e-17) for v in worst], "plain metric": plain},
        "inverse temperature",
        "relative difference",
        f"SA velocity against the gradient of E_β, V = QᵀK symmetric, {tokens} tokens, d = {dim}.",
    )
    figure.axes[0].set_yscale("log")
    return Finding(rows, {"difference": figure})


def distance_form(*, tokens: int, dim: int, betas: list[float]) -> Finding:
    """The energy written with distances: as printed, and as it is."""
    from metastable.report.plots import draw_lines

    x = np.asarray(uniform(tokens, dim, seed=8).points)
    apart = np.linalg.norm(x[:, None] - x[None], axis=2)
    exact = np.array([float(energy(Points(x), beta)) for beta in betas])
    b = np.array(betas)[:, None, None]
    printed = (np.exp(2 * b) / (2 * b) * np.exp(-b * apart)).mean(axis=(1, 2))
    right = (np.exp(b) / (2 * b) * np.exp(-b / 2 * apart**2)).mean(axis=(1, 2))
    worst = lambda values: float(np.abs(values / exact - 1).max())
    rows = [
        judge("as printed: e^(2β)/2β ∬e^(−β‖x−y‖), largest relative error", "equation 50", 0.0,
              worst(printed), absolute=1e-12),
        judge("e^β/2β ∬e^(−(β/2)‖x−y‖²), largest relative error", "‖x−y‖² = 2 − 2⟨x,y⟩", 0.0,
              worst(right), absolute=1e-12),
    ]  # fmt: skip
    figure = draw_lines(
        {"energy E_β": (betas, exact)},
        "β",
        "energy",
        f"One measure of {tokens} tokens, d = {dim}.",
        theory={"with squared distances": (betas, right), "as printed": (betas, printed)},
        log="y",
    )
    return Finding(rows, {"forms": figure})


def repulsive_configurations(*, cases: list[list[int]], starts: int, beta: float) -> Finding:
    """Repelling tokens find the sharp configurations; but not every minimiser is one."""
    from metastable.report.plots import draw_bars

    excess, names = [], []
    for dim, tokens in cases:
        known = sharp_configuration(dim, tokens)
        assert known is not None
        best = _energy_of(_repelled(dim, tokens, starts, beta), beta)
        excess.append(abs(best / float(scaled_energy(known, beta)) - 1))
        names.append(f"{tokens} in d = {dim}")
    five, eight = _repelled(3, 5, starts, beta), _repelled(3, 8, starts, beta)
    x = np.asarray(five.points)
    products = np.unique((x @ x.T)[np.triu_indices(5, 1)].round(2)).size
    strength, least = design_strength(x, tolerance=1e-3), float(scaled_energy(cube(), beta))
    rows = [
        holds("the minimiser found for 5 tokens on S² is sharp: m inner products, a (2m−1)-design",
              "Theorem 13", strength >= 2 * products - 1, "strength 2m − 1",
              f"m = {products}, strength {strength}"),
        judge("relative excess of the best start over the sharp configuration",
              "cohn2007universally, Theorem 1.2", 0.0, max(excess), absolute=1e-9),
        holds("eight repelling tokens beat the cube", "cohn2007universally",
              _energy_of(eight, beta) < least - 1e-6, f"below {least:.6f}",
              _energy_of(eight, beta)),
    ]  # fmt: skip
    figure = draw_bars(
        names,
        {"best of the starts": [max(value, 1e-16) for value in excess]},
        "configuration",
        "relative excess of energy",
        f"V = −I from {starts} random starts, β = {beta:g}: distance from the exact least energy.",
        size=(5.4, 3.3),
    )
    figure.axes[0].set_yscale("log")
    return Finding(rows, {"excess": figure})


def _repelled(dim: int, tokens: int, starts: int, beta: float) -> Points:
    """Where repelling tokens have the least energy, over random starts."""
    field = SelfAttention(beta, value=-1.0)
    ends = [flow(uniform(tokens, dim, k), field, 150.0, frames=2).frames[-1] for k in range(starts)]
    return min(ends, key=lambda end: _energy_of(end, beta))


def _energy_of(measure: Points, beta: float) -> float:
    return float(energy(measure, beta, scaled=True))


def _dissipation(measure: Points, beta: float) -> float:
    """∫‖v‖² Z dμ, where v does not depend on the sign of V."""
    v = np.asarray(SelfAttention(beta).velocity(measure))
    mass = np.exp(np.asarray(log_potential(measure, beta)))
    return float(np.asarray(measure.weights) @ ((v**2).sum(axis=1) * mass))
