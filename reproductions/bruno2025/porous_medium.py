"""Without the softmax a density follows a porous-medium equation."""

from __future__ import annotations

import numpy as np
from scipy.special import ive

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Density
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions.bruno2025._heat import heat, porous, start

ENTRY = Entry(
    title="Without the softmax a density follows a porous-medium equation",
    places=["Section 3: the heat phase, unnormalised attention"],
    claim=(
        "At large β unnormalised attention with V = −I moves a smooth density by "
        "∂_tμ = (c_0/2β)Δ(μ²): diffusion in proportion to the density, not the heat equation."
    ),
    method=(
        "A density on the circle with two large harmonics against the porous-medium equation "
        "solved on a grid; the order in 1/β of the difference; the heat equation must not fit."
    ),
    subject="long context",
    basis="report",
    limits=(
        "Circle only, densities bounded away from zero: no free boundary. The constant c_0/2β is "
        "that of densities relative to the uniform measure."
    ),
    planted="SelfAttention.normalized = True",
    settings={"betas": [50.0, 100.0, 200.0], "amplitudes": [0.2, 0.15], "span": 0.3},
    fast={"betas": [50.0, 200.0]},
)


def porous_medium(*, betas: list[float], amplitudes: list[float], span: float) -> Finding:
    """The time s is c_0 t/β, c_0 = I_0(β): SA and USA clocks differ by c_0."""
    begin = start(2, amplitudes)
    law = porous(begin, span)
    off = []
    for beta in betas:
        field = SelfAttention(beta, value=-1.0, normalized=False)
        # c_0 = I_0(β) = e^β ive(0, β).
        run = flow(begin, field, span * beta * np.exp(-beta) / ive(0, beta), frames=2)
        end = np.asarray(run.frames[-1].resized(6).coefficients)
        off.append(float(np.abs(end - law[:7]).max()))
    order = -float(np.polyfit(np.log(betas), np.log(off), 1)[0])
    plain = np.zeros(7, complex)
    plain[: begin.degree + 1] = heat(begin, span)
    far = float(np.abs(plain - law[:7]).max())
    rows = [
        judge("order in 1/β of the difference from the porous-medium equation", "Section 3", 1.0,
              order, absolute=0.2),
        holds(f"the difference at β = {betas[-1]:g}", "Section 3", off[-1] < 3 / betas[-1],
              "below 3/β", f"{off[-1]:.3g}"),
        holds("the heat equation is another one here", "derived", far > 10 * off[-1],
              f"above {10 * off[-1]:.3g}", f"{far:.3g}"),
    ]  # fmt: skip
    theta = np.linspace(0, 2 * np.pi, 181)
    circle = np.stack([np.cos(theta), np.sin(theta)], axis=1)
    at = lambda modes: np.asarray(Density(modes, 2).at(circle))
    figure = plot_lines(
        {f"USA, β = {betas[-1]:g}": (theta, at(end))}, "angle θ", "density over uniform",
        f"At c_0 t/β = {span:g} (USA clock), from the dotted start.", lines=True,
        theory={"porous medium": (theta, at(law[:40])), "heat": (theta, at(plain)),
                "start": (theta, at(np.asarray(begin.coefficients)))},
    )  # fmt: skip
    return Finding(rows, {"density": figure})
