"""How long the closest pair takes in the rescaled clock."""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import cumulative_trapezoid

from metastable.core.verdict import judge
from metastable.fields import Kuramoto, SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.pairs import log_merge_time

ENTRY = Entry(
    title="How long the closest pair takes in the rescaled clock",
    places=["Section 6, lemma on the time scale of clustering"],
    claim=(
        "In the clock whose unit is log β times e^{β(1−cos u)} the angle u of a pair obeys "
        "u̇ = −c log β sin u and falls below √(log β/β) at a time that tends to 2/c."
    ),
    method=(
        "The two-token flow with its time rescaled along the run; then the rescaled equation "
        "itself, a pair of Kuramoto oscillators, for β up to e^200."
    ),
    known="disagree",
    correction=(
        "Separation of variables gives log tan(u/2) = log tan(u_0/2) − c t log β, so that the "
        "time tends to 1/(2c); the deviation is of order log log β/log β."
    ),
    subject="metastability",
    basis="report",
    limits=(
        "The small constant force c(β) of the lemma is left out. Version 1 as transcribed, where "
        "the lemma is refuted at u_0 = 0; the limit is checked here."
    ),
    planted="Kuramoto.coupling * 0.8",
    settings={"start": 1.0, "beta": 30.0, "logs": [5.0, 10.0, 25.0, 50.0, 100.0, 200.0]},
    fast={"logs": [10.0, 50.0, 200.0]},
)


def clustering_clock(*, start: float, beta: float, logs: list[float]) -> Finding:
    """Kuramoto at coupling K closes two oscillators of mass 1/2 like u̇ = −K sin u."""
    points = Points([[1.0, 0.0], [math.cos(start), math.sin(start)]])
    gap = lambda run: 2 * np.arcsin(np.linalg.norm(run.points[:, 0] - run.points[:, 1], axis=1) / 2)
    # USA with two tokens: u̇ = −e^{β cos u} sin u. Rescaled by e^{−β cos u}/log β: c = 1.
    last = math.exp(log_merge_time(start, beta, until=0.05, normalized=False))
    # The pair speeds up without end: frames crowd towards the merger.
    times = last * np.concatenate([1 - np.logspace(0, -8, 6000), [1.0]])
    run = flow(points, SelfAttention(beta, normalized=False), last, frames=times)
    u = gap(run)
    rescaled = cumulative_trapezoid(np.exp(beta * np.cos(u)), run.times, initial=0) / math.log(beta)
    kept = u > 0.3
    law = _law(u[kept], start, math.log(beta))
    rows = [
        judge(
            f"β = {beta:g}: the rescaled flow obeys u̇ = −log β sin u, time off by",
            "Section 6",
            0.0,
            float(np.max(np.abs(rescaled[kept] - law))),
            absolute=2e-3,
        )
    ]
    took = []
    for log in logs:
        below = math.exp(0.5 * (math.log(log) - log))
        near = max(below, 1e-7)
        run = flow(points, Kuramoto(coupling=log), 2.0, frames=8001)
        seen = float(np.interp(-math.log(near), -np.log(np.maximum(gap(run), 1e-12)), run.times))
        # Below 1e−7 the sine is its argument and the rest of the way is exact.
        took.append(seen + math.log(near / below) / log)
        rows.append(judge(f"log β = {log:g}: time to √(log β/β), c = 1", "derived",
                          float(_law(below, start, log)), took[-1], absolute=1e-3))  # fmt: skip
    # t = 1/2 + (a − ½ log log β)/log β exactly, with one constant a.
    logs_ = np.array(logs)
    limit = float(np.polyfit(1 / logs_, np.array(took) + 0.5 * np.log(logs_) / logs_, 1)[1])
    rows.append(judge("the time tends to, times c", "derived", 0.5, limit, absolute=5e-3))
    first = holds("the time tends to 2/c", "Section 6", abs(limit - 2) < 0.1, 2.0, f"{limit:.4g}")
    figure = plot_lines(
        {"pair of oscillators": (logs, took)}, "log β", "time to √(log β/β), times c",
        "In the rescaled clock; the stated limit is 2, the right one 1/2.",
        theory={"exact": (logs, [_law(math.exp(0.5 * (math.log(x) - x)), start, x) for x in logs])},
        levels={"stated": 2.0, "1/2": 0.5}, log="x",
    )  # fmt: skip
    return Finding([first, *rows], {"times": figure})


def _law(u: np.ndarray | float, start: float, log: float) -> np.ndarray | float:
    return (math.log(math.tan(start / 2)) - np.log(np.tan(np.asarray(u) / 2))) / log
