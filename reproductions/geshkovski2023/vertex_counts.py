"""How many vertices."""

from __future__ import annotations

import math

import numpy as np

from metastable.fields import Rescaled, SelfAttention
from metastable.flows import Hardmax, flow
from metastable.measures import Points, gaussian_points
from metastable.observe import leaders
from metastable.report.figures.plain import plot_bars
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._pure_attention import limit_corners, pure_run

ENTRY = Entry(
    title="How many vertices",
    places=[
        "section on open questions, count the vertices",
        "section on open questions, geometric description of the polytope",
    ],
    claim=(
        "How many vertices does the limit polytope have for generic data, and can it be "
        "described geometrically? Here: they are the tokens that lead themselves once exp(2t) "
        "is large."
    ),
    method=(
        "Count vertices over random prompts of several sizes, and compare with the number of "
        "tokens that are their own argmax a third of the way, and at the start for β = ∞, "
        "where they all stay."
    ),
    subject="clusters",
    basis="text",
    limits=(
        "20 and 40 tokens in d = 2 and 3, 60 prompts each; no law of the number of vertices is "
        "claimed."
    ),
    planted="pure_run.horizon * 0.05",
    settings={"sizes": [[20, 2], [40, 2], [20, 3], [40, 3]], "draws": 60, "horizon": 12.0},
    fast={"sizes": [[20, 2], [20, 3]], "draws": 12},
)


def vertex_counts(*, sizes: list[list[int]], draws: int, horizon: float) -> Finding:
    """How many vertices the limit has, over random prompts, and who they are."""
    counts, wrong, fewer, more, total = {}, 0, 0, 0, 0
    for tokens, dim in sizes:
        found = []
        for seed in range(draws):
            start = gaussian_points(tokens, dim, seed=seed)
            run = pure_run(start, horizon, frames=13)
            decided = run.frames[4]  # a third of the way
            found.append(len(limit_corners(run.frames[-1])))
            wrong += int(found[-1] != self_leaders(decided))
            pure = Rescaled(SelfAttention(1.0))
            chase = flow(start, pure, math.inf, stepper=Hardmax(), frames=2)
            extra = chase.frames[-1].count - self_leaders(start)
            fewer, more = fewer + int(extra < 0), more + int(extra > 0)
            total += 1
        counts[f"n = {tokens}, d = {dim}"] = np.array(found)
    rows = [
        holds(
            "vertices are the tokens that lead themselves, z_i = argmax_j⟨z_i,z_j⟩, once e^{2t} is "
            "large: prompts with another count",
            "section on open questions (count the vertices); rule found here",
            wrong <= 0.05 * total,
            "none (5 % allowed: some are not decided yet)",
            f"{wrong} of {total}",
        ),
        holds(
            "at β = ∞ the leaders of the start all stay vertices; now and then one more appears",
            "derived here: a token that leads itself rests, and hulls only shrink",
            fewer == 0 and more <= 0.05 * total,
            "never fewer, more in 5 % at most",
            f"fewer in {fewer}, more in {more} of {total}",
        ),
    ]
    places = np.arange(1, max(found.max() for found in counts.values()) + 1)
    figure = plot_bars(
        places,
        {name: [np.mean(found == k) for k in places] for name, found in counts.items()},
        "vertices m of the limit polytope",
        "share of prompts",
        f"Number of vertices over {draws} Gaussian prompts of each size, Q = K = V = I.",
    )
    means = ", ".join(f"{name}: {found.mean():.2f}" for name, found in counts.items())
    return Finding(rows, {"counts": figure}, [f"Mean number of vertices: {means}."])


def self_leaders(measure: Points) -> int:
    """How many tokens are their own argmax."""
    return int(np.sum(leaders(measure) == np.arange(measure.count)))
