"""States with several clusters are unstable but live long at large β."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import Noise, SelfAttention
from metastable.flows import flow
from metastable.measures import Density
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._circle import rates, solve, weights

ENTRY = Entry(
    title="States with several clusters are unstable but live long at large β",
    places=["arXiv:2510.20094, abstract: multi-mode states as metastable states"],
    claim=(
        "The k-periodic stationary states of unnormalised attention with noise lose to fewer "
        "clusters, but as β grows their rate of escape becomes small beside the rate at which "
        "they form."
    ),
    method=(
        "Two-cluster states as roots of the quadratic system, eigenvalues of the linearised "
        "equation by a dense matrix; a run of the density equation that starts beside one."
    ),
    subject="metastability",
    basis="report",
    limits=(
        "k = 2, strong order (κ a fixed multiple of κ_2); exact states stand for the paper's "
        "approximate ones, whose form we did not see."
    ),
    planted="Noise.kappa * 1.05",
    implies=("quadratic_system",),
    settings={"betas": [2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0], "over": 3.0, "run": 2.0},
    fast={"betas": [2.0, 4.0, 8.0]},
)


def multi_mode_states(*, betas: list[float], over: float, run: float) -> Finding:
    """Escape rates of two-cluster states against the rates at which they relax."""
    escape, form = [], []
    for beta in betas:
        a, w, kappa = _two_clusters(beta, over)
        found = rates(a, w, kappa)
        escape.append(found[0])
        form.append(_within(a, w, kappa))
    share = np.array(escape) / np.array(form)
    rows = [
        holds("two clusters are unstable at every β", "unstable", min(escape) > 0,
              "largest rate > 0", f"{min(escape):.3g}"),
        holds("escape over relaxation falls with β", "metastable", (np.diff(share) < 0).all(),
              "falls", np.round(share, 5)),
        holds("it is below 1/10 at the largest β", "metastable", share[-1] < 0.1, "< 0.1",
              f"{share[-1]:.3g}"),
    ]  # fmt: skip
    a, w, kappa = _two_clusters(run, over)
    growth = rates(a, w, kappa)[0]
    field = SelfAttention(run, normalized=False) + Noise(kappa)
    start = a.astype(complex)
    start[1] += 1e-3j  # both clusters lean to the same side
    moved = flow(Density(start[:25], 2), field, 3.2 / growth, frames=65)
    odd = np.array([abs(complex(frame.coefficients[1])) for frame in moved.frames])
    part = (odd > 4e-3) & (odd < 2e-2)
    seen = np.polyfit(moved.times[part], np.log(odd[part]), 1)[0]
    # Up to a_1 = 0.02 the next order is 4e−4; other modes of this symmetry decay meanwhile.
    rows.append(judge(f"β = {run:g}: growth of a_1 in the run", "escape rate", growth, seen,
                      relative=0.01))  # fmt: skip
    pair = [
        Series("escape", betas, escape, style="both"),
        Series("relaxation of the state", betas, form, style="both"),
    ]
    figure = Lines(Axis("β"), Axis("rate (USA clock)", scale="log"), pair,
                   caption=f"Two-cluster states at κ = {over:g} κ_2.")  # fmt: skip
    curve = Lines(Axis("time t", clock="USA"), Axis("|a_1|", scale="log"),
                  [Series("run", moved.times, odd, style="points"),
                   Series("e^{λt}", moved.times, odd[0] * np.exp(growth * moved.times),
                          role="theory")],
                  caption=f"β = {run:g}: leaving two clusters.")  # fmt: skip
    return Finding(rows, {"rates": figure, "leaving": curve})


def _two_clusters(beta: float, over: float) -> tuple[np.ndarray, np.ndarray, float]:
    w = weights(beta, 64)
    kappa = over / w[2]
    guess = np.zeros(65)
    guess[::2] = np.exp(-0.02 * np.arange(0, 65, 2) ** 2)
    return solve(guess, w, kappa), w, kappa


def _within(a: np.ndarray, w: np.ndarray, kappa: float) -> float:
    """The slowest decay inside the class of two-periodic densities, the rotation left out."""
    # With θ' = 2θ modes 2k become k, and the equation keeps its form with w_{2k} and 4 times rates.
    found = 4 * rates(a[::2], w[::2], kappa)
    return float(-np.sort(found[np.abs(found) > 1e-6 * np.abs(found).max()])[::-1][0])
