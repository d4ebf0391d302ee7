"""At large β a density may keep two clusters for ever."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.observe.equilibria import equilibrium
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions.chen2025._axial import mirrored

ENTRY = Entry(
    title="At large β a density may keep two clusters for ever",
    places=["arXiv:2504.14697, the case of large β as reports state it"],
    claim=(
        "At large β a smooth density whose mean is not zero may tend to several point masses "
        "instead of one."
    ),
    method=(
        "Symmetric densities with a heavy and a light side: the light side holds together iff "
        "β > ½ log(α/a), α and a the masses; rates by the Jacobian; runs on both sides of it."
    ),
    subject="clusters",
    basis="report",
    limits=(
        "The example rests on a mirror symmetry that no finite random start has, and is ours; "
        "whether the paper's needs one we could not see."
    ),
    planted="SelfAttention.beta * 1.2",
    settings={"light": 0.25, "betas": [0.3, 0.8, 2.0], "nodes": 60, "horizon": 60.0},
    fast={"betas": [0.3, 2.0], "nodes": 30},
)


def clusters_in_the_limit(
    *, light: float, betas: list[float], nodes: int, horizon: float
) -> Finding:
    """The light side stays beyond the edge, and dissolves below it."""
    heavy = 1 - light
    edge = 0.5 * np.log(heavy / light)
    opposite = Points(np.array([[1.0, 0], [1, 0], [-1, 0], [-1, 0]]), [heavy, heavy, light, light])

    def modes(beta: float) -> np.ndarray:
        return np.real(equilibrium(opposite, SelfAttention(beta, normalized=False)).modes)

    # Modes: the angle between the sides, then light and heavy side for themselves.
    seen: Any = brentq(lambda b: np.sort(modes(b))[1] if b > 0.1 else 1.0, 0.2, 1.5, xtol=1e-9)
    rows = [judge("β at which the light side begins to hold together", "derived", edge, seen,
                  absolute=1e-6)]  # fmt: skip
    beta = max(betas)
    up, down = np.exp(beta), np.exp(-beta)
    law = [down, heavy * down - light * up, light * down - heavy * up]
    worst = np.abs(np.sort(modes(beta)) - np.sort(law)).max()
    rows.append(judge(f"β = {beta:g}: the three rates, largest error", "derived", 0.0, worst,
                      absolute=1e-9))  # fmt: skip
    angles = (np.arange(nodes) + 0.5) * np.pi / nodes
    bumps = heavy * np.exp(8 * (np.cos(angles) - 1)) + light * np.exp(-8 * (np.cos(angles) + 1))
    stays, curves = {}, {}
    for beta in betas:
        field = SelfAttention(beta, normalized=False)
        run = flow(mirrored(np.log(np.tan(angles / 2)), bumps), field, horizon, frames=61)
        behind = [float(np.asarray(f.weights) @ (np.asarray(f.points)[:, 0] < -0.999))
                  for f in run.frames]  # fmt: skip
        stays[beta] = behind[-1]
        curves[f"β = {beta:g}"] = (run.times, np.array(behind))
        if beta > edge:
            rows.append(holds(f"β = {beta:g}: the light side is still there", "derived",
                              behind[-1] > 0.9 * light, f"mass {light:g} or so",
                              f"{behind[-1]:.3g}"))  # fmt: skip
        else:
            rows.append(judge(f"β = {beta:g}: mass left opposite", "derived", 0.0, behind[-1],
                              absolute=0.01))  # fmt: skip
    claim = holds(
        "a smooth density with a mean keeps two clusters",
        "reports",
        stays[max(betas)] > 0.01,
        "two",
        f"mass {stays[max(betas)]:.3g} opposite",
    )
    figure = plot_lines(
        curves, "time t (USA clock)", "mass near the point opposite",
        f"A density with {light:g} of its mass on the far side; edge at β = {edge:.3g}.",
        lines=True,
    )  # fmt: skip
    return Finding([claim, *rows], {"mass": figure})
