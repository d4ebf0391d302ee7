"""Other potentials."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.numerics import jnp
from metastable.core.verdict import judge
from metastable.fields import Potential
from metastable.flows import Adaptive, flow
from metastable.measures import Density
from metastable.observe import power
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.spectrum import potential_rates

ENTRY = Entry(
    title="Other potentials",
    places=["summary: broader class of interaction potentials"],
    claim="The growth of modes extends to other interaction potentials.",
    method=(
        "Three potentials of the inner product, one harmonic at a time, against their "
        "Gegenbauer coefficients."
    ),
    subject="rates",
    basis="text",
    limits=(
        "Three potentials of the inner product, five modes, d = 2, 3 and 8; none that depends "
        "on more than the inner product."
    ),
    planted="flow.horizon * 1.1",
    settings={"modes": 5, "dims": [2, 3, 8]},
    fast={"modes": 3, "dims": [2]},
)

TIGHT = Adaptive(rtol=1e-12, atol=1e-14)


def other_potentials(*, modes: int, dims: list[int]) -> Finding:
    """For any potential of the inner product a mode grows at L times its coefficient."""
    potentials = {
        "s²/2": (lambda s: s**2 / 2, lambda s: s**2 / 2),
        "cosh 3s": (lambda s: jnp.cosh(3 * s), lambda s: np.cosh(3 * s)),
        "1/(1.5 − s)": (lambda s: 1 / (1.5 - s), lambda s: 1 / (1.5 - s)),
    }
    worst, figures, order = 0.0, {}, np.arange(1, modes + 1)
    for dim in dims:
        measured, expected = {}, {}
        for name, (potential, same) in potentials.items():
            rates = potential_rates(same, dim, modes)
            span, seen = 1.0 / np.abs(rates).max(), []
            for k in order:
                start = Density.mode(dim, int(k), 1e-9, zonal=True if dim > 3 else None)
                run = flow(start, Potential(potential), span, frames=2, stepper=TIGHT)
                a, b = (float(np.sqrt(power(frame, int(k))[k])) for frame in run.frames)
                seen.append(math.log(b / a) / span)
            scale = np.abs(rates).max()
            worst = max(worst, np.abs(np.array(seen) - rates).max() / scale)
            measured[name] = (order, np.array(seen) / scale)
            expected[f"theory, {name}"] = (order, rates / scale)
        figures[f"d{dim}"] = plot_lines(
            measured, "degree ℓ", "growth rate / largest", f"Three potentials, d = {dim}.",
            theory=expected,
        )  # fmt: skip
    rows = [
        judge("largest error of a rate, relative to the largest", "broader class of potentials",
              0.0, worst, absolute=1e-6)
    ]  # fmt: skip
    return Finding(rows, figures)
