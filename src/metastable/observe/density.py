"""What we see of a density: energy, entropy, free energy, harmonics, distances, peaks."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import numpy as np

from metastable.core import checks
from metastable.core.numerics import jnp
from metastable.fields import Field
from metastable.flows.solvers.mean_field import mean_field
from metastable.geometry.maxima import find_maxima
from metastable.measures import Density, Points
from metastable.measures.spectral import basis_for
from metastable.measures.spectral.kernels import exponential_kernel, log_mean_exponential
from metastable.measures.spectral.zonal import polynomials


def density_energy(density: Density, beta: float, scaled: bool = False) -> float:
    """E_β[μ] = (1/2β)∬ e^{β⟨x,y⟩} dμdμ = (c_0/2β) Σ_ℓ (c_ℓ/c_0) Σ_m |μ̂_{ℓm}|²; see `energy`."""
    beta = float(checks.real("beta", beta))
    power = density_power(density, density.degree)
    if beta == 0:
        return float(power[1:2].sum() / (2 * density.dim))  # ½‖∫x dμ‖²
    pairs = exponential_kernel(beta, density.dim, density.degree) @ power
    log_mean = log_mean_exponential(beta, density.dim)
    if scaled:
        return float(math.exp(log_mean - beta) * pairs)
    return float(np.exp(log_mean) * pairs / (2 * beta))


def density_modes(density: Density, highest: int) -> np.ndarray:
    """Coefficients of degrees 0 to `highest`, zero beyond the density's own; see `modes`."""
    return np.asarray(density.resized(highest).coefficients)


def density_power(density: Density, highest: int) -> np.ndarray:
    """Σ_m |μ̂_{ℓm}|² of degrees 0 to `highest`; see `power`."""
    cut = density.resized(highest)
    return cut.basis.power(cut.coefficients)


def power_between(density: Density, other: Density | Points, highest: int) -> np.ndarray:
    """Σ_m |μ̂_{ℓm} − ν̂_{ℓm}|² of degrees 0 to `highest`.

    Tokens compared with a zonal density need every harmonic of the degree, not the zonal one
    alone: the others of ν are Σ_m |ν̂_{ℓm}|² less its zonal part.
    """
    if isinstance(other, Density):
        same = density.axis is other.axis is None
        if density.axis is not None and other.axis is not None:
            same = np.allclose(density.axis, other.axis, rtol=0, atol=1e-12)
        if density.dim != other.dim or not same:
            raise ValueError(
                f"other must have the geometry and axis of {density!r}; got {other!r}."
            )
        gap = density_modes(density, highest) - density_modes(other, highest)
        return basis_for(density.dim, highest, density.zonal).power(gap)
    if other.dim != density.dim or not other.on_sphere:
        raise ValueError(f"other must lie on the sphere of {density!r}; got {other!r}.")
    projected = Density.from_points(other, highest, density.axis)
    gap = power_between(density, projected, highest)
    if not density.zonal:
        return gap
    from metastable.observe.modes import power

    return gap + np.maximum(power(other, highest) - density_power(projected, highest), 0.0)


def entropy(density: Density) -> float:
    """Relative entropy H[μ] = ∫ f log f dσ ≥ 0, f the density relative to uniform.

    0 for the uniform measure; ∞ is never reached by a finite sum of harmonics. Places where
    truncation makes f ≤ 0 count as 0.

    >>> round(entropy(Density.mode(2, 1, 0.25)), 8)  # log((1 + √(3/4))/2) + 1 − √(3/4)
    0.06463813
    """
    checks.defined_for("entropy", density, Density)
    fine = density.resized(max(2 * density.degree, 32))
    f = np.asarray(eqx.filter_jit(fine.basis.values)(fine.coefficients))
    kept = np.where(f > 0, f, 1.0)
    return float(fine.basis.mean(jnp.asarray(kept * np.log(kept))))


def free_energy(density: Density, field: Field) -> float:
    """F[μ] = (1/κ)∫ f log f dσ − ½∬ W dμdμ: USA and zonal potentials with noise decrease it.

    The flow ∂_tμ = div(μ∇δF/δμ) is its Wasserstein gradient flow, so dF/dt =
    −∫‖v − ∇log f/κ‖² dμ. The interaction of the uniform measure is left out: F = 0 there.

    Softmax attention is no gradient flow of such an F and is refused. Found here, not proved: there
    `entropy` itself falls from every start as long as κ ≤ κ_#, where uniform loses stability.
    """
    checks.defined_for("free_energy", density, Density)
    checks.instance("field", field, Field, "a field")
    equation = mean_field(field, density.basis)
    if equation.heads:
        raise ValueError(
            f"field must be unnormalised attention or a potential; got {field!r}: softmax "
            "attention with noise has no free energy; its entropy falls while kappa <= kappa_#."
        )
    power = density_power(density, density.degree)
    noise = float(equation.diffusion)
    return noise * entropy(density) - 0.5 * float(np.asarray(equation.linear) @ power)


def peaks(density: Density, beta: float | None = None) -> int:
    """Number of local maxima of the potential ∫ e^{β⟨x,y⟩} dμ(y), or of the density itself.

    The potential is what attention sees: harmonics above √β count less and less in it. A zonal
    density has its maxima at the poles and on parallels, each counted once. The uniform measure
    has none.

    >>> peaks(Density.mode(2, 3, 0.01), beta=5.0)
    3
    """
    checks.defined_for("peaks", density, Density)
    return len(maxima(density, beta))


def maxima(density: Density, beta: float | None = None) -> np.ndarray:
    """Places of the maxima of `peaks`: unit vectors (p, d), heights ⟨x,axis⟩ (p,) if zonal."""
    c: Any = np.asarray(density.coefficients)
    basis = density.basis
    if beta is not None:
        kernel = exponential_kernel(float(checks.positive("beta", beta)), density.dim, basis.degree)
        c = c * kernel[basis.degrees]
    if np.abs(c[1:]).sum() <= 1e-13:
        return np.zeros((0, density.dim))
    if not density.zonal:
        return find_maxima(c, density.dim).points
    s = np.cos(np.linspace(np.pi, 0, 16 * (basis.degree + 4)))
    f = c @ polynomials(s, density.dim, basis.degree)
    rising = np.concatenate([[True], np.diff(f) != 0])  # a summit between two nodes is one
    s, f = s[rising], f[rising]
    up = np.concatenate([[True], np.diff(f) > 0])
    down = np.concatenate([np.diff(f) < 0, [True]])
    return s[up & down]
