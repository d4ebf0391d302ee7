"""Do negative eigenvalues leave a cloud around the top eigenspace?"""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Adaptive, flow
from metastable.measures import uniform
from metastable.report.figures.plain import plot_histograms
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Do negative eigenvalues leave a cloud around L?",
    places=["arXiv:2411.04990, Table 1, rows 4 and 5 (conjectures)"],
    claim=(
        "Under a causal mask, if all eigenvalues of V are negative, tokens end as a cloud around "
        "the eigenspace L of the largest one: two clouds around ±ξ if it is simple. Answer: "
        "numerically yes at β = 9, the paper's own value, for eigenvalues −1 and −2."
    ),
    method=(
        "Random starts on S² with Q = K = I and V = diag(−1, −2, −2) and diag(−1, −1, −2); share "
        "of tokens within 45° of L, Wilson interval; the same at β = 1, where it is no."
    ),
    subject="causal",
    basis="report",
    limits=(
        "The conjecture says nothing on the width of a cloud: 45° and 60° are ours, set after a "
        "pilot run on other starts. Q = K = I, d = 3, 32 tokens, one horizon; tokens of one run "
        "are not independent, so that intervals are somewhat too narrow."
    ),
    planted="SelfAttention.value * -1.0",
    settings={"tokens": 32, "starts": 30, "horizon": 500.0},
    fast={"starts": 4, "horizon": 60.0, "tokens": 24},
)


def clouds_around_the_eigenspace(*, tokens: int, starts: int, horizon: float) -> Finding:
    """Angles of tokens to L at the horizon."""
    rows, samples = [], {}
    for name, spectrum, power in (
        ("simple", [-1.0, -2.0, -2.0], 1),
        ("double", [-1.0, -1.0, -2.0], 2),
    ):
        for beta in (9.0, 1.0):
            ends = []
            for seed in range(starts):
                field = SelfAttention(beta, value=np.diag(spectrum), causal=True)
                run = flow(uniform(tokens, 3, seed=100 + seed), field, horizon, frames=2,
                           stepper=Adaptive(rtol=1e-6, atol=1e-8))  # fmt: skip
                ends.append(run.points[-1])
            x = np.concatenate(ends)
            angle = np.degrees(np.arccos(np.clip(np.linalg.norm(x[:, :power], axis=1), 0, 1)))
            samples[f"{name}, β = {beta:g}"] = angle
            if beta > 1:
                low, high = _wilson(int((angle < 45).sum()), len(angle))
                rows.append(holds(f"share of tokens within 45° of L, {name}, β = 9", "Table 1",
                                  high > 0.99 and low > 0.95, "all but 1 % at most",
                                  f"{low:.3f} to {high:.3f} (95 %)"))  # fmt: skip
            elif power == 1:
                low, high = _wilson(int((angle > 60).sum()), len(angle))
                rows.append(holds("share farther than 60° from L at β = 1, simple", "derived",
                                  low > 0.02, "more than 2 %",
                                  f"{low:.3f} to {high:.3f} (95 %)"))  # fmt: skip
            if beta > 1 and power == 1:
                sides = float((x[:, 0] > 0).mean())
                rows.append(judge("share of tokens in the cloud around ξ", "Table 1", 0.5, sides,
                                  absolute=0.1))  # fmt: skip
                spread = float(np.median(angle))
                rows.append(holds("a cloud, not a point: median angle to L", "Table 1",
                                  spread > 5, "> 5°", f"{spread:.1f}°"))  # fmt: skip
    figure = plot_histograms(
        samples, "angle of a token to L (degrees)",
        f"{starts} starts of {tokens} tokens, t = {horizon:g} (SA clock).", bins=30,
    )  # fmt: skip
    return Finding(rows, {"angles": figure})


def _wilson(hits: int, count: int) -> tuple[float, float]:
    """95 % interval of a share."""
    z, p = 1.96, hits / count
    middle, half = (
        p + z * z / (2 * count),
        z * math.sqrt(p * (1 - p) / count + (z / (2 * count)) ** 2),
    )
    return (middle - half) / (1 + z * z / count), (middle + half) / (1 + z * z / count)
