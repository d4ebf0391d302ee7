"""Time scale of the first phase."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import uniform
from metastable.observe import amplitudes
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.spectrum import dominant_mode, exit_time, max_rate

ENTRY = Entry(
    title="Time scale of the first phase",
    places=["summary: time scales"],
    claim=(
        "The time to leave the uniform state is set by temperature, dimension and the "
        "logarithm of the number of tokens."
    ),
    method=(
        "Median time at which the dominant mode becomes finite, for growing n, against log n "
        "over twice the largest rate."
    ),
    subject="rates",
    basis="text",
    limits=(
        "β = 5 on the circle and on S², up to 30 000 tokens, 20 starts; the constant beside the"
        " logarithm is not tested."
    ),
    planted="flow.times * 1.5",
    settings={"beta": 5.0, "tokens": [300, 3000, 30000], "seeds": 20, "dims": [2, 3]},
    fast={"tokens": [300, 6000], "seeds": 6, "dims": [2]},
)


def exit_times(*, beta: float, tokens: list[int], seeds: int, dims: list[int]) -> Finding:
    """The time to leave uniform grows like log n over twice the largest rate."""
    curves, theory, rows = {}, {}, []
    for dim in dims:
        rate, mode = max_rate(beta, dim), dominant_mode(beta, dim)
        seen = []
        for n in tokens:
            left = []
            for seed in range(seeds):
                run = flow(uniform(n, dim, seed), SelfAttention(beta),
                           1.6 * exit_time(n, rate) + 3 / rate, frames=121)  # fmt: skip
                size = np.array([amplitudes(frame, mode)[mode - 1] for frame in run.frames])
                above = np.flatnonzero(size > 0.3)
                left.append(run.times[above[0]] if above.size else np.nan)
            seen.append(float(np.nanmedian(left)))
        slope = np.polyfit(np.log(tokens), seen, 1)[0]
        rows.append(
            judge(f"growth of the exit time with log n, d = {dim}", "time scales", 0.5 / rate,
                  slope, relative=0.25)
        )  # fmt: skip
        curves[f"d = {dim}"] = (tokens, seen)
        law = np.log(tokens) * 0.5 / rate
        theory[f"log n/2λ + const, d = {dim}"] = (tokens, law + np.mean(np.array(seen) - law))
    figure = plot_lines(
        curves,
        "tokens n",
        "exit time (SA clock)",
        log="x",
        theory=theory,
        caption=f"Median over {seeds} starts, β = {beta:g}: the dominant mode passes 0.3.",
    )
    return Finding(rows, {"times": figure})
