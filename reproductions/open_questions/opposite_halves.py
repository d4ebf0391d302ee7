"""Do many tokens end in opposite halves under common noise?"""

from __future__ import annotations

import math

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import RandomValue
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions._random_depth import many_runs

NEAR = 1e-3  # distance at which tokens are together, or opposite

ENTRY = Entry(
    title="Do many tokens end in opposite halves under common noise?",
    places=["arXiv:2601.21942, abstract (proved for two tokens, seen for more)"],
    claim=(
        "Numerically yes for even n up to 16, ever more rarely: of runs from uniform tokens the "
        "share with two opposite halves is about a constant times C(n,n/2)/2^n; never for odd n."
    ),
    method=(
        "Many systems of n tokens; ends sorted into one cluster, two opposite groups and their "
        "sizes, or undecided; the share over the chance that n coins show equal numbers."
    ),
    subject="random depth",
    basis="derived",
    limits=(
        "d = 4 and β = 2 only, finite time: runs still undecided widen the tolerance. That the "
        "ratio is constant is a guess made on a table of shares, and no theory is known for it."
    ),
    implies=("unequal_groups",),
    planted="RandomValue.beta * 0.3",
    settings={"dim": 4, "beta": 2.0, "tokens": [3, 4, 6, 8, 16], "samples": 3000, "horizon": 60.0,
              "step": 0.02},
    fast={"tokens": [3, 4, 6], "samples": 600, "horizon": 30.0},
)  # fmt: skip


def opposite_halves(
    *, dim: int, beta: float, tokens: list[int], samples: int, horizon: float, step: float
) -> Finding:
    """Shares of ends for several n."""
    rows, shares, errors, late, coins, even = [], [], [], [], [], []
    for n in tokens:
        start = np.random.default_rng(n).standard_normal((samples, n, dim))
        start /= np.linalg.norm(start, axis=2, keepdims=True)
        x = many_runs(RandomValue(beta), start, [horizon], samples=samples, step=step)[0]
        near = np.linalg.norm(x - x[:, :1], axis=2) < NEAR
        far = np.linalg.norm(x + x[:, :1], axis=2) < NEAR
        two = (near | far).all(axis=1) & far.any(axis=1)
        undecided = float(1 - (near | far).all(axis=1).mean())
        share = float(two.mean())
        error = math.sqrt(max(share * (1 - share), 1 / samples) / samples)
        if n % 2:
            rows.append(holds(f"n = {n}: two opposite groups at the end", "answer: never",
                              not two.any(), 0, int(two.sum())))  # fmt: skip
            continue
        halves = bool(np.all(near[two].sum(axis=1) == n // 2))
        low = share - 2 * error
        rows.append(
            holds(f"n = {n}: a positive share ends in two halves, all of them equal",
                  "answer: yes", low > 0 and halves, "lower limit above 0",
                  f"{share:.3f} ± {2 * error:.3f}, {undecided:.1%} undecided")
        )  # fmt: skip
        even.append(n)
        shares.append(share)
        errors.append(error)
        late.append(undecided)
        coins.append(math.comb(n, n // 2) / 2**n)
    ratios, spread = np.array(shares) / coins, np.array(errors) / coins
    constant = float(np.sum(ratios / spread**2) / np.sum(1 / spread**2))
    for n, ratio, error, waits in list(zip(even, ratios, spread, late, strict=True))[1:]:
        # Runs still under way may end like the others: relative doubt as large as their share.
        doubt = (waits + late[0]) * float(ratios[0]) + 0.1 * float(ratios[0])
        rows.append(
            judge(f"share over C(n,n/2)/2^n, n = {n} against n = {even[0]}", "answer: a constant",
                  float(ratios[0]), float(ratio),
                  absolute=4 * math.hypot(float(error), float(spread[0])) + doubt)
        )  # fmt: skip
    series = [
        Series("runs", even, shares, errors, style="points"),
        Series(f"{constant:.2f} C(n,n/2)/2^n", even, constant * np.array(coins), style="both",
               role="theory"),
    ]  # fmt: skip
    axes = Axis("number of tokens n"), Axis("share that ends in opposite halves")
    caption = f"d = {dim}, β = {beta:g}, uniform tokens, {samples} systems each."
    return Finding(rows, {"shares": Lines(*axes, series, caption=caption)})
