"""Each spherical harmonic has its own threshold of noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.special import eval_gegenbauer

from metastable.core.verdict import judge
from metastable.fields import Noise, SelfAttention
from metastable.flows import flow
from metastable.measures import Density
from metastable.observe import power
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.branches import branch_in_kappa

ENTRY = Entry(
    title="Each spherical harmonic has its own threshold of noise",
    places=["arXiv:2412.14813: bifurcation branches around the uniform state, noisy transformers"],
    claim=(
        "For unnormalised attention with noise on S^{d−1} states of degree ℓ branch off the "
        "uniform one at κ_ℓ = β/c_ℓ, c_ℓ the coefficient of e^{βs} in the harmonics of degree ℓ."
    ),
    method=(
        "c_ℓ by adaptive quadrature; growth of single zonal harmonics in the density equation, "
        "zero at κ_ℓ and of both signs around it; starts of the branches by continuation."
    ),
    subject="noise",
    basis="report",
    limits="Degrees up to 4; zonal harmonics. That nothing else branches off was not tested.",
    planted="SelfAttention.beta * 1.05",
    settings={"beta": 4.0, "dims": [3, 4, 6], "modes": [1, 2, 3, 4]},
    fast={"dims": [3, 5], "modes": [2, 3]},
)


def bifurcation_points(*, beta: float, dims: list[int], modes: list[int]) -> Finding:
    """Where harmonics of degree ℓ neither grow nor decay."""
    rows, curves, theory = [], {}, {}
    for dim in dims:
        found, exact, starts = [], [], []
        for mode in modes:
            kappa = beta / _coefficient(beta, dim, mode)
            exact.append(kappa)
            starts.append(float(branch_in_kappa(beta, dim, normalized=False, mode=mode,
                                                until=1.001).kappas[0]))  # fmt: skip
            rates, span = [], 0.2 * kappa / (mode * (mode + dim - 2))
            for factor in (0.9, 1.1):
                field = SelfAttention(beta, normalized=False) + Noise(factor * kappa)
                run = flow(Density.mode(dim, mode, 1e-8, zonal=True), field, span, frames=2)
                a, b = (float(np.sqrt(power(frame, mode)[mode])) for frame in run.frames)
                rates.append(math.log(b / a) / span)
            # The rate is linear in 1/κ.
            u = 1 / (np.array([0.9, 1.1]) * kappa)
            found.append(1 / (u[0] - rates[0] * (u[1] - u[0]) / (rates[1] - rates[0])))
        off = float(np.max(np.abs(np.array(found) / exact - 1)))
        # Rates of the stepper are good to 1e−4 of the two that are subtracted.
        rows.append(judge(f"d = {dim}: largest relative error of κ_ℓ from growth",
                          "κ_ℓ = β/c_ℓ", 0.0, off, absolute=2e-3))  # fmt: skip
        off = float(np.max(np.abs(np.array(starts) / exact - 1)))
        rows.append(judge(f"d = {dim}: largest relative error of where branches start",
                          "κ_ℓ = β/c_ℓ", 0.0, off, absolute=1e-9))  # fmt: skip
        curves[f"d = {dim}"] = (modes, found)
        theory[f"β/c_ℓ, d = {dim}"] = (modes, exact)
    figure = plot_lines(
        curves, "degree ℓ", "κ_ℓ", f"Thresholds of single harmonics, β = {beta:g}.",
        theory=theory, log="y",
    )  # fmt: skip
    return Finding(rows, {"thresholds": figure})


def _coefficient(beta: float, dim: int, mode: int) -> float:
    """∫e^{βs}P_ℓ dσ, P_ℓ(1) = 1, by adaptive quadrature in the angle."""
    alpha = dim / 2 - 1
    top = eval_gegenbauer(mode, alpha, 1.0)
    weight = lambda t: np.sin(t) ** (dim - 2)
    kernel = lambda t: (
        np.exp(beta * np.cos(t)) * eval_gegenbauer(mode, alpha, np.cos(t)) / top * weight(t)
    )
    tight: dict[str, Any] = {"epsabs": 1e-14, "epsrel": 1e-13}
    return quad(kernel, 0, np.pi, **tight)[0] / quad(weight, 0, np.pi, **tight)[0]
