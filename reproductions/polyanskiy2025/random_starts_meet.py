"""One cluster on the circle from β = −0.16 on."""

from __future__ import annotations

import numpy as np

from metastable.core.numerics import jax, jnp
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.observe.equilibria import Share
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.ring import ring_rates

ENTRY = Entry(
    title="One cluster on the circle from β = −0.16 on",
    places=["arXiv:2507.22857, abstract"],
    claim="For every β ≥ −0.16 almost every start on the circle ends in one cluster.",
    method=(
        "Random starts in both clocks at several β run until all have met, and the rates of "
        "regular polygons."
    ),
    subject="existence",
    basis="report",
    limits="β up to 1.5: at β = 3 a fifth of the starts had not met by t = 600, as opposite groups "
    "wait e^{2β}; large β is in `large_beta_mergers`. Shares are no proof.",
    implies=("large_beta_mergers",),
    planted="flow.horizon * 0.02",
    settings={
        "tokens": 12,
        "starts": 500,
        "betas": [-0.16, 0.5, 1.0, 1.5],
        "clocks": [False, True],
        "horizon": 600.0,
    },
    fast={"tokens": 6, "starts": 60, "betas": [-0.16], "clocks": [False], "horizon": 200.0},
)


def random_starts_meet(
    *, tokens: int, starts: int, betas: list[float], clocks: list[bool], horizon: float
) -> Finding:
    """All random starts end together, in both clocks."""
    angles = np.random.default_rng(7).uniform(0, 2 * np.pi, (starts, tokens))
    x = np.stack([np.cos(angles), np.sin(angles)], -1)
    rows, curves = [], {}
    for beta in betas:
        for clock in clocks:
            field = SelfAttention(abs(beta), query=-1 if beta < 0 else None, normalized=clock)
            # Near one point unnormalised attention is e^β times as fast.
            end = horizon if clock else horizon * np.exp(-max(beta, 0.0))

            def means(x, field=field, end=end):
                run = flow(Points(x), field, end, frames=41, progress=False)
                return jnp.stack([frame.points.mean(axis=0) for frame in run.frames])

            size = np.linalg.norm(np.asarray(jax.jit(jax.vmap(means))(x)), axis=2)
            name = f"β = {beta:g}, {'SA' if clock else 'USA'}"
            share = Share(int((size[:, -1] > 1 - 1e-6).sum()), starts)
            rows.append(judge(f"share of random starts that meet, {name}", "abstract", 1.0,
                              share.value, absolute=0.0))  # fmt: skip
            apart = (size < 1 - 1e-6).mean(axis=0)
            curves[name] = (np.linspace(0, horizon, 41), apart)
    if betas[0] < 0:
        hold = [ring_rates(betas[0], n, normalized=False).max() for n in range(2, 25)]
        rows.append(holds(f"β = {betas[0]:g}: no regular polygon is stable", "derived",
                          min(hold) > 0, "rates above 0", f"{min(hold):.3g}"))  # fmt: skip
    figure = plot_lines(
        curves, "time t (SA clock; USA: times e^β)", "share of starts not yet together",
        f"{starts} random starts of {tokens} tokens on the circle.", lines=True,
    )  # fmt: skip
    return Finding(rows, {"apart": figure})
