"""Onsager's rods: coexistence at the classical concentrations."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import fsolve
from scipy.special import eval_legendre

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.interaction import Interaction
from metastable.theory.stationary import Stationary, stationary_density

ENTRY = Entry(
    title="Onsager's rods: coexistence at the classical concentrations",
    places=["arXiv:2412.14813: Onsager model of liquid crystals"],
    claim=(
        "For W = −√(1 − ⟨x,y⟩²) on S² the uniform state loses stability at κ_2 = 32/π and the "
        "transition is discontinuous: an axial state has the lower free energy before that."
    ),
    method=(
        "Stationary densities of the library with exact Legendre coefficients; concentrations of "
        "coexisting phases (κ = 8c/π, equal pressure and chemical potential) against the values "
        "in the literature on liquid crystals, 3.290 and 4.191, and the order 0.7922."
    ),
    subject="noise",
    basis="report",
    limits=(
        "Axial densities. The literature's values, quoted to four digits, stand for the paper's, "
        "which has none that we saw."
    ),
    planted="stationary_density.kappa * 1.03",
    settings={"degree": 40, "points": 25},
    fast={"degree": 30, "points": 8},
)


def onsager_transition(*, degree: int, points: int) -> Finding:
    """The isotropic and nematic branches of Onsager's functional."""
    rods = Interaction(3, _weights(degree))
    guess = np.array([3.3, 4.2])

    def unequal(concentrations: np.ndarray) -> list[float]:
        isotropic, nematic = concentrations
        entropy, rho, _ = _phase(rods, nematic)
        return [
            isotropic + isotropic**2 - nematic - nematic**2 * rho,
            np.log(isotropic) + 2 * isotropic - np.log(nematic) - entropy - 2 * nematic * rho,
        ]

    found: Any = fsolve(unequal, guess, xtol=1e-10)
    isotropic, nematic = found
    order = _phase(rods, nematic)[2]
    rows = [
        judge("κ_2", "derived", 32 / np.pi, 1 / float(rods.weights[2]), relative=1e-9),
        # The literature gives four digits.
        judge("concentration of the isotropic phase", "literature", 3.290, isotropic,
              absolute=2e-3),
        judge("concentration of the nematic phase", "literature", 4.191, nematic, absolute=2e-3),
        judge("order of the nematic phase", "literature", 0.7922, order, absolute=1e-3),
    ]  # fmt: skip
    before = stationary_density(rods, kappa=0.95 * 32 / np.pi)
    rows.append(holds("an axial state is lower at 0.95 κ_2", "discontinuous",
                      before.free_energy < 0, "F < 0", f"{before.free_energy:.4f}"))  # fmt: skip
    c = np.linspace(3.4, 5.0, points)
    series = [
        Series("order S at rest", c, [_phase(rods, x)[2] for x in c], style="both"),
        Series("coexistence", [nematic, nematic], [0.0, order], role="theory"),
        Series("isotropic unstable", [4.0, 4.0], [0.0, 1.0], role="theory", dash="dotted"),
    ]
    figure = Lines(Axis("concentration c = πκ/8"), Axis("order S = ⟨P_2⟩"), series,
                   caption="Onsager's rods: the nematic branch.")  # fmt: skip
    return Finding(rows, {"order": figure})


def _weights(degree: int) -> np.ndarray:
    """−½∫√(1−s²)P_ℓ ds by the Gauss rule of second kind, which is exact here; odd ones vanish."""
    turn = np.pi * np.arange(1, degree + 3) / (degree + 3)
    s, w = np.cos(turn), np.pi / (degree + 3) * np.sin(turn) ** 2
    weights = np.array([-0.5 * (w @ eval_legendre(ell, s)) for ell in range(degree + 1)])
    weights[0] = weights[1::2] = 0.0
    return weights


def _phase(rods: Interaction, concentration: float) -> tuple[float, float, float]:
    """∫f log f, (4/π)∬|sin| df df and ⟨P_2⟩ of the axial state."""
    state: Stationary = stationary_density(rods, kappa=8 * concentration / np.pi)
    s, w = np.polynomial.legendre.leggauss(200)
    f = state.density(s)
    pairs = np.pi / 4 - rods.weights @ state.coefficients**2
    entropy = float(w @ (f * np.log(f))) / 2
    return entropy, float(4 / np.pi * pairs), float(w @ (f * eval_legendre(2, s))) / 2
