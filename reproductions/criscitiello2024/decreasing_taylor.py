"""Decreasing Taylor coefficients are enough on the circle."""

from __future__ import annotations

import numpy as np

from metastable.core.numerics import jax
from metastable.core.verdict import judge
from metastable.fields import Potential, SelfAttention
from metastable.flows import flow
from metastable.measures import Points, polygon
from metastable.observe.equilibria import equilibrium
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.ring import ring_rates
from reproductions.criscitiello2024._potentials import geometric, polygon_rates, starts_on_sphere

ENTRY = Entry(
    title="Decreasing Taylor coefficients are enough on the circle",
    places=["arXiv:2405.18273, abstract"],
    claim=(
        "If the Taylor coefficients of φ′ decrease, almost every start on the circle ends in one "
        "cluster; so for φ = e^{βt} with 0 < β ≤ 1."
    ),
    method=(
        "Random starts for φ′ = 1/(1 − rt) and for unnormalised attention at β ≤ 1; rates of "
        "polygons from the Jacobian against sums over vertices: all unstable, and for the "
        "exponential unstable far beyond β = 1 too."
    ),
    subject="existence",
    basis="report",
    limits="Random starts and regular polygons only: other critical points are not searched.",
    planted="flow.horizon * 0.15",
    settings={"tokens": 16, "starts": 200, "ratio": 0.9, "betas": [0.25, 0.5, 1.0], "most": 24},
    fast={"tokens": 8, "starts": 40, "betas": [1.0], "most": 12},
)


def decreasing_taylor(
    *, tokens: int, starts: int, ratio: float, betas: list[float], most: int
) -> Finding:
    """All starts end in one cluster, and no regular polygon is stable."""
    slopes = geometric(ratio)
    fields = {"φ′ = 1/(1 − rt)": Potential(slopes[0])}
    fields |= {f"exp(βt), β = {b:g}": SelfAttention(b, normalized=False) for b in betas}
    together = {}
    for name, field in fields.items():

        def end(x, field=field):
            run = flow(Points(x), field, 100.0, frames=2, progress=False)
            return run.frames[-1].points

        ends = np.asarray(jax.jit(jax.vmap(end))(starts_on_sphere(starts, tokens, 2)))
        together[name] = float((np.linalg.norm(ends.mean(axis=1), axis=1) > 1 - 1e-6).mean())
    rows = [
        judge(f"share of {starts} starts that end together, {name}", "abstract", 1.0, share,
              absolute=0.0)
        for name, share in together.items()
    ]  # fmt: skip
    sizes = np.arange(2, most + 1)
    rates = np.array([polygon_rates(slopes, int(n)).max() for n in sizes])
    found = equilibrium(polygon(5), fields["φ′ = 1/(1 − rt)"]).rate
    exponential = {b: np.array([ring_rates(b, int(n), normalized=False).max() for n in sizes])
                   for b in [*betas, 4.0]}  # fmt: skip
    rows += [
        judge("growth rate of the pentagon, φ′ = 1/(1 − rt)", "derived", rates[3], found,
              relative=1e-8),
        holds(f"no polygon of up to {most} tokens is stable", "derived", rates.min() > 0, "above 0",
              f"{rates.min():.3g}"),
        holds("nor for the exponential, at β = 4 too", "derived",
              min(r.min() for r in exponential.values()) > 0, "above 0",
              f"{min(r.min() for r in exponential.values()):.3g}"),
    ]  # fmt: skip
    figure = plot_lines(
        {"φ′ = 1/(1 − rt)": (sizes, rates)}
        | {f"exp(βt)/β, β = {b:g}": (sizes, r) for b, r in exponential.items()},
        "vertices of the polygon", "largest growth rate (USA clock)",
        f"Regular polygons are unstable; r = {ratio:g}.", log="y", lines=True,
    )  # fmt: skip
    return Finding(rows, {"rates": figure})
