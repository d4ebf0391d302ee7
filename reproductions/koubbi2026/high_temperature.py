"""At high temperature the mean overlap follows a logistic equation."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import RandomValue
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from reproductions._random_depth import many_runs, mean_with_error

ENTRY = Entry(
    title="At high temperature the mean overlap follows a logistic equation",
    places=["arXiv:2604.01978, Theorem clustering_small_beta, as formalised"],
    claim=(
        "For small β and large d, the mean m of all overlaps stays close to the solution of "
        "u' = u(1−u): off by a constant times 1/d and (βd)², and by fluctuations √(T/d)."
    ),
    method=(
        "Tokens of equal overlaps under heads with random values in the dimensions of a "
        "ladder; mean of m extrapolated to 1/d = 0, its spread as a power of d."
    ),
    subject="random depth",
    basis="report",
    limits=(
        "The theorem was read in a public formalisation. Q = K = I in place of random ones, at "
        "a β small enough not to matter; one start and one time, no supremum over time."
    ),
    planted="many_runs.times * 1.2",
    settings={"tokens": 5, "beta": 0.01, "gamma": 0.3, "horizon": 1.0, "dims": [12, 24, 48, 96],
              "samples": 20000, "steps": 60},
    fast={"dims": [12, 24, 48], "samples": 2000, "steps": 30},
)  # fmt: skip


def high_temperature(
    *, tokens: int, beta: float, gamma: float, horizon: float, dims: list[int], samples: int,
    steps: int,
) -> Finding:  # fmt: skip
    """m at time T, in the clock of values of variance 1/d: d times that of `RandomValue`."""
    means, errors, spreads = [], [], []
    for dim in dims:
        start = np.sqrt(1 - gamma) * np.eye(tokens, dim)
        start[:, tokens] = np.sqrt(gamma)
        now = {}
        for count in (steps, steps // 2):
            step = horizon / dim / count
            x = many_runs(RandomValue(beta), start, [horizon / dim], samples=samples, step=step,
                          seed=count)[0]  # fmt: skip
            now[count] = np.sum(x.mean(axis=1) ** 2, axis=1)
        (fine, e1), (coarse, e2) = (mean_with_error(now[c]) for c in (steps, steps // 2))
        means.append(2 * fine - coarse)  # steps have a bias of first order
        errors.append(math.hypot(2 * e1, e2))
        spreads.append(float(now[steps].std(ddof=1)))
    first = (tokens - 1) / tokens * gamma + 1 / tokens
    exact = first / (first + (1 - first) * math.exp(-horizon))
    inverse = 1 / np.array(dims, float)
    design = np.vander(inverse, 2, increasing=True) / np.array(errors)[:, None]
    weights = np.linalg.pinv(design)[0]
    limit, error = float(weights @ (np.array(means) / errors)), float(np.linalg.norm(weights))
    power = float(np.polyfit(np.log(dims), np.log(spreads), 1)[0])
    # Standard deviations of so many samples are known to 1/√(2 samples).
    spread = 4 / math.sqrt(2 * samples) / np.log(dims).std() / math.sqrt(len(dims))
    rows = [
        judge(f"mean overlap at T = {horizon:g}, extrapolated to d = ∞", "logistic equation",
              exact, limit, absolute=4 * error + 4 * float(inverse.min()) ** 2),
        judge("power of d in the spread of runs", "Theorem clustering_small_beta", -0.5, power,
              absolute=spread + 0.1),
    ]  # fmt: skip
    series = [
        Series("runs", inverse, means, errors, style="points"),
        Series("u' = u(1−u)", [0, inverse.max()], [exact] * 2, role="theory"),
    ]
    axes = Axis("1/d"), Axis("mean overlap")
    caption = f"{tokens} tokens, β = {beta:g}, time {horizon:g} (values of variance 1/d)."
    return Finding(rows, {"overlap": Lines(*axes, series, caption=caption)})
