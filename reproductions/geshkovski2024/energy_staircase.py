"""The energy climbs a staircase, one merger at a time."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Merging, flow
from metastable.measures import Points, uniform
from metastable.observe import energy
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.metastability import plateau_level

ENTRY = Entry(
    title="The energy climbs a staircase, one merger at a time",
    places=["Section 6, theorem on the staircase", "authors' code, staircase.py"],
    claim=(
        "In a clock that follows the closest pair the energy 2βe^{−β}E becomes piecewise constant "
        "as β grows, climbs by 2α_iα_j at every merger and ends at 1."
    ),
    method=(
        "Tokens of unequal masses run to the last cluster; levels between mergers against Σα², "
        "and the share of the clock (log t)/β that is spent between levels, for several β."
    ),
    subject="metastability",
    basis="report",
    limits=(
        "The theorem is for a modified USA on half a circle; here SA from uniform starts on "
        "S^{d−1}. Tokens that have collapsed are joined by the stepper."
    ),
    planted="energy * 1.03",
    settings={"tokens": 7, "dims": [2, 3, 5], "betas": [50.0, 200.0, 800.0], "seed": 5},
    fast={"tokens": 6, "dims": [2, 4], "betas": [50.0, 400.0]},
)


def energy_staircase(*, tokens: int, dims: list[int], betas: list[float], seed: int) -> Finding:
    """Masses come from a fixed draw; a level is read in the middle of the longest wait at it."""
    masses = np.random.default_rng(seed).uniform(0.5, 1.5, tokens)
    masses /= masses.sum()
    rows, lost, series = [], {}, []
    for dim in dims:
        for beta in betas:
            start = Points(uniform(tokens, dim, seed).points, masses)
            run = flow(start, SelfAttention(beta), math.inf, stepper=Merging(), frames=800)
            clock = np.maximum(run.log_times, 0) / beta
            height = np.array([float(energy(f, beta, scaled=True)) for f in run.frames])
            levels = np.array([plateau_level(list(np.asarray(f.weights))) for f in run.frames])
            between = np.abs(height[1:] - levels[1:]) > 0.01
            lost[dim, beta] = float((np.diff(clock) * between).sum() / clock[-1])
            if dim == dims[0]:
                series.append(Series(f"β = {beta:g}", clock, height))
        waits = [np.flatnonzero(levels == level) for level in np.unique(levels)]
        # A plateau is a wait of more than a twentieth of the clock; it is read in its middle.
        long = [w for w in waits if clock[w[-1]] - clock[w[0]] > 0.05]
        middles = [w[np.searchsorted(clock[w], (clock[w[0]] + clock[w[-1]]) / 2)] for w in long]
        off = max((abs(height[k] - levels[k]) for k in middles), default=math.nan)
        rows.append(judge(f"d = {dim}: {len(middles)} plateaus have the level Σα², off by",
                          "Section 6", 0.0, float(off), absolute=1e-3))  # fmt: skip
        assert run.mergers is not None
        jumps = run.mergers.jumps
        rows.append(
            judge(
                f"d = {dim}: the steps 2αα lead from the first level to",
                "Section 6",
                1.0,
                levels[0] + float(jumps.sum()),
                absolute=1e-9,
            )
        )
        rows.append(judge(f"d = {dim}: the last level", "Section 6", 1.0, height[-1],
                          absolute=1e-9))  # fmt: skip
        few, many = lost[dim, betas[0]], lost[dim, betas[-1]]
        rows.append(holds(f"d = {dim}: the share of time off the levels falls as β grows",
                          "Section 6", many < few / 2, f"below half of {few:.3g}",
                          f"{many:.3g} at β = {betas[-1]:g}"))  # fmt: skip
        rows.append(holds(f"d = {dim}: {tokens - 1} steps for {tokens} tokens", "Section 6",
                          len(jumps) == tokens - 1, tokens - 1, len(jumps)))  # fmt: skip
    axes = Axis("(log t)/β", "", "SA"), Axis("energy 2βe^(−β)E")
    levels = {
        f"Σα² of {f.count}, d = {dim}": plateau_level(list(np.asarray(f.weights)))
        for f in _last(run)
    }
    return Finding(rows, {"staircase": Lines(*axes, series, levels=levels)})


def _last(run) -> list:
    """One frame for each of the last three numbers of tokens."""
    return list({frame.count: frame for frame in run.frames if frame.count <= 3}.values())
