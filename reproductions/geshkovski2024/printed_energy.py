"""The staircase has no height in the printed normalisation of the energy."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Merging, flow
from metastable.measures import uniform
from metastable.observe import energy
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

ENTRY = Entry(
    title="The staircase has no height in the printed normalisation of the energy",
    places=["Section 6, problem on the staircase, with the energy of Section 1"],
    claim=(
        "Along a rescaled clock the energy e^{−β}E_β, whose largest value is given as 1, tends to "
        "a staircase with values in [0, 1] as β grows."
    ),
    method="The last level of runs to one cluster at several β, in both normalisations.",
    known="disagree",
    correction=(
        "The printed energy carries 1/(2β) and is at most 1/(2β): every run tends to 0 in it and "
        "the statement is empty. Multiplied by 2β it has the maximum 1 and the staircase."
    ),
    subject="metastability",
    basis="report",
    limits="Version 1 as transcribed; the authors' code already leaves the factor 1/(2β) out.",
    implies=("energy_staircase",),
    planted="energy * 0.98",
    settings={"tokens": 6, "betas": [10.0, 30.0, 100.0, 300.0]},
    fast={"tokens": 5, "betas": [10.0, 100.0]},
)


def printed_energy(*, tokens: int, betas: list[float]) -> Finding:
    """The energy of the library is (1/2β)Σwwe^{β⟨x,y⟩}; the printed one is e^{−β} times that."""
    printed, scaled = [], []
    for beta in betas:
        run = flow(uniform(tokens, 3, seed=2), SelfAttention(beta), math.inf, stepper=Merging())
        last = run.frames[-1]
        printed.append(float(energy(last, beta)) * math.exp(-beta))
        scaled.append(float(energy(last, beta, scaled=True)))
    slope = float(np.polyfit(np.log(betas), np.log(printed), 1)[0])
    rows = [
        judge(f"last level at β = {betas[-1]:g}, printed normalisation", "Section 6", 1.0,
              printed[-1], absolute=0.01),
        judge("it is 1/(2β)", "derived", 0.5 / betas[-1], printed[-1], relative=1e-9),
        judge("and falls like β^(−1): exponent", "derived", -1.0, slope, absolute=1e-9),
        judge("last level times 2β", "derived", 1.0, scaled[-1], absolute=1e-9),
    ]  # fmt: skip
    figure = plot_lines(
        {"printed": (betas, printed), "times 2β": (betas, scaled)}, "β", "energy of one cluster",
        "The last step of the staircase in both normalisations.", log="xy",
    )  # fmt: skip
    return Finding(rows, {"levels": figure})
