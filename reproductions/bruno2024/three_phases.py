"""Three phases in one run."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Resolution, flow
from metastable.measures import Density, Points
from metastable.observe import amplitudes, kernel_modes, peaks, phases
from metastable.report.figures.density import plot_amplitudes, plot_density
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.spectrum import dominant_mode, max_rate

ENTRY = Entry(
    title="Three phases in one run",
    places=["summary: linear, quasi-linear and collapsing phase"],
    claim=(
        "From a uniform start the system passes a linear phase, in which the dominant mode "
        "grows, a quasi-linear phase with finite deviations, and a collapsing phase into "
        "clusters."
    ),
    method="One density run with hand-over to tokens when harmonics no longer resolve it.",
    subject="metastability",
    basis="text",
    limits=(
        "One start on the circle at β = 7 with one mode of amplitude 10⁻³; mixed starts are "
        "another entry."
    ),
    planted="SelfAttention.beta * 1.1",
    settings={"beta": 7.0, "amplitude": 0.001, "tokens": 4000, "horizon": 25.0},
    fast={"tokens": 500, "horizon": 18.0},
)


def three_phases(*, beta: float, amplitude: float, tokens: int, horizon: float) -> Finding:
    """Linear, quasi-linear, collapsing: one run, as a density first and as tokens after it."""
    mode, rate = dominant_mode(beta, 2), max_rate(beta, 2)
    start = Density.mode(2, mode, amplitude)
    stepper = Resolution(handover=tokens)
    run = flow(start, SelfAttention(beta), horizon, stepper=stepper, frames=121)
    table = np.array([amplitudes(frame, 2 * mode) for frame in run.frames])
    found = phases(run.times, table, rate=rate)
    last = run.frames[-1]
    count = len(kernel_modes(last, beta).masses) if isinstance(last, Points) else peaks(last, beta)
    linear = (table[:, mode - 1] < 0.02) & (run.times > 0)
    slope = np.polyfit(run.times[linear], np.log(table[linear, mode - 1]), 1)[0]
    seen = [found.linear, found.quasilinear, found.collapsing]
    rows = [
        holds("a linear, a quasi-linear and a collapsing phase follow each other", "summary",
              all(seen), "three phases", f"{sum(map(bool, seen))} phases"),
        judge("growth rate of the dominant mode in the first", "linear phase", rate, slope,
              relative=1e-3),
        holds("one cluster for each wave of that mode when tokens collapse", "number of clusters",
              count == mode, mode, count),
        holds("the density is handed to tokens when it can no longer be resolved", "one call",
              isinstance(last, Points), "tokens", type(last).__name__),
    ]  # fmt: skip
    return Finding(rows, {"density": plot_density(run), "modes": plot_amplitudes(run)})
