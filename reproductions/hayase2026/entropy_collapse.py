"""The entropy of a row collapses across the scale."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.measures import Points, uniform
from metastable.observe.context import attention_rows
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.context import accumulation_scale, expected_gap_count

ENTRY = Entry(
    title="Entropy collapses across the scale of the gaps",
    places=["arXiv:2605.12697, abstract"],
    claim=(
        "Well below the scale of a row's gap counts the top competitors share the weight, well "
        "above it the entropy of the row collapses."
    ),
    method=(
        "Rows of attention without the token itself, at multiples of the scale made of the "
        "measured gap counts: tokens on S², on a sphere of high dimension, and Gaussian ones; "
        "gap counts on S² against the measure of caps."
    ),
    subject="long context",
    basis="abstract",
    limits=(
        "The scale is our form, from the mean counts of sampled rows; the levels of entropy are "
        "conventions. One n for each family."
    ),
    planted="attention_rows.beta * 0.1",
    settings={"tokens": 4000, "rows": 300, "multiples": [0.1, 0.3, 1.0, 3.0, 10.0]},
    fast={"tokens": 1000, "rows": 100, "multiples": [0.1, 10.0]},
)


def entropy_collapse(*, tokens: int, rows: int, multiples: list[float]) -> Finding:
    """Entropies in units of log n against β over the scale."""
    draw = np.random.default_rng(2).standard_normal((tokens, 64))
    clouds = {
        "uniform on S²": uniform(tokens, 3, seed=1),
        "uniform on S^63": uniform(tokens, 64, seed=1),
        "normal in R^64": Points(draw / 64**0.25, on_sphere=False),
    }
    verdicts, curves = [], {}
    for name, cloud in clouds.items():
        top = 0.5 if cloud.on_sphere else 5.0
        gaps = np.geomspace(1e-5, top, 40)
        how = {"rows": rows, "own": False}
        counted = attention_rows(cloud, 1.0, gaps=gaps, **how).mean["gap_counts"]
        scale = accumulation_scale(gaps, 1 + counted)
        entropies = [
            float(attention_rows(cloud, scale * k, **how).mean["entropy"]) for k in multiples
        ]
        low, high = entropies[0], entropies[-1]
        verdicts += [
            holds(f"{name}: entropy at {multiples[0]:g} of the scale", "hayase2026unified",
                  low > np.log(3), "> log 3: three tokens or more share", f"{low:.3f}"),
            holds(f"{name}: entropy at {multiples[-1]:g} times the scale", "hayase2026unified",
                  high < 0.25 * np.log(3) , "< log 3 / 4", f"{high:.3f}"),
        ]  # fmt: skip
        curves[name] = (multiples, np.array(entropies))
    gap = 0.02
    sample = attention_rows(clouds["uniform on S²"], 1.0, gaps=[gap], rows=rows)
    law = expected_gap_count(gap, 3, tokens)
    verdicts.append(
        judge(f"competitors within {gap:g} of the token itself on S²", "derived", law,
              float(sample.mean["gap_counts"][0]),
              absolute=4 * float(sample.error["gap_counts"][0]))
    )  # fmt: skip
    figure = plot_lines(
        curves, "β over the scale of the gap counts", "entropy of a row (nats)",
        f"{tokens} tokens, mean over {rows} rows.", lines=True, log="x",
    )  # fmt: skip
    return Finding(verdicts, {"entropy": figure})
