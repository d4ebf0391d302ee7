"""Branches of stationary densities with noise: where they start, turn and change stability.

Pseudo-arclength continuation (keller1977numerical) of f ∝ e^{κψ[f]} (`theory.stationary`) in log κ
at fixed β, or in log β at fixed κ, from where a mode of the uniform measure loses stability.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import root_scalar

from metastable.core import checks
from metastable.theory.bessel import bessel_ratio
from metastable.theory.interaction import Interaction, attention_interaction
from metastable.theory.stationary import (
    MOST_NODES,
    Stationary,
    defect,
    fewest_nodes,
    is_thin,
)

# Lengths of steps, in units of √d, as y_1 is √d times the alignment; the longest grows with y.
_FIRST, _LONGEST, _SHORTEST = 0.015, 0.04, 1e-8
_STRAIGHT = 0.98  # least cosine between tangents at the ends of a step
_SETTLED = 1e-12
_MOST_POINTS = 500


@dataclass(frozen=True)
class Branch:
    """Stationary densities along one branch, from the uniform measure on.

    `betas` and `kappas` (n,) are the parameters of `states`. `turns` are the (β, κ, state) where
    the branch turns back in its parameter (folds), `ties` those where its free energy is that of
    the uniform measure; both are located to rounding. `ending` says why it ends.
    """

    betas: np.ndarray
    kappas: np.ndarray
    states: tuple[Stationary, ...]
    turns: tuple[tuple[float, float, Stationary], ...]
    ties: tuple[tuple[float, float, Stationary], ...]
    ending: str

    @property
    def alignments(self) -> np.ndarray:
        return np.array([state.alignment for state in self.states])

    @property
    def free_energies(self) -> np.ndarray:
        """F less that of the uniform measure at the same (β, κ)."""
        return np.array([state.free_energy for state in self.states])

    def rates(self) -> np.ndarray:
        """Largest growth rate of zonal perturbations of each state: stable where negative."""
        return np.array([state.growth_rates()[0] for state in self.states])


@dataclass(frozen=True)
class Transition:
    """How order sets in at given β as κ rises.

    Uniform is stable up to `kappa_uniform` = κ_#; ordered states exist from `kappa_ordered` on;
    their free energy is the lower one from `kappa_equal` on, where the alignment jumps by `jump`.
    A continuous transition has all three equal and no jump; hysteresis lies between the first two.
    """

    beta: float
    kappa_uniform: float
    kappa_ordered: float
    kappa_equal: float
    jump: float

    @property
    def kind(self) -> Literal["continuous", "discontinuous"]:
        return "discontinuous" if self.kappa_ordered < self.kappa_uniform else "continuous"


def branch_in_kappa(
    beta: float,
    dim: int,
    *,
    normalized: bool = True,
    mode: int = 1,
    sign: int = 1,
    until: float = 2.0,
) -> Branch:
    """The branch that leaves the uniform measure at κ_ℓ = 1/ŵ_ℓ, ℓ = `mode`, at fixed β.

    Mode 1 is the first to lose stability, at κ_#. `sign` is that of the first step; only even
    modes with d ≥ 3 tell one from the other. Ends past `until` times κ_ℓ, or where the density is
    too thin to resolve.

    >>> branch = branch_in_kappa(2.6, 2, normalized=False)
    >>> len(branch.turns), bool(branch.kappas.min() < branch.kappas[0])  # it bends back: β > β_*
    (1, True)
    """
    interaction = attention_interaction(beta, dim, normalized=normalized)
    if not 1 <= mode <= interaction.degree or interaction.weights[mode] <= 0:
        raise ValueError(f"mode must be one that interacts, 1 to {interaction.degree}, got {mode}.")
    start = -math.log(interaction.weights[mode])
    curve = _Curve(lambda log_kappa: (beta, math.exp(log_kappa), interaction))
    return _follow(curve, start, mode, sign, (-math.inf, start + math.log(until)))


def branch_in_beta(
    kappa: float, dim: int, *, normalized: bool = True, until: float = 2.0
) -> Branch:
    """The branch of mode 1 at fixed κ, from the β at which κ = κ_#(β).

    Ordered states lie at larger β for USA (κ < d), at smaller β for SA (κ > d). Ends past `until`
    times that β or its inverse.
    """
    checks.positive("kappa", kappa)
    weight = lambda log_beta: attention_interaction(
        math.exp(log_beta), dim, normalized=normalized, degree=1
    ).weights[1]
    excess = lambda log_beta: math.log(kappa * weight(log_beta))
    low, high = math.log(1e-3), math.log(500.0)
    if excess(low) * excess(high) > 0:
        side = "above" if normalized else "below"
        raise ValueError(
            f"kappa must be {side} {dim} for uniform to change stability at some beta in "
            f"[0.001, 500], got {kappa}; follow a branch in kappa instead."
        )
    start = float(root_scalar(excess, bracket=(low, high), xtol=1e-14).root)
    reach = math.log(until)
    degree = attention_interaction(math.exp(start + reach), dim, normalized=normalized).degree
    interaction = lambda beta: attention_interaction(
        beta, dim, normalized=normalized, degree=degree
    )
    curve = _Curve(lambda x: (math.exp(x), kappa, interaction(math.exp(x))))
    return _follow(curve, start, 1, 1, (start - reach, start + reach))


def transition(beta: float, dim: int, *, normalized: bool = True) -> Transition:
    """The transition at given β, from its branch: κ_#, the fold, and where free energies are equal.

    Found by continuation. For USA the fold exists iff β > β_* (arXiv:2606.05140); it is missed
    where its alignment is below the first step, 0.015, that is for β − β_* below 1e−3. SA has no
    fold at any β and d tried.

    >>> transition(2.3, 2, normalized=False).kind
    'continuous'
    """
    branch = branch_in_kappa(beta, dim, normalized=normalized, until=1.1)
    kappa = float(branch.kappas[0])
    if branch.turns and branch.ties:
        (_, fold, _), (_, equal, ordered) = branch.turns[0], branch.ties[0]
        return Transition(beta, kappa, fold, equal, ordered.alignment)
    if branch.turns or branch.kappas[-1] <= kappa:
        raise ValueError(
            f"beta must leave a branch that can be followed past its fold, got {beta}; this one "
            f"ends before: {branch.ending}."
        )
    return Transition(beta, kappa, kappa, kappa, 0.0)


def first_bend(beta: Any, dim: int, *, normalized: bool = True) -> np.ndarray:
    """c in κ = κ_#(1 + c m² + O(m⁴)) along the branch of mode 1, m the alignment.

    USA: c = d/(d+2) [d − (d−1)/(1−ρ)], ρ = I_{d/2+1}/I_{d/2}: negative iff β > β_*, which is the
    criterion of arXiv:2606.05140. SA: c = d(1−x)/(d+2) [d + x − (d−1)x(1−x)/(x−y)] with
    x = I_{d/2}/I_ν and y = I_{d/2+1}/I_ν. Derived here by expanding f ∝ e^{κψ}.

    SA has c > 0 for every β and d, so no β_*: as y = 1 − dx/β, c has the sign of
    (1+β)x² + dx − β = x² + β(x² − y), and y < x² because I_{μ+1}/I_μ falls with μ
    (amos1974computation). Both c tend to d/(d+2) as β → 0. Broadcasts over `beta` ≥ 0.

    >>> [round(float(first_bend(3.0, 2, normalized=norm)), 5) for norm in (True, False)]
    [0.22519, -0.1572]
    """
    beta = np.asarray(beta, float)
    if not normalized:
        rho = bessel_ratio(dim / 2, 1, beta)
        return dim / (dim + 2) * (dim - (dim - 1) / (1 - rho))
    x, y = bessel_ratio(dim / 2 - 1, 1, beta), bessel_ratio(dim / 2 - 1, 2, beta)
    share = np.where(beta > 0, x / np.where(beta > 0, x - y, 1), 1.0)
    return dim * (1 - x) / (dim + 2) * (dim + x - (dim - 1) * (1 - x) * share)


def unique_kappa(beta: Any) -> np.ndarray:
    """β coth β: for SA in any dimension uniform is the only stationary measure for κ below it.

    A stationary f is a fixed point, up to mass, of f → (∫e^{β⟨x,y⟩}df)^{κ/β}. The integral shrinks
    Hilbert's projective metric by tanh β (birkhoff1957extensions: cross-ratios of the kernel,
    e^{β⟨x−x′,y−y′⟩}, are at most e^{4β}) and the power scales it by κ/β, so κ tanh β < β leaves one
    fixed point. Derived here; below κ_#, to which it is asymptotic: κ_# − β coth β → (d−1)/2.

    >>> round(float(unique_kappa(5.0)), 6)  # κ_# = 5.596701 on the circle
    5.000454
    """
    beta = np.asarray(beta, float)
    return np.where(beta > 0, beta, 1) / np.tanh(np.where(beta > 0, beta, np.inf))


def phase_diagram(betas: Iterable[float], dim: int, *, normalized: bool = True) -> list[Transition]:
    """The (β, κ) phase diagram of noisy self-attention, one `Transition` for each β."""
    return [transition(float(beta), dim, normalized=normalized) for beta in betas]


class _Curve:
    """The solutions z = (y, x) of defect(y; x) = 0, x the logarithm of the parameter."""

    def __init__(self, at: Callable[[float], tuple[float, float, Interaction]]):
        self.at = at
        self.nodes = 0

    def equation(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The defect and its Jacobian in z."""
        gap, jacobian, _ = self.defect(z[:-1], z[-1])
        h = 1e-6  # only Newton's direction depends on it
        ahead, behind = (self.defect(z[:-1], z[-1] + step)[0] for step in (h, -h))
        return gap, np.column_stack([jacobian, (ahead - behind) / (2 * h)])

    def defect(self, y: np.ndarray, x: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        _, kappa, interaction = self.at(float(x))
        return defect(interaction, kappa, y, self.nodes)

    def correct(self, z: np.ndarray, tangent: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """The point of the curve on the plane through z across the tangent, and its tangent."""
        for _ in range(8):
            gap, jacobian = self.equation(z)
            if not np.isfinite(gap).all():
                return None
            bordered = np.vstack([jacobian, tangent])
            if np.max(np.abs(gap)) < _SETTLED:
                onward = np.linalg.solve(bordered, np.r_[np.zeros(len(gap)), 1.0])
                return z, onward / np.linalg.norm(onward)
            z = z - np.linalg.solve(bordered, np.r_[gap, 0.0])
        return None

    def locate(
        self,
        z: np.ndarray,
        tangent: np.ndarray,
        step: float,
        value: Callable[[np.ndarray, np.ndarray], float],
    ) -> tuple[float, float, Stationary]:
        """The state within a step from z at which `value` of point and tangent is zero."""

        def point(length: float) -> tuple[np.ndarray, np.ndarray]:
            found = self.correct(z + length * tangent, tangent)
            assert found is not None, "the whole step converged, so its parts do"
            return found

        length = root_scalar(lambda x: value(*point(x)), bracket=(0.0, step), xtol=1e-13).root
        return self.state(point(float(length))[0])

    def state(self, z: np.ndarray) -> tuple[float, float, Stationary]:
        beta, kappa, interaction = self.at(float(z[-1]))
        moments = self.defect(z[:-1], z[-1])[2]
        coefficients = moments[: interaction.degree + 1]
        return beta, kappa, Stationary(interaction, kappa, coefficients, self.nodes)


def _follow(
    curve: _Curve, start: float, mode: int, sign: int, limits: tuple[float, float]
) -> Branch:
    """Step along the curve from the uniform measure, and locate turns and ties on the way."""
    interaction = curve.at(start)[2]
    curve.nodes = fewest_nodes(interaction)
    z = np.zeros(interaction.degree + 1)
    z[-1] = start
    tangent = np.zeros_like(z)
    tangent[mode - 1] = sign
    states, turns, ties = [curve.state(z)], [], []
    unit = math.sqrt(interaction.dim)
    energy, step, ending = 0.0, _FIRST * unit, f"it has {_MOST_POINTS} points"
    while len(states) < _MOST_POINTS:
        found = curve.correct(z + step * tangent, tangent)
        # The first tangent is the mode alone; a transcritical branch leaves at an angle to it.
        if found is None or (len(states) > 1 and found[1] @ tangent < _STRAIGHT):
            step /= 2
            if step < _SHORTEST * unit:
                ending = f"steps of length {step:.0e} do not converge"
                break
            continue
        if is_thin(curve.defect(found[0][:-1], found[0][-1])[2]):
            if 2 * curve.nodes > MOST_NODES:
                ending = f"the density is too thin for {MOST_NODES} nodes"
                break
            curve.nodes *= 2
            continue
        state = curve.state(found[0])
        if tangent[-1] * found[1][-1] < 0:
            turns.append(curve.locate(z, tangent, step, lambda z, t: t[-1]))
        if energy * state[2].free_energy < 0:
            ties.append(curve.locate(z, tangent, step, lambda z, t: curve.state(z)[2].free_energy))
        (z, tangent), energy = found, state[2].free_energy
        states.append(state)
        if not limits[0] <= z[-1] <= limits[1]:
            ending = "it has left the range asked for"
            break
        if np.linalg.norm(z[:-1]) < _FIRST * unit / 2:
            ending = "it has come back to the uniform measure"
            break
        step = min(1.5 * step, _LONGEST * max(unit, float(np.linalg.norm(z[:-1]))))
    betas, kappas, densities = zip(*states, strict=True)
    return Branch(np.array(betas), np.array(kappas), densities, tuple(turns), tuple(ties), ending)
