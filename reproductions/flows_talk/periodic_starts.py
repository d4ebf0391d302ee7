"""Periodic starts and their number of clusters."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.observe import clusters
from metastable.observe.equilibria import Share
from metastable.report.figures.plain import plot_bars
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.spectrum import dominant_mode

from ._periodic import periodic

ENTRY = Entry(
    title="Periodic starts and their number of clusters",
    places=["discussion: does a periodic perturbation end in exactly k clusters?"],
    claim=(
        "A start of period k is expected to collapse to exactly k clusters, for almost every "
        "such start; no proof is known."
    ),
    method=(
        "Random starts of exact period k, with the same seen again under tiny and under large "
        "noise; clusters counted at two times."
    ),
    subject="clusters",
    basis="text",
    limits=(
        "60 tokens on the circle at β = 5, two to five copies, 40 starts; the claim for almost "
        "every start is only sampled."
    ),
    planted="SelfAttention.value = -1.0",
    settings={"beta": 5.0, "tokens": 60, "copies": [2, 3, 4, 5], "starts": 40},
    fast={"tokens": 24, "copies": [2, 3, 4], "starts": 8},
)

# Of the SA clock: k clusters form within 10; two in a sector may take far longer to become one.
TIMES = [0.0, 10.0, 20.0, 40.0, 240.0]


def periodic_starts(*, beta: float, tokens: int, copies: list[int], starts: int) -> Finding:
    """Do exactly k-periodic starts end in exactly k clusters, and do nearly periodic ones?"""
    noises, shares = (0.0, 1e-6, 0.1), {}
    for noise in noises:
        for k in copies:
            counts = []
            for seed in range(starts):
                start = periodic(k, tokens // k, noise, seed)
                run = flow(start, SelfAttention(beta), TIMES[-1], frames=TIMES)
                counts.append({clusters(x, beta).count for x in run.frames[1:]})
            shares[k, noise] = Share(sum(k in seen for seen in counts), starts)
    best = dominant_mode(beta, 2)
    above = [k for k in copies if k > best]
    values = lambda noise, which: [shares[k, noise].value for k in which]
    rows = [
        judge("share of exactly k-periodic starts that reach exactly k clusters, least over k",
              "discussion after the talk", 1.0, min(values(0.0, copies)), absolute=0.0),
        judge("the same with noise of 1e−6 on every token", "discussion after the talk", 1.0,
              min(values(1e-6, copies)), absolute=0.0),
        holds(f"with noise of 0.1 periods above the dominant k = {best} are often lost",
              "the dominant mode outgrows the others",
              np.mean(values(0.1, above)) < 0.75, "below 3/4 on average",
              float(np.mean(values(0.1, above)))),
    ]  # fmt: skip
    figure = plot_bars(
        copies, {f"noise {noise:g}": values(noise, copies) for noise in noises},
        "period k of the start",
        Axis("share that reach k clusters", limits=(0.0, 1.4)),  # room for names above full bars
        f"{starts} starts of {tokens} tokens on the circle, β = {beta:g}; counted at four times.",
    )  # fmt: skip
    return Finding(rows, {"shares": figure})
