"""The circle at β = 4 and β = 9."""

from __future__ import annotations

import numpy as np

from metastable.core.numerics import jnp
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.flows.ensemble import Angles
from metastable.measures import uniform
from metastable.report.figures.plain import plot_lines
from metastable.report.figures.run import plot_angles
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._pairs import share_together

ENTRY = Entry(
    title="The circle at β = 4 and β = 9",
    places=["Figure 17"],
    claim=(
        "On the circle tokens collect in a few clusters that stay for long, and more of them "
        "at β = 9 than at β = 4."
    ),
    method=(
        "Many starts at both β; the share of pairs of tokens that are together over time, and "
        "the angles of one start."
    ),
    subject="metastability",
    basis="text",
    limits=(
        "Two values of β, 32 tokens on the circle, up to t = 60; “stay for long” is tested on "
        "that stretch alone."
    ),
    planted="share_together.horizon * 0.1",
    settings={"tokens": 32, "betas": [4.0, 9.0], "starts": 1024, "horizon": 60.0},
    fast={"starts": 128, "tokens": 16},
)


def circle_diagrams(*, tokens: int, betas: list[float], starts: int, horizon: float) -> Finding:
    """Tokens on the circle at two β: a few clusters that stay, more of them at the larger β."""
    figures, curves, gains = {}, {}, []
    times = np.linspace(0, horizon, 61)
    for beta in betas:
        together = share_together(Angles(jnp.asarray(beta)), starts, tokens, 2, horizon, 61)
        curves[f"β = {beta:g}"] = (times, together)
        gains.append(float(together[-1] - np.interp(horizon / 3, times, together)))
        run = flow(uniform(tokens, 2, seed=4), SelfAttention(beta), horizon, frames=121)
        figures[f"beta{beta:g}"] = plot_angles(run)
    low, high = (float(curve[1][-1]) for curve in curves.values())
    rows = [
        holds(
            f"share of pairs together at t = {horizon:g}", "Figure 17", low > high + 0.1,
            f"more at β = {betas[0]:g} than at {betas[-1]:g}", f"{low:.2f} and {high:.2f}",
        ),
        holds(
            "change of that share over the last two thirds", "Figure 17", max(gains) < 0.1,
            "below 0.1: the clusters stay", " and ".join(f"{gain:.2f}" for gain in gains),
        ),
    ]  # fmt: skip
    figures["together"] = plot_lines(
        curves, "time t (SA clock)", "share of pairs together", lines=True,
        caption=f"{starts} starts of {tokens} tokens on the circle.",
    )  # fmt: skip
    return Finding(rows, figures)
