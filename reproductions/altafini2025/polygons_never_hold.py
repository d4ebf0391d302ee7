"""Polygons rest in a double eigenspace, and do not hold."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.measures import polygon
from metastable.observe.equilibria import equilibrium
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.ring import ring_rates

ENTRY = Entry(
    title="Polygons rest in a double eigenspace, and do not hold",
    places=["arXiv:2511.11553, abstract: the fourth class"],
    claim=(
        "Of the four classes of resting states polygons alone are not among the stable ones: for a "
        "positive V they always fall apart."
    ),
    method=(
        "Regular polygons in the plane of a double eigenvalue v, third eigenvalue w: all rates by "
        "the Jacobian against v times those of V = I, and w â_p − v â_1 out of the plane; speed "
        "when the two eigenvalues differ; with v < 0, or eigenvalues of both signs, some hold."
    ),
    subject="clusters",
    basis="derived",
    limits="Q = K = I and regular polygons; the paper's class may hold other states.",
    planted="SelfAttention.beta * 1.15",
    settings={"sizes": [3, 4, 5, 8], "double": 1.0, "third": 0.5, "beta": 2.0},
    fast={"sizes": [3]},
)


def polygons_never_hold(*, sizes: list[int], double: float, third: float, beta: float) -> Finding:
    """Rates of polygons in and out of their plane."""
    value = np.diag([double, double, third])
    rows, slowest = [], []
    for tokens in sizes:
        found = equilibrium(polygon(tokens, 3), SelfAttention(beta, value=value))
        angles = 2 * np.pi * np.arange(tokens) / tokens
        share = np.exp(beta * (np.cos(angles) - 1))
        waves = np.cos(np.outer(np.arange(tokens), angles)) @ share / share.sum()
        law = np.append(double * ring_rates(beta, tokens), third * waves - double * waves[1])
        seen = np.sort(np.real(found.modes))
        rows.append(judge(f"{tokens} tokens: all rates, largest error", "derived", 0.0,
                          np.abs(seen - np.sort(law)).max(), absolute=1e-9))  # fmt: skip
        rows.append(holds(f"{tokens} tokens: named a polygon", "classes", found.kind == "polygonal",
                          "polygonal", found.kind))  # fmt: skip
        slowest.append(found.rate)
    claim = holds("no polygon is stable for a positive V", "abstract", min(slowest) > 0,
                  "rates above 0", f"{min(slowest):.3g} at least")  # fmt: skip
    tokens = sizes[0]
    field = SelfAttention(beta, value=np.diag([double, 0.8 * double]))
    speed = np.abs(np.asarray(field.velocity(polygon(tokens)))).max()
    rows.append(holds("with two different eigenvalues it does not rest", "derived", speed > 1e-3,
                      "moves", f"speed {speed:.3g}"))  # fmt: skip
    repelled = equilibrium(polygon(tokens), SelfAttention(beta, value=-double)).rate
    rows.append(judge("v < 0, in the plane: slowest rate", "derived",
                      -double * float(ring_rates(beta, tokens).min()), repelled,
                      relative=1e-8))  # fmt: skip
    mixed = np.diag([2.0, -3.0])
    square = equilibrium(polygon(4), SelfAttention(1.5, query=mixed, value=mixed))
    rows.append(holds("eigenvalues 2 and −3, QᵀK = V: a square on the axes is stable", "derived",
                      square.stability == "stable" and square.turning < 1e-9, "stable",
                      f"{square.stability}, rate {square.rate:.3g}"))  # fmt: skip
    wide = np.linspace(0.01, 6, 120)
    figure = plot_lines(
        {f"{n} tokens": (wide, [ring_rates(b, n).max() for b in wide]) for n in (3, 4, 5, 6)},
        "β", "largest growth rate in the plane over v (SA clock)",
        "Regular polygons in a double eigenspace: slow at large β, never stable.",
        lines=True, log="y",
    )  # fmt: skip
    return Finding([claim, *rows], {"rates": figure})
