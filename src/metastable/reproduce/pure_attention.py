"""Pure attention with a general V: parallel hyperplanes, polytopes times subspaces."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.linalg import expm

from metastable.comparison.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Trajectory, flow
from metastable.measures import gaussian_points
from metastable.reproduce.finding import Finding, holds
from metastable.reproduce.rescaled_runs import (
    fitted_slope,
    limit_corners,
    pure_run,
    residual_rate,
    skew_value,
)
from metastable.theory.limits import limit_geometry, polytope_residual

__all__ = ["change_of_frame", "hyperplanes", "leading_logit", "polytope_times_subspace"]


def hyperplanes(*, tokens: int, draws: int, ratio: float, turns: float) -> Finding:
    """Random V whose largest eigenvalue is real, positive and simple: at most three hyperplanes."""
    from metastable.report.animation import animate_space
    from metastable.report.plots import draw_lines

    off, falls, kept, counts = [], 0.0, [], []
    for seed in range(draws):
        value = dominated_value(3, seed, ratio)
        geometry: Any = limit_geometry(value)
        start = gaussian_points(tokens, 3, seed=seed)
        run = pure_run(start, turns / geometry.growth, value=value, frames=81)
        levels = run.points @ geometry.functionals[0]  # (time, token)
        off.append(level_distance(levels[-1]))
        counts.append(occupied(levels[-1]))
        falls = min(falls, float(np.diff(levels.min(axis=1)).min()))
        falls = min(falls, float(-np.diff(levels.max(axis=1)).max()))
        kept.append((run, geometry, levels))
    # The document's picture has a part of V that shrinks too: show the tamest of the draws.
    run, geometry, levels = min(kept, key=lambda one: float(np.abs(one[0].points).max()))
    a, b = min(levels[-1].min(), 0.0), max(levels[-1].max(), 0.0)
    rows = [
        holds(
            f"φ_1*(z_i) tends to one of 0, a, b: at most three parallel hyperplanes, {draws} "
            "random V",
            "Theorem 3",
            max(off) < 1e-3 and max(counts) <= 3,
            "distance → 0, at most 3 planes",
            f"distance {max(off):.1e} of b − a, {max(counts)} planes",
            f"at λ_1 t = {turns:g}, for |λ_2| ≤ {ratio:g} λ_1",
        ),
        holds(
            "a(t) = min φ_1* increases and b(t) = max φ_1* decreases",
            "Lemma in the proof of Theorem 3",
            falls > -1e-9,
            "monotone",
            f"against the sense by {-falls:.1e}",
        ),
    ]
    figure = draw_lines(
        {f"token {i}": (run.times, levels[:, i]) for i in range(tokens)},
        "time t (SA clock)",
        "$\\varphi_1^*(z_i)$",
        f"Leading coordinate of {tokens} rescaled tokens in R³ for one random V; dotted, the "
        "levels 0, a and b.",
        lines=True,
    )
    ax = figure.axes[0]
    ax.legend().remove()
    for level in (0.0, a, b):
        ax.axhline(level, color="#d55e00", ls=":", lw=1.2)
    planes = (geometry.functionals[0], [0.0, a, b])
    movie = lambda path, frames: animate_space(run, path, frames=frames, planes=planes)
    return Finding(rows, {"levels": figure}, movies={"three hyperplanes": movie})


def leading_logit(*, tokens: int, eigenvalues: list[float], horizon: float) -> Finding:
    """The logit w_j written in the eigenbasis of V, as printed and as it is; its leading term."""
    from metastable.report.plots import draw_lines

    value, basis = skew_value(eigenvalues, 1)
    dual = np.linalg.inv(basis)  # rows φ_k*
    run = pure_run(gaussian_points(tokens, len(eigenvalues), seed=1), horizon, value=value)
    rates = np.asarray(eigenvalues)
    gram = basis.T @ basis
    off_printed, off_right, rest, bound = [], [], [], []
    for t, z in zip(run.times, run.points, strict=True):
        x = z @ expm(t * value).T
        w = x @ x.T
        pair = np.exp(np.add.outer(rates, rates) * t)
        printed = (x @ dual.T) @ (pair * (1 - np.eye(len(rates)))) @ (x @ dual.T).T
        right = (z @ dual.T) @ (pair * gram) @ (z @ dual.T).T
        lead = np.exp(2 * rates[0] * t) * np.outer(z @ dual[0], z @ dual[0]) * gram[0, 0]
        off_printed.append(np.abs(printed - w).max() / np.abs(w).max())
        off_right.append(np.abs(right - w).max() / np.abs(w).max())
        rest.append(np.abs(w - lead).max())
        bound.append(np.abs(x @ dual.T).max(axis=0))
    second = float(np.sort(np.abs(rates))[-2])
    rest, bound = np.array(rest), np.array(bound)
    late = run.times >= 0.5 * horizon
    growth = [fitted_slope(run.times[late], np.log(b)) for b in bound[late].T]
    excess = float((np.array(growth) - np.abs(rates)).max())
    rows = [
        judge(
            "w_j as the printed sum over k ≠ ℓ with e^{tV} inside φ*: relative error, median",
            "proof of Theorem 3, expansion of w_j",
            0.0,
            float(np.median(off_printed)),
            absolute=1e-9,
        ),
        judge(
            "the sum over all k, ℓ of e^{(λ_k+λ_ℓ)t} φ_k*(z_i) φ_ℓ*(z_j) ⟨φ_k,φ_ℓ⟩",
            "derived here",
            0.0,
            max(off_right),
            absolute=1e-9,
        ),
        holds(
            "|w_j − e^{2λ_1t} φ_1*(z_i) φ_1*(z_j)| ≤ C e^{(λ_1+|λ_2|)t}, φ_1 of length 1",
            "proof of Theorem 3",
            fitted_slope(run.times[late], np.log(rest[late])) < rates[0] + second + 0.02,
            f"grows at {rates[0] + second:.3g} at most",
            f"{fitted_slope(run.times[late], np.log(rest[late])):.3f}",
        ),
        holds(
            "|φ_k*(e^{tV}z_i)| ≤ C e^{|λ_k|t} for every k",
            "proof of Theorem 3",
            excess < 0.02,
            "rates above |λ_k|: none",
            f"largest excess {excess:.3f}",
        ),
    ]
    figure = draw_lines(
        {
            "logit less its leading term": (run.times, rest),
            "leading term": (run.times, np.exp(2 * rates[0] * run.times)),
        },
        "time t (SA clock)",
        "size",
        f"Logits of {tokens} tokens: what is left beside the leading term grows more slowly.",
        theory={
            "bound": (run.times, rest[-1] * np.exp((rates[0] + second) * (run.times - horizon)))
        },
        log="y",
        lines=True,
    )
    return Finding(rows, {"logits": figure})


def polytope_times_subspace(*, tokens: int, draws: int, inner: float, horizon: float) -> Finding:
    """V = I on a plane F of R³ and smaller on a line G, in random skew bases."""
    from metastable.report.animation import animate_space
    from metastable.report.plots import draw_lines

    random = np.random.default_rng(5)
    rates, ends, curves, spread, kept = [], [], {}, [], None
    for seed in range(draws):
        # The first V has 0 on G, where nothing then moves: a prism, for the moving picture.
        rate = float(random.uniform(-inner, inner)) if seed else 0.0
        value, _ = skew_value([1.0, 1.0, rate], seed)
        geometry: Any = limit_geometry(value)
        run = pure_run(gaussian_points(tokens, 3, seed=seed), horizon, value=value, frames=129)
        on_plane = run.points @ geometry.functionals.T
        measure = gaussian_points(tokens, 2).at(on_plane[-1])
        corners = limit_corners(measure)
        off = [polytope_residual(z, corners, np.eye(2)).max() for z in on_plane]
        rates.append(residual_rate(run.times, on_plane, np.eye(2)))
        ends.append(off[-1])
        curves[f"V number {seed + 1}"] = (run.times, off)
        along = run.points[-1] @ _complement(geometry.functionals)
        spread.append(float(np.ptp(along)))
        kept = run if kept is None else kept
    worst = rates[int(np.abs(np.array(rates) - 1).argmax())]
    rows = [
        holds(
            f"the F-part of every z_i tends to the limit set on ∂K ⊂ F, {draws} random V",
            "Theorem 4",
            max(ends) < 1e-3,
            "residual → 0",
            f"at most {max(ends):.1e} at t = {horizon:g}",
        ),
        judge(
            "rate r of the residual e^{−rt}, farthest from 1 of all draws",
            "derived here",
            1.0,
            worst,
            absolute=0.02,
        ),
        holds(
            "the G-part need not come to a point: the limit is ∂K × G",
            "Theorem 4",
            max(spread) > 0.1,
            "tokens differ along G",
            f"by up to {max(spread):.2g}",
        ),
    ]
    assert kept is not None
    figure = draw_lines(
        dict(list(curves.items())[:6]),
        "time t (SA clock)",
        "largest residual in F",
        f"Distance of the F-parts of {tokens} tokens from the limit set of their polytope.",
        theory={"$e^{-t}$": (kept.times, np.exp(-kept.times))},
        log="y",
        lines=True,
    )
    film = _first(kept, 0.45)
    movie = lambda path, frames: animate_space(film, path, frames=frames)
    return Finding(rows, {"residual": figure}, movies={"polytope times line": movie})


def change_of_frame(*, tokens: int, eigenvalues: list[float], horizon: float) -> Finding:
    """x of pure attention against e^{tV}z of the rescaled equation; tokens run away like e^{λt}."""
    from metastable.report.plots import draw_lines

    value, _ = skew_value(eigenvalues, 3)
    start = gaussian_points(tokens, len(eigenvalues), seed=3)
    plain = flow(start, SelfAttention(1.0, value=value), horizon, frames=41)
    moved = pure_run(start, horizon, value=value, frames=41)
    back = np.stack([z @ expm(t * value).T for t, z in zip(moved.times, moved.points, strict=True)])
    size = np.linalg.norm(plain.points, axis=2).max(axis=1)
    error = np.abs(back - plain.points).max(axis=(1, 2)) / size
    top = max(eigenvalues)
    late = plain.times >= 0.6 * horizon
    rows = [
        judge(
            "z = e^{−tV}x obeys ż_i = Σ_j P_ij V(z_j − z_i): largest relative "
            "difference of e^{tV}z from x",
            "section on the change of variables",
            0.0,
            float(error.max()),
            absolute=1e-6,
        ),
        judge(
            "x diverges like the solution of y′ = Vy: growth rate of max‖x_i‖",
            "section on the case d > 1",
            top,
            fitted_slope(plain.times[late], np.log(size[late])),
            relative=0.03,
        ),
        holds(
            "z stays bounded",
            "section on the change of variables",
            np.abs(moved.points).max() < 3 * np.abs(moved.points[0]).max(),
            "of the size of the start",
            f"{np.abs(moved.points).max() / np.abs(moved.points[0]).max():.2f} times the start",
        ),
    ]
    largest = np.linalg.norm(moved.points, axis=2).max(axis=1)
    figure = draw_lines(
        {"max‖x‖": (plain.times, size), "max‖z‖": (moved.times, largest)},
        "time t (SA clock)",
        "largest norm",
        f"Largest of {tokens} tokens in R^{len(eigenvalues)}, in both frames.",
        theory={
            "$e^{\\lambda_1 t}$": (plain.times, size[-1] * np.exp(top * (plain.times - horizon)))
        },
        log="y",
        lines=True,
    )
    return Finding(rows, {"norms": figure})


def dominated_value(dim: int, seed: int, ratio: float) -> np.ndarray:
    """Gaussian V, drawn until λ_1 is real, positive, simple and |λ_2| ≤ ratio λ_1."""
    random = np.random.default_rng([seed, dim])
    while True:
        value = random.normal(size=(dim, dim))
        first, second = sorted(np.linalg.eigvals(value), key=abs, reverse=True)[:2]
        if abs(first.imag) < 1e-9 and first.real > 0 and abs(second) <= ratio * first.real:
            return value / first.real


def level_distance(values: np.ndarray) -> float:
    """Largest distance of φ_1*(z_i) from {0, a, b}, in units of b − a."""
    # Without a token on one side of 0 that hyperplane is missing, and its level is 0.
    a, b = min(values.min(), 0.0), max(values.max(), 0.0)
    return float(np.abs(values[:, None] - np.array([0.0, a, b])).min(axis=1).max() / (b - a))


def occupied(values: np.ndarray) -> int:
    """How many different levels the tokens lie on, to a hundredth of the largest."""
    ranked = np.sort(values)
    return 1 + int(np.sum(np.diff(ranked) > 0.01 * np.abs(ranked).max()))


def _complement(functionals: np.ndarray) -> np.ndarray:
    """A unit vector on which all functionals vanish."""
    return np.linalg.svd(functionals)[2][-1]


def _first(run: Trajectory, share: float) -> Trajectory:
    count = max(2, int(share * len(run.times)))
    return dataclasses.replace(run, times=run.times[:count], frames=run.frames[:count])
