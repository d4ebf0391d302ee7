"""One cluster at large β, after an exponential time."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Merging, flow
from metastable.measures import Points, uniform
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.pairs import log_merge_time

ENTRY = Entry(
    title="One cluster at large β, after an exponential time",
    places=["Theorem 5.1"],
    claim=(
        "For β ≥ C(d)n² almost every start ends in one cluster, in both clocks, even on the circle."
    ),
    method=(
        "Random starts at β = n² carried through all their mergers with the logarithm of time; "
        "the time that two groups need against quadrature."
    ),
    subject="existence",
    basis="report",
    limits=(
        "C(d) = 1 and few starts: the theorem's constant is not known, and a share of starts is "
        "no proof for almost every one. Nothing here needs β ≥ n²."
    ),
    planted="SelfAttention.beta * 1.02",
    settings={"tokens": 8, "dim": 2, "draws": 20, "angle": 2.0, "groups": [[1, 1], [2, 3]]},
    fast={"tokens": 5, "draws": 3, "groups": [[2, 3]]},
)


def large_beta_mergers(*, tokens: int, dim: int, draws: int, angle: float, groups: list) -> Finding:
    """Every start ends with one token, at log T below 2β; two groups need the integral's time."""
    beta = float(tokens**2)
    ends, late, stairs = [], [], {}
    for clock in (True, False):
        for seed in range(draws):
            field = SelfAttention(beta, normalized=clock)
            run = flow(uniform(tokens, dim, seed), field, math.inf, stepper=Merging())
            ends.append(run.frames[-1].count)
            if clock:
                assert run.mergers is not None
                late.append(run.mergers.log_times[-1])
                if seed < 4:
                    times = np.maximum(run.mergers.log_times, 0.0)
                    stairs[f"start {seed + 1}"] = (times / beta, run.mergers.counts)
    rows = [
        judge("share of starts that end as one cluster", "Theorem 5.1", 1.0,
              float(np.mean(np.array(ends) == 1)), absolute=0.0),
        # Opposite groups would need e^{2β}/2 times a logarithm of how opposite they are.
        holds("last merger before e^{2β}", "derived", max(late) < 2 * beta, f"log T < {2 * beta:g}",
              f"{max(late):.4g}"),
    ]  # fmt: skip
    for first, second in groups:
        masses = (first / (first + second), second / (first + second))
        x = np.array([[1.0, 0.0], [math.cos(angle), math.sin(angle)]])
        run = flow(Points(x, np.array(masses)), SelfAttention(beta), math.inf, stepper=Merging())
        assert run.mergers is not None
        expected = log_merge_time(angle, beta, masses=masses)
        # What is left after the cosine 0.999 is a few units of time: nothing on this scale.
        rows.append(judge(f"log T of two groups, masses {first}:{second}", "quadrature", expected,
                          float(run.mergers.log_times[-1]), absolute=1e-3))  # fmt: skip
    figure = plot_lines(
        stairs, "log(time)/β (SA clock)", "clusters",
        f"{tokens} uniform tokens on the circle, β = {beta:g}: one cluster, exponentially late.",
        lines=True,
    )  # fmt: skip
    return Finding(rows, {"stairs": figure})
