"""Grenier's expansion, order by order."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Adaptive, flow
from metastable.measures import Density
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.grenier import expand
from metastable.theory.interaction import attention_interaction

ENTRY = Entry(
    title="Grenier's expansion, order by order",
    places=["summary: Grenier's iterative method"],
    claim=(
        "The dominant mode and its iterated corrections approximate the solution, each order "
        "by one more power of the perturbation."
    ),
    method="The recursion in harmonics against the full equation at three sizes of the start.",
    subject="rates",
    basis="text",
    limits="One mode on the circle at β = 5, orders up to 4, three sizes of the start.",
    planted="SelfAttention.beta * 1.01",
    settings={"beta": 5.0, "orders": [1, 2, 3, 4]},
    fast={"orders": [1, 2, 3]},
)


def expansion_orders(*, beta: float, orders: list[int]) -> Finding:
    """Grenier's expansion of order N misses the equation's solution by δ^(N+1)."""
    deltas, curves, slopes = np.array([0.004, 0.008, 0.016]), {}, {}
    for order in orders:
        way_out = expand(attention_interaction(beta, 2, normalized=True), order, pattern=0.3 - 0.4j)
        horizon, size = math.log(5) / way_out.rate, way_out.orders.shape[1]
        errors = []
        for delta in deltas:
            start = Density(way_out.at(delta), 2)
            run = flow(start, SelfAttention(beta), horizon, frames=[0.0, horizon],
                       stepper=Adaptive(rtol=1e-13, atol=1e-15))  # fmt: skip
            end = np.array(run.frames[-1].coefficients)
            end[:size] -= way_out.at(delta, horizon)
            errors.append(np.linalg.norm(end))
        curves[f"order {order}"] = (deltas, errors)
        slopes[order] = np.polyfit(np.log(deltas), np.log(errors), 1)[0]
    rows = [
        judge(f"power of δ in the error of order {order}", "Grenier's iterative method",
              order + 1.0, slope, absolute=0.2)
        for order, slope in slopes.items()
    ]  # fmt: skip
    figure = plot_lines(
        curves,
        "size δ of the start",
        "error at the end",
        log="xy",
        lines=True,
        caption=f"Circle, β = {beta:g}, when the mode has grown fivefold.",
    )
    return Finding(rows, {"errors": figure})
