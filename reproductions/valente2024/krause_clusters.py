"""Krause's model."""

from __future__ import annotations

import numpy as np

from metastable.fields import Krause
from metastable.flows import flow
from metastable.measures import Points
from metastable.observe import clusters
from metastable.report.figures.run import plot_line
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Krause's model",
    places=["equation 11"],
    claim="With an interaction of compact support Krause's model tends to several clusters.",
    method="Opinions on a line; clusters at the end and the gaps between them.",
    subject="clusters",
    basis="text",
    limits=(
        "Opinions on a line, one reach, 100 tokens, ten starts; the law of the number of "
        "clusters was not tested."
    ),
    planted="flow.horizon * 0.01",
    settings={"tokens": 100, "reach": 1.0, "seeds": 10, "horizon": 60.0},
    fast={"tokens": 50, "seeds": 3},
)


def krause_clusters(*, tokens: int, reach: float, seeds: int, horizon: float) -> Finding:
    """Krause's opinions with a kernel of bounded reach end in several clusters, out of reach."""
    counts, nearest, run = [], [], None
    for seed in range(seeds):
        start = Points(
            np.random.default_rng(seed).uniform(0, 6 * reach, (tokens, 1)), on_sphere=False
        )
        field = Krause(lambda s: (s < reach**2).astype(float))
        run = flow(start, field, horizon, frames=61)
        found = clusters(run.frames[-1], angle=1e-3 * reach)
        counts.append(found.count)
        places = np.sort(np.asarray(found.centres)[:, 0])
        nearest.append(np.diff(places).min() if len(places) > 1 else np.inf)
    assert run is not None
    rows = [
        holds("several clusters remain", "equation 11; jabin2014clustering", min(counts) > 1,
              "more than one", f"{min(counts)} to {max(counts)}"),
        holds("neighbours end out of each other's reach", "jabin2014clustering",
              min(nearest) >= reach, f"at least {reach:g}", min(nearest)),
    ]  # fmt: skip
    return Finding(rows, {"opinions": plot_line(run)})
