"""The least free energy has a kink where the transition jumps, and none where it does not."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.branches import transition
from metastable.theory.interaction import attention_interaction
from metastable.theory.stationary import stationary_density

ENTRY = Entry(
    title="The least free energy has a kink where the transition jumps",
    places=["arXiv:2510.20094, abstract: points of non-differentiability"],
    claim=(
        "As a function of the noise τ = 1/κ the least free energy is concave, with slope ∫f log f "
        "of its minimiser; it has a kink exactly where the transition is discontinuous, and two "
        "minimisers there."
    ),
    method=(
        "Least free energy from stationary densities; difference quotients on both sides of κ_c "
        "against the entropy of the ordered state by quadrature, above and below β_*."
    ),
    subject="noise",
    basis="report",
    limits="The circle, zonal densities; minima among the uniform and one ordered state.",
    planted="stationary_density.kappa * 1.01",
    settings={"beta": 5.0, "smooth": 2.0, "points": 41},
    fast={"points": 15},
)


def kink_of_the_minimum(*, beta: float, smooth: float, points: int) -> Finding:
    """Slopes of the least free energy in 1/κ on both sides of the transition."""
    law = transition(beta, 2, normalized=False)
    tau, h = 1 / law.kappa_equal, 1e-4 / law.kappa_equal
    ordered = lambda x: _least(beta, 1 / x)[0]
    entropy = _least(beta, law.kappa_equal)[1]
    left = (ordered(tau - h) - ordered(tau - 3 * h)) / (2 * h)
    rows = [
        # Central difference over 2e−4: error of order 1e−4 times second derivatives near one.
        judge("slope just below τ_c: the entropy of the ordered state", "slope", entropy, left,
              relative=5e-3),
        judge("slope just above τ_c: uniform, no entropy", "slope", 0.0,
              (min(0.0, ordered(tau + 3 * h)) - min(0.0, ordered(tau + h))) / (2 * h),
              absolute=1e-9),
    ]  # fmt: skip
    taus = np.linspace(0.9, 1.05, points) * tau
    curve = np.array([min(0.0, ordered(x)) for x in taus])
    bent = np.diff(curve, 2).max()
    rows.append(holds("the least free energy is concave in τ", "concavity", bent < 1e-9,
                      "no second difference > 0", bent))  # fmt: skip
    other = transition(smooth, 2, normalized=False)
    tau2 = 1 / other.kappa_equal
    taus2 = np.linspace(0.9, 0.999, points) * tau2
    pairs = [_least(smooth, 1 / x) for x in taus2]
    # Below β_* the slope goes to zero in proportion to τ_c − τ.
    share = pairs[-1][1] / (1 - 0.999)
    rows.append(holds(f"β = {smooth:g}: the slope goes to 0 at τ_c, no kink", "continuous",
                      pairs[-1][1] < 0.01 * entropy, "< 1 % of the kink's",
                      pairs[-1][1]))  # fmt: skip
    series = [
        Series(f"β = {beta:g}", taus / tau, curve * beta / np.sinh(beta), style="both"),
        Series(f"β = {smooth:g}", taus2 / tau2, [p[0] * smooth / np.sinh(smooth) for p in pairs],
               style="both"),
    ]  # fmt: skip
    axes = Axis("τ/τ_c"), Axis("least free energy · β/sinh β")
    notes = [f"β = {smooth:g}: entropy over 1 − τ/τ_c is {share:.3g} at 0.999 τ_c."]
    figure = Lines(*axes, series, caption="A kink at β = 5, none at β = 2; uniform is zero.")
    return Finding(rows, {"kink": figure}, notes)


def _least(beta: float, kappa: float) -> tuple[float, float]:
    """Free energy of the ordered state less uniform's, and ∫f log f by the trapezoid rule."""
    state = stationary_density(attention_interaction(beta, 2, normalized=False), kappa=kappa,
                               concentration=20.0)  # fmt: skip
    f = state.density(np.cos(2 * np.pi * np.arange(512) / 512))
    return state.free_energy, float(np.mean(f * np.log(f)))
