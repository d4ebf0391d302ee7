"""Stable clusters that lie on no eigenvector."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from metastable.core.numerics import jax
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.observe.equilibria import Share, equilibrium
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Stable clusters that lie on no eigenvector",
    places=["arXiv:2511.11553, abstract: the third class"],
    claim=(
        "Clustering states, whose groups need not lie on eigenvectors of V, can be stable too, "
        "beside consensus or opposite groups."
    ),
    method=(
        "V = QᵀK = diag(a, b), a > 0 > b: one group on the first axis, two at q on either side, q "
        "the root of one equation; rest and stability by the Jacobian; random starts that end "
        "there."
    ),
    subject="clusters",
    basis="report",
    limits=(
        "One symmetric family in the plane, with an indefinite V. The equation of q is quoted by a "
        "public note on symmetric heads and was derived again here."
    ),
    planted="SelfAttention.beta * 1.1",
    settings={"values": [2.0, -3.0], "beta": 1.5, "groups": [1, 1], "starts": 2000},
    fast={"starts": 200},
)


def clusters_off_axes(
    *, values: list[float], beta: float, groups: list[int], starts: int
) -> Finding:
    """The mixed state rests, is stable, and is reached."""
    a, b = values
    alone, side = groups

    def balance(q: float) -> float:
        pull = (a - b) * np.exp(beta * (b + (a - b) * q * q))
        pull += (a + b) * np.exp(beta * (-b + (a + b) * q * q))
        return q * pull + a * alone / side * np.exp(beta * a * q)

    # The root with both sides nearest to the second axis.
    q: Any = brentq(balance, 1e-6, 0.5)
    height = np.sqrt(1 - q * q)
    x = np.array([[1.0, 0.0]] * alone + [[q, height]] * side + [[q, -height]] * side)
    value = np.diag(values)
    field = SelfAttention(beta, query=value, value=value)
    state = equilibrium(Points(x), field)
    polished = float(np.asarray(state.measure.points)[-1, 0])

    def end(x):
        run = flow(Points(x), field, 200.0, frames=2, progress=False)
        return run.frames[-1].points

    raw = np.random.default_rng(11).standard_normal((starts, len(x), 2))
    ends = np.asarray(jax.jit(jax.vmap(end))(raw / np.linalg.norm(raw, axis=2, keepdims=True)))
    cosines = np.sort(np.abs(ends[:, :, 0]), axis=1)
    there = np.abs(cosines - np.sort(np.abs(x[:, 0]))).max(axis=1) < 1e-6
    on_axes = ((cosines > 1 - 1e-6) | (cosines < 1e-6)).all(axis=1)
    share, lined = Share(int(there.sum()), starts), Share(int(on_axes.sum()), starts)
    rows = [
        holds("some random starts end there, others on eigenvectors", "abstract",
              share.hits > 0 and lined.hits > 0, "both", f"{share!r}; on eigenvectors {lined!r}"),
        judge("place of the side groups", "equation for q", q, polished, absolute=1e-9),
        holds("it is stable", "abstract", state.stability == "stable", "stable",
              f"{state.stability}, rate {state.rate:.3g}"),
    ]  # fmt: skip
    wide = np.linspace(-0.1, 0.1, 200)
    figure = plot_lines(
        {"force on a side group": (wide, np.array([balance(y) for y in wide]))},
        "first coordinate q of the side groups", "balance along the circle",
        f"V = diag({a:g}, {b:g}), β = {beta:g}: zero at q = {q:.3f}.", lines=True,
        levels={"rest": 0.0},
    )  # fmt: skip
    return Finding(rows, {"balance": figure})
