"""What the eigenvalues of V do to pure attention: monotone coordinates, levels, subspaces."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import block_diag

from metastable.comparison.verdict import judge
from metastable.measures import Points, gaussian_points
from metastable.observe import clusters
from metastable.reproduce.finding import Finding, holds
from metastable.reproduce.pure_attention import dominated_value, level_distance, occupied
from metastable.reproduce.rescaled_runs import pure_run, skew_value
from metastable.theory.limits import limit_geometry

__all__ = ["codimension_k", "eigen_coordinates", "three_levels"]


def eigen_coordinates(
    *, tokens: int, eigenvalues: list[float], draws: int, horizon: float
) -> Finding:
    """Smallest and largest coordinate of the tokens in each eigendirection of V."""
    from metastable.report.plots import draw_lines

    worst = np.zeros(len(eigenvalues))  # the largest step outwards of either end
    inward = np.full(len(eigenvalues), -np.inf)  # the largest step inwards
    for seed in range(draws):
        value, basis = skew_value(eigenvalues, seed)
        start = gaussian_points(tokens, len(eigenvalues), seed=seed)
        run = pure_run(start, horizon, value=value, frames=41)
        y = run.points @ np.linalg.inv(basis).T  # φ_k*(z_i), (time, token, k)
        low, high = np.diff(y.min(axis=1), axis=0), np.diff(y.max(axis=1), axis=0)
        size = np.abs(y).max(axis=(0, 1))
        worst = np.maximum(worst, np.maximum(-low, high).max(axis=0) / size)
        inward = np.maximum(inward, np.maximum(low, -high).max(axis=0) / size)
    rates = np.array(eigenvalues)
    kept = rates >= 0
    rows = [
        holds(
            "for λ_k ≥ 0 the smallest φ_k*(z_j) increases and the largest decreases",
            "Lemma in the proof of Theorem 3",
            worst[kept].max() < 1e-9,
            "no step outwards",
            f"largest step outwards {worst[kept].max():.1e}",
            f"eigenvalues {eigenvalues}, {draws} random bases",
        ),
        holds(
            "for λ_k < 0 the opposite: both ends only move outwards",
            "same computation with the other sign",
            (~kept).any() and inward[~kept].max() < 1e-9 and worst[~kept].max() > 1e-3,
            "no step inwards",
            f"largest step inwards {inward[~kept].max():.1e}",
        ),
        holds(
            "for λ_k > 0 they do move",
            "same",
            inward[rates > 0].min() > 1e-3,
            "steps inwards",
            f"largest {inward[rates > 0].min():.2g} or more",
        ),
    ]
    curves: dict[str, Any] = {}
    for k, rate in enumerate(eigenvalues):
        # In units of the first width, so that all directions share an axis.
        width = np.ptp(y[:, :, k], axis=1)
        curves[f"λ = {rate:g}"] = (run.times, width / width[0])
    figure = draw_lines(
        curves,
        "time t (SA clock)",
        "width $b_k(t) - a_k(t)$, first = 1",
        f"Width of {tokens} tokens in each eigendirection of V: it shrinks, stays or grows with "
        "the sign of the eigenvalue.",
        log="y",
        lines=True,
    )
    return Finding(rows, {"widths": figure})


def three_levels(*, tokens: int, draws: int, turns: float) -> Finding:
    """Levels of φ_1* without asking for a gap behind λ_1."""
    from metastable.report.plots import draw_lines

    gaps, off, counts, outside = [], [], [], 0
    for seed in range(draws):
        value = dominated_value(2, seed, 1.0)
        geometry: Any = limit_geometry(value)
        run = pure_run(gaussian_points(tokens, 2, seed=seed), turns, value=value)
        levels = run.points[-1] @ geometry.functionals[0]
        second = np.sort(np.abs(np.linalg.eigvals(value)))[0]
        gaps.append(1 - second)
        off.append(level_distance(levels))
        counts.append(occupied(levels))
        outside += geometry.kind != "hyperplanes"
    off, gaps = np.array(off), np.array(gaps)
    wide = gaps > 0.3
    share = float(np.mean(off < 1e-3))
    rows = [
        holds(
            "c ∈ {0, a, b} for every token, whatever the gap λ_1 − |λ_2| > 0: share of V with all "
            f"tokens within 1e−3 at λ_1 t = {turns:g}",
            "proof of Theorem 3, the three levels",
            share >= 0.9 and outside == 0,
            "at least 0.9; the rest turn later",
            f"{share:.3f} of {draws}",
        ),
        judge(
            "with a gap above 0.3: largest distance from {0, a, b}, in units of b − a",
            "Theorem 3",
            0.0,
            float(off[wide].max()),
            absolute=1e-3,
        ),
        holds(
            "occupied hyperplanes",
            "Theorem 3",
            max(np.array(counts)[off < 1e-3]) <= 3,
            "at most 3",
            f"{min(counts)} to {max(np.array(counts)[off < 1e-3])}",
        ),
    ]
    figure = draw_lines(
        {"random V": (gaps, np.maximum(off, 1e-8))},
        "gap $(\\lambda_1 - |\\lambda_2|)/\\lambda_1$",
        "largest distance from {0, a, b}",
        f"How far the slowest of {tokens} tokens is from the three levels, for {draws} random V of "
        "the plane: slow where the gap is small.",
        log="y",
    )
    return Finding(rows, {"levels": figure})


def codimension_k(*, tokens: int, draws: int, horizon: float) -> Finding:
    """How many codimension-k subspaces hold the tokens when k eigenvalues have Re λ ≥ 0."""
    from metastable.report.plots import draw_bars
    from metastable.report.style import INK, legend

    turn = np.array([[0.7, -0.5], [0.5, 0.7]])
    cases = {
        "1, 0.7, −0.4": np.diag([1.0, 0.7, -0.4]),
        "1, 0.7±0.5i": block_diag([[1.0]], turn),
        "1, 1, −0.4": np.diag([1.0, 1.0, -0.4]),
        "1±i, −0.4": block_diag([[1.0, -1.0], [1.0, 1.0]], [[-0.4]]),
        "1, 0, −0.4": np.diag([1.0, 0.0, -0.4]),
    }
    simple = ("1, 0.7, −0.4", "1, 0.7±0.5i")
    counts: dict[str, list[int]] = {}
    still = 0.0
    for name, form in cases.items():
        positive = np.diag(form) >= 0
        counts[name] = []
        for seed in range(draws):
            basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
            value = basis @ form @ basis.T
            start = gaussian_points(tokens, 3, seed=seed)
            run = pure_run(start, horizon, value=value, frames=9)
            y = (run.points @ basis)[:, :, positive]
            # Parallel subspaces of codimension k are points of the k coordinates that count.
            scaled = Points(y[-1] / np.abs(y[-1]).max(), on_sphere=False)
            counts[name].append(clusters(scaled, angle=5e-3).count)
            if name == "1, 0, −0.4":
                still = max(still, float(np.ptp(y[:, :, 1], axis=0).max()))
    most = {name: max(found) for name, found in counts.items()}
    rows = [
        holds(
            "k eigenvalues with Re λ ≥ 0 lead to at most 3 parallel subspaces of codimension k, "
            "whatever they are",
            "section on open questions, beyond Theorem 3",
            max(most.values()) <= 3,
            "at most 3",
            ", ".join(f"({name}): {one}" for name, one in most.items()),
        ),
        holds(
            "so it is where λ_1 is real and simple and the other k − 1 have Re λ > 0",
            "conjecture of the document, narrowed here",
            max(most[name] for name in simple) <= 3,
            "at most 3",
            max(most[name] for name in simple),
            f"{len(simple) * draws} prompts",
        ),
        judge(
            "an eigenvalue 0 moves nothing: largest change of its coordinate",
            "Lemma in the proof of Theorem 3",
            0.0,
            still,
            absolute=1e-8,
        ),
        holds(
            "a double leading eigenvalue gives a polytope, with more than 3 vertices for some "
            "prompts",
            "Theorem 4",
            most["1, 1, −0.4"] > 3,
            "more than 3",
            most["1, 1, −0.4"],
        ),
    ]
    names = list(cases)
    figure = draw_bars(
        names,
        {
            "fewest": [min(counts[name]) for name in names],
            "median": [float(np.median(counts[name])) for name in names],
            "most": [max(counts[name]) for name in names],
        },
        "eigenvalues of V",
        "subspaces of codimension k",
        f"Parallel subspaces that {tokens} tokens in R³ end on, {draws} prompts for each V; the "
        "question was whether there are at most 3.",
        size=(5.4, 3.4),
    )
    figure.axes[0].axhline(3, color=INK, ls="--", lw=1, label="3, as asked")
    legend(figure.axes[0])
    return Finding(
        rows, {"counts": figure}, ["An experiment: the document asks, nothing is proved."]
    )
