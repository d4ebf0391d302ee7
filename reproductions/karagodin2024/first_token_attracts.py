"""All tokens go where the first one started."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points, uniform
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions._slopes import fitted_slope

ENTRY = Entry(
    title="All tokens go where the first one started",
    places=["Theorem 4.1"],
    claim=(
        "With V = I, any query and key matrices and a causal mask, almost every start ends with "
        "every token at the first token's initial place."
    ),
    method=(
        "Random non-symmetric Q and K of two sizes, random starts, distances to x_1(0) at the "
        "horizon; the late rate against 1/2, that of token 2, whose attention is then even "
        "between itself and the first; an opposite pair, which never moves; and no mask."
    ),
    subject="causal",
    basis="report",
    limits=(
        "Moderate scores and finitely many starts: almost every start is not tested, and with "
        "larger scores the time to converge grows exponentially. The late rate is derived here."
    ),
    planted="SelfAttention.causal = False",
    settings={"dims": [2, 3, 8], "tokens": 12, "scales": [0.5, 1.0], "starts": 4, "horizon": 400.0},
    fast={"dims": [3], "tokens": 8, "scales": [1.0], "starts": 2, "horizon": 150.0},
)


def first_token_attracts(
    *, dims: list[int], tokens: int, scales: list[float], starts: int, horizon: float
) -> Finding:
    """Largest distance to x_1(0) over random matrices and starts."""
    worst, apart, rates, curves = 0.0, np.inf, [], {}
    for dim in dims:
        for scale in scales:
            for seed in range(starts):
                draw = np.random.default_rng([dim, seed])
                query, key = scale * draw.standard_normal((2, dim, dim)) / np.sqrt(dim)
                start = uniform(tokens, dim, seed=seed)
                run = flow(start, SelfAttention(1.0, query, key, causal=True), horizon,
                           frames=int(horizon) + 1)  # fmt: skip
                far = np.linalg.norm(run.points - start.points[0], axis=2)
                worst = max(worst, float(far[-1].max()))
                late = (far[:, 1] < 1e-2) & (far[:, 1] > 1e-5)
                if late.sum() > 3:
                    rates.append(fitted_slope(run.times[late], np.log(far[late, 1])))
                curves[f"d = {dim}, scale {scale:g}, start {seed}"] = (run.times, far.max(axis=1))
                free = flow(start, SelfAttention(2.0, query, key), horizon / 2, frames=2)
                apart = min(
                    apart, float(np.linalg.norm(free.points[-1] - start.points[0], axis=1).min())
                )
    opposite = Points([[1.0, 0.0], [-1.0, 0.0]])
    still = flow(opposite, SelfAttention(2.0, causal=True), horizon, frames=2)
    moved = float(np.abs(still.points[-1] - opposite.points).max())
    rows = [
        judge("largest distance of a token from x_1(0) at the horizon", "Theorem 4.1", 0.0, worst,
              absolute=1e-6),
        judge("late rate of token 2, mean over runs", "derived", -0.5,
              float(np.mean(rates or [np.nan])), relative=0.02),
        judge("an exactly opposite pair does not move", "derived", 0.0, moved, absolute=1e-9),
        holds("without the mask tokens end elsewhere", "derived", apart > 0.01, "> 0.01",
              f"{apart:.3f}"),
    ]  # fmt: skip
    figure = plot_lines(
        dict(list(curves.items())[:6]), "time t (SA clock)", "largest distance from x_1(0)",
        "Random Q and K, causal mask; dashed: rate 1/2.", lines=True, log="y",
        theory={"e^(−t/2)": (run.times, np.exp(-run.times / 2))},
    )  # fmt: skip
    return Finding(rows, {"distance": figure})
