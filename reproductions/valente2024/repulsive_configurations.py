"""Repelling tokens find the best configurations."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points, uniform
from metastable.observe import energy
from metastable.report.figures.plain import plot_bars
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.configurations import (
    cube,
    design_strength,
    scaled_energy,
    sharp_configuration,
)

ENTRY = Entry(
    title="Repelling tokens find the best configurations",
    places=["Theorem 13", "Definition 12"],
    claim=(
        "Every global minimiser of the energy of n tokens is a sharp configuration or the 600-cell."
    ),
    method=(
        "Let tokens repel each other (V = −I) from random starts and compare the least energy "
        "with the exact one; look at sizes without a sharp configuration."
    ),
    known="disagree",
    correction=(
        "Cohn and Kumar prove the converse: every sharp configuration, and the 600-cell, is a "
        "global minimiser for every β. Most sizes have no sharp configuration but do have a "
        "minimiser."
    ),
    subject="clusters",
    basis="text",
    limits=(
        "Six sizes of at most 16 tokens at β = 4, up to 20 starts each; the 600-cell itself was"
        " not run."
    ),
    planted="SelfAttention.value = 1.0",
    settings={
        "cases": [[2, 5], [3, 4], [3, 6], [3, 12], [4, 8], [5, 16]],
        "starts": 20,
        "beta": 4.0,
    },
    fast={"cases": [[2, 5], [3, 6], [3, 12]], "starts": 4},
)


def repulsive_configurations(*, cases: list[list[int]], starts: int, beta: float) -> Finding:
    """Repelling tokens find the sharp configurations; but not every minimiser is one."""
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
    figure = plot_bars(
        names,
        {"best of the starts": [max(value, 1e-16) for value in excess]},
        "configuration",
        "relative excess of energy",
        f"V = −I from {starts} random starts, β = {beta:g}: distance from the exact least energy.",
        size=(5.4, 3.3),
        log=True,
    )
    return Finding(rows, {"excess": figure})


def _repelled(dim: int, tokens: int, starts: int, beta: float) -> Points:
    """Where repelling tokens have the least energy, over random starts."""
    field = SelfAttention(beta, value=-1.0)
    ends = [flow(uniform(tokens, dim, k), field, 150.0, frames=2).frames[-1] for k in range(starts)]
    return min(ends, key=lambda end: _energy_of(end, beta))


def _energy_of(measure: Points, beta: float) -> float:
    return float(energy(measure, beta, scaled=True))
