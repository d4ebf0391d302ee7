"""How fast Fourier modes grow."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Adaptive, flow
from metastable.measures import Density
from metastable.observe import power
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.bessel import bessel_ratio
from metastable.theory.spectrum import dominant_mode, growth_rates

ENTRY = Entry(
    title="How fast Fourier modes grow",
    places=["section on the linearised equation: eigenvalues"],
    claim=(
        "On the circle the linearised equation has eigenvalues I_k(β)/β, with modified Bessel "
        "functions of the second kind."
    ),
    method=(
        "The density flow (unnormalised attention, as in the talk) from uniform plus 1e−9 of "
        "one mode at a time; rates over that of the first mode, so that the clock plays no "
        "part."
    ),
    known="disagree",
    correction=(
        "The factor k² of the Laplacian is missing and the functions are those of the first "
        "kind: λ_k = k²I_k(β)/β. Without k² the first mode would always win and no number of "
        "clusters would follow from β."
    ),
    subject="rates",
    basis="text",
    limits="The circle, two β, eight modes, unnormalised attention, perturbations of 10⁻⁹.",
    planted="SelfAttention.beta * 1.01",
    settings={"betas": [5.0, 12.0], "modes": 8},
    fast={"betas": [5.0, 7.0], "modes": 5},
)


def growth_of_modes(*, betas: list[float], modes: int) -> Finding:
    """Rates of Fourier modes around uniform, against the eigenvalue on the blackboard."""
    order = np.arange(1, modes + 1)
    said, right, picked, falls, curves, theory = [], [], [], [], {}, {}
    for beta in betas:
        field = SelfAttention(beta, normalized=False)
        rates = growth_rates(beta, 2, modes, normalized=False)
        span, seen = 2 / rates.max(), []
        for k in order:
            run = flow(Density.mode(2, int(k), 1e-9), field, span, frames=2,
                       stepper=Adaptive(rtol=1e-12, atol=1e-14))  # fmt: skip
            first, last = (float(np.sqrt(power(x, int(k))[k])) for x in run.frames)
            seen.append(math.log(last / first) / span)
        seen = np.array(seen)
        printed = bessel_ratio(0, order, beta)
        # Over the first mode's, where the clock of the board plays no part.
        said.append(np.abs(printed / printed[0] / (seen / seen[0]) - 1).max())
        right.append(np.abs(seen / rates - 1).max())
        picked.append(int(order[seen.argmax()]))
        falls.append(bool((np.diff(seen / order**2) < 0).all()))
        curves[f"density flow, β = {beta:g}"] = (order, seen / seen[0])
        theory[f"k²I_k/I_1, β = {beta:g}"] = (order, rates / rates[0])
    theory[f"I_k/I_1 as said, β = {betas[0]:g}"] = (
        order, bessel_ratio(0, order, betas[0]) / bessel_ratio(0, 1, betas[0])
    )  # fmt: skip
    wanted = [dominant_mode(beta, 2) for beta in betas]
    rows = [
        judge("λ_k/λ_1 = I_k(β)/I_1(β): largest relative error", "eigenvalue on the blackboard",
              0.0, max(said), absolute=0.01),
        judge("λ_k = k²I_k(β)/β (USA clock): largest relative error", "Funk–Hecke; derived", 0.0,
              max(right), absolute=1e-6),
        holds(f"fastest mode at β = {', '.join(f'{b:g}' for b in betas)}; I_k alone gives 1",
              "argmax k²I_k(β)", picked == wanted, wanted, picked),
        holds("λ_k/k² falls with k, as I_k does; Bessel functions of the second kind grow with k",
              "kind of the Bessel functions", all(falls), "falls",
              "falls" if all(falls) else "does not fall"),
    ]  # fmt: skip
    figure = plot_lines(
        curves, Axis("mode k", places=order.tolist()), "rate over that of mode 1",
        "Growth of single modes around uniform.",
        theory=theory, log="y", size=(5.4, 3.6),
    )  # fmt: skip
    return Finding(rows, {"rates": figure})
