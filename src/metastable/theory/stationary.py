"""Stationary densities with noise, zonal on S^{d−1}: the equation, free energy and stability.

A density relative to uniform rests under ∂_t f + div(f∇ψ[f]) = (1/κ)Δf iff its flux vanishes, that
is f ∝ e^{κψ[f]}: f ∝ exp(κ W∗f) for USA and f ∝ (∫e^{β⟨x,y⟩}df(y))^{κ/β} for SA. Zonal about some
axis e; on the circle these are the even densities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import null_space

from metastable.core import checks
from metastable.theory.interaction import (
    Interaction,
    ZonalGrid,
    laplacian,
    zonal_grid,
    zonal_harmonics,
    zonal_slopes,
)

MOST_NODES = 1024
_TAIL = 1e-11
_SETTLED = 1e-13
_ROUNDING = 1e-13


@dataclass(frozen=True)
class Stationary:
    """The zonal density f = e^{κψ}/∫e^{κψ}, ψ[f] made by its coefficients f̂_0 = 1, f̂_1, …, f̂_K.

    `nodes` is the number of Gauss points that resolve it, at least twice K + 1.
    """

    interaction: Interaction
    kappa: float
    coefficients: np.ndarray
    nodes: int

    @property
    def alignment(self) -> float:
        """∫⟨x, e⟩df: 0 for the uniform measure, 1 for a point mass."""
        return float(self.coefficients[1]) / math.sqrt(self.interaction.dim)

    def density(self, s: Any) -> np.ndarray:
        """f at inner products s = ⟨x, e⟩."""
        table = zonal_harmonics(s, self.interaction.dim, self.interaction.degree)
        exponent = self.kappa * self.interaction.drive(self._potential @ table)
        return np.exp(exponent - self._log_mass)

    @property
    def free_energy(self) -> float:
        """F[f] less that of the uniform measure; its critical points are the stationary densities.

        USA and zonal W: F = (1/κ)∫f log f − ½∬W df df, which falls along the flow.
        SA: F = [(2/q) log ∫f^q − log ∬e^{β⟨x,y⟩}df df/c_0]/(2β), q = 1 + β/κ. Derived here: its
        critical points are ∫e^{β⟨x,y⟩}df ∝ f^{β/κ}, and it tends to the former as β → 0. The SA
        flow is not its gradient flow, and for some densities far from rest it rises.
        """
        b, weights = self.interaction.softmax, self._grid.weights
        log_f = self._exponent - self._log_mass
        pairs = float(self.interaction.weights @ self.coefficients**2)
        if b == 0:
            return float(weights @ (np.exp(log_f) * log_f)) / self.kappa - pairs / 2
        q = 1 + b / self.kappa
        return (_log_mean_exp(q * log_f, weights) / q - math.log1p(b * pairs) / 2) / b

    def growth_rates(self, sector: int = 0) -> np.ndarray:
        """Real parts of the eigenvalues of the linearised PDE at f, largest first.

        Perturbations are (1−s²)^{m/2}h(s)Y_m, Y_m a harmonic of degree m = `sector` around the
        axis; 0 is zonal, and the circle has 0 (even) and 1 (odd) only. Sector 1 of a non-uniform
        f holds the rotation, of rate 0. With perturbation √f y the operator on y is
        −(1/κ)(−Δ + V)(1 − κ√f ψ′√f), V = ¼|∇κψ|² + ½Δκψ: well conditioned however thin f is. NaN
        for SA where ∫e^{β⟨x,y⟩}df is below 1e−13 c_0 somewhere, and ∇ψ there is rounding noise.
        """
        action, kappa, dim = self.interaction, self.kappa, self.interaction.dim
        # (1−s²)^{m/2} times the zonal harmonics of dimension d + 2m make up sector m.
        grid = zonal_grid(dim + 2 * sector, self.nodes)
        basis = grid.table[: self.nodes // 2]
        project = lambda left, values: (left * (grid.weights * values)) @ basis.T

        table, p_hat = zonal_harmonics(grid.s, dim, action.degree), self._potential
        p = p_hat @ table
        slope2 = (1 - grid.s**2) * (p_hat @ zonal_slopes(grid.s, dim, action.degree)) ** 2
        curvature = -(laplacian(action.degree, dim) * p_hat) @ table
        bent = action.normalizer(p)
        if bent.min() < _ROUNDING:
            return np.full(len(basis), np.nan)
        pull = kappa / bent
        well = pull**2 * slope2 / 4 + pull * (curvature - action.softmax * slope2 / bent) / 2
        degrees = laplacian(sector + len(basis) - 1, dim)[sector:]
        diffusion = (np.diag(degrees) + project(basis, well)) / kappa

        root = np.exp((kappa * action.drive(p) - self._log_mass) / 2)
        heard = grid.table[: max(0, action.degree + 1 - sector)]
        response = (action.weights[sector:] * project(heard, root / bent).T) @ project(heard, root)
        operator = -diffusion @ (np.eye(len(basis)) - kappa * response)
        if sector == 0:
            # Mass is conserved: y stays orthogonal to √f, which would add a spurious zero.
            free = null_space((basis @ (grid.weights * root))[None])
            operator = free.T @ operator @ free
        return np.sort(np.linalg.eigvals(operator).real)[::-1]

    @property
    def _grid(self) -> ZonalGrid:
        return zonal_grid(self.interaction.dim, self.nodes)

    @property
    def _potential(self) -> np.ndarray:
        return self.interaction.weights * self.coefficients

    @property
    def _exponent(self) -> np.ndarray:
        heard = self._grid.table[: self.interaction.degree + 1]
        return self.kappa * self.interaction.drive(self._potential @ heard)

    @property
    def _log_mass(self) -> float:
        return _log_mean_exp(self._exponent, self._grid.weights)


def stationary_density(
    interaction: Interaction, kappa: float, *, concentration: float = 50.0
) -> Stationary:
    """The stationary density reached from a concentrated start by iterating f ← e^{κψ[f]}/∫e^{κψ}.

    For USA each sweep lowers the free energy, so the end is a stable state: ordered where one
    exists, else uniform. Newton's method finishes. The start is e^{c⟨x,e⟩}, c = `concentration`.

    At β = 0 it is e^{κms} with m = I_{d/2}(κm)/I_ν(κm), on both clocks:

    >>> from metastable.theory.interaction import attention_interaction
    >>> round(stationary_density(attention_interaction(0.0, 2), kappa=4.0).alignment, 6)
    0.831462
    """
    checks.positive("kappa", kappa, "Without noise use the flow itself.")
    checks.positive("concentration", concentration)
    nodes = fewest_nodes(interaction)
    grid = zonal_grid(interaction.dim, nodes)
    tilt = np.exp(concentration * (grid.s - 1)) * grid.weights
    y = scale(interaction) * (grid.table[1 : interaction.degree + 1] @ tilt) / tilt.sum()
    for sweep in range(600):
        gap, jacobian, moments = defect(interaction, kappa, y, nodes)
        if is_thin(moments):
            if 2 * nodes > MOST_NODES:
                raise ValueError(
                    f"kappa must leave a density that {MOST_NODES} nodes resolve, got {kappa}; "
                    "so thin a density is a Gaussian on the tangent space."
                )
            nodes *= 2
            continue
        size = np.max(np.abs(gap))
        if size < _SETTLED:
            break
        # Sweeps crawl near a fold; Newton's method may take over once it can only go to one place.
        newton = size < 1e-4 or sweep > 400
        y = y - (np.linalg.solve(jacobian, gap) if newton else gap)
    else:
        raise ValueError(
            f"kappa must keep away from a fold or a bifurcation, got {kappa}, where the iteration "
            "stalls; follow the branch instead (theory.branches)."
        )
    return Stationary(interaction, kappa, moments[: interaction.degree + 1], nodes)


def fewest_nodes(interaction: Interaction) -> int:
    """Nodes to begin with: a power of two above twice the degrees that interact."""
    return max(64, 2 ** math.ceil(math.log2(2 * interaction.degree + 2)))


def is_thin(moments: np.ndarray) -> bool:
    """Whether the last coefficients still matter, so that the density needs more nodes."""
    tail = np.max(np.abs(moments[-len(moments) // 8 :]))
    return bool(tail > _TAIL * np.max(np.abs(moments)))


def scale(interaction: Interaction) -> np.ndarray:
    """g_ℓ = √(|ŵ_ℓ|/max|ŵ|) for ℓ = 1..K, the scale between y_ℓ = g_ℓ f̂_ℓ and f̂_ℓ."""
    weights = np.abs(interaction.weights[1:])
    return np.sqrt(weights / weights.max())


def _log_mean_exp(exponent: np.ndarray, weights: np.ndarray) -> float:
    top = float(exponent.max())
    return top + math.log(float(weights @ np.exp(exponent - top)))


def defect(
    interaction: Interaction, kappa: float, y: np.ndarray, nodes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How far y is from stationary: y − g·f̂, its Jacobian in y, and f̂_0..f̂_{n−1} of f = e^{κψ}/∫.

    y_ℓ = g_ℓ f̂_ℓ for ℓ = 1..K: the norm of y is that of the interaction energy, so degrees that
    hardly interact weigh nothing, however large they are.
    """
    grid = zonal_grid(interaction.dim, nodes)
    weights, g = interaction.weights[1:], scale(interaction)
    back = np.max(np.abs(weights)) * np.sign(weights) * g
    heard = grid.table[1 : len(weights) + 1]
    p = (back * y) @ heard
    exponent = kappa * interaction.drive(p)
    f = grid.weights * np.exp(exponent - exponent.max())
    f /= f.sum()
    moments = grid.table @ f
    own = moments[1 : len(weights) + 1]
    pull = heard * (kappa / interaction.normalizer(p))
    covariance = (heard * f) @ pull.T - np.outer(own, pull @ f)
    return y - g * own, np.eye(len(y)) - g[:, None] * covariance * back, moments
