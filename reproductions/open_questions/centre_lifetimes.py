"""How long do ordinary parking centres live?"""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Adaptive, flow
from metastable.measures import uniform
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.causal import separation
from reproductions.karagodin2024._centres import parked_mask, strong_mask

ENTRY = Entry(
    title="How long do ordinary centres live?",
    places=["arXiv:2411.04990, section 5.1: ordinary centres may merge in time"],
    claim=(
        "On the circle at β = 64, δ = 4β^(−1/2), ordinary Rényi centres that are not strong have "
        "mostly merged with an earlier centre by t = 500, strong ones mostly have not, whatever "
        "the length: by then strong centres count the clusters. Answer: numerically yes."
    ),
    method=(
        "Uniform causal sequences; a centre lives while no earlier centre is within a tenth of "
        "β^(−1/2); shares alive in time, for both kinds and two lengths, with Wilson intervals."
    ),
    subject="causal",
    basis="report",
    limits=(
        "One β and δ; the paper gives no time for ordinary centres. The levels were set after a "
        "pilot run on other starts. Strong centres die too, at times of order e^(c²/2)."
    ),
    planted="SelfAttention.beta * 0.5",
    settings={"beta": 64.0, "lengths": [50, 200], "starts": 40, "horizon": 500.0},
    fast={"lengths": [40], "starts": 8},
)


def centre_lifetimes(*, beta: float, lengths: list[int], starts: int, horizon: float) -> Finding:
    """Shares of centres alive, strong and not."""
    angle, radius = separation(beta), 0.1 / math.sqrt(beta)
    times = np.concatenate([[0.0], np.geomspace(1.0, horizon, 24)])
    rows, curves, ends = [], {}, []
    for n in lengths:
        alive, strong = [], []
        for seed in range(starts):
            start = uniform(n, 2, seed=1000 + seed)
            points = np.asarray(start.points)[None]
            centres = parked_mask(points, angle)[0]
            run = flow(start, SelfAttention(beta, causal=True), horizon, frames=times,
                       stepper=Adaptive(rtol=1e-6, atol=1e-8))  # fmt: skip
            x = run.points[:, centres]
            near = np.tril(x @ x.transpose(0, 2, 1) > math.cos(radius), -1).any(axis=2)
            alive.append(~near)
            strong.append(strong_mask(points, angle)[0][centres])
        alive, strong = np.concatenate(alive, axis=1), np.concatenate(strong)
        for kind, mask, want in (("strong", strong, True), ("other ordinary", ~strong, False)):
            low, high = _wilson(int(alive[-1, mask].sum()), int(mask.sum()))
            claim = f"share of {kind} centres alive at t = {horizon:g}, n = {n}"
            seen = f"{low:.3f} to {high:.3f} (95 %, {int(mask.sum())} centres)"
            asked, true = ("three in four", low > 0.75) if want else ("below half", high < 0.5)
            rows.append(holds(claim, "section 5.1", true, asked, seen))
            curves[f"{kind}, n = {n}"] = (times[1:], alive[1:, mask].mean(axis=1))
        ends.append((alive[-1].sum() / starts, strong.sum() / starts, math.sqrt(9 / starts)))
        rows.append(judge(f"centres left over strong ones at the start, n = {n}", "derived", 1.0,
                          float(ends[-1][0] / ends[-1][1]), absolute=0.15))  # fmt: skip
    if len(ends) > 1:
        rows.append(judge("centres left do not depend on the length", "derived", ends[0][0],
                          float(ends[-1][0]), absolute=4 * 0.5 * ends[0][2]))  # fmt: skip
    figure = plot_lines(
        curves, "time t (SA clock)", "share of centres alive",
        f"{starts} sequences, β = {beta:g}, δ = {angle:g}.", lines=True, log="x",
    )  # fmt: skip
    return Finding(rows, {"alive": figure})


def _wilson(hits: int, count: int) -> tuple[float, float]:
    """95 % interval of a share."""
    z, p = 1.96, hits / count
    middle = p + z * z / (2 * count)
    half = z * math.sqrt(p * (1 - p) / count + (z / (2 * count)) ** 2)
    return (middle - half) / (1 + z * z / count), (middle + half) / (1 + z * z / count)
