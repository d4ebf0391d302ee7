"""Tokens from a density: inverse distribution functions, to rounding.

Quantiles at (j + ½)/n make a quiet start: the harmonics of the tokens equal those of the density to
far better than the n^{−1/2} of independent draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import betainc, betaln

from metastable.measures.spectral.basis import Basis
from metastable.measures.spectral.sphere import SphereBasis
from metastable.measures.spectral.zonal import polynomials, slopes

ROUNDS = 60  # Newton needs about five; bisection alone would need fifty
BLOCK = 2**22  # numbers held at once


def places(
    basis: Basis, c: np.ndarray, axis: Any, shares: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """Points (n, d) of a density that have these shares (n, 2) of its mass before them.

    Circle: the first share is that below the angle. S²: that below the height, and the second that
    of the parallel. Zonal: that below the height, in random directions around the axis.
    """
    if axis is not None:
        s, axis = heights(c, basis.dim, shares[:, 0]), np.asarray(axis)
        across = random.standard_normal((len(s), basis.dim))
        across -= np.outer(across @ axis, axis)
        across /= np.linalg.norm(across, axis=1, keepdims=True)
        return s[:, None] * axis + np.sqrt((1 - s) * (1 + s))[:, None] * across
    if not isinstance(basis, SphereBasis):
        theta = quantile_angles(c, shares[:, 0])
        return np.stack([np.cos(theta), np.sin(theta)], 1)
    z = heights(c[basis.orders == 0], 3, shares[:, 0])
    step = max(1, BLOCK // c.size)
    parts = [
        quantile_angles(basis.parallels(c, z[i : i + step]), shares[i : i + step, 1])
        for i in range(0, len(z), step)
    ]
    phi, r = np.concatenate(parts), np.sqrt((1 - z) * (1 + z))
    return np.stack([r * np.cos(phi), r * np.sin(phi), z], 1)


def quantile_angles(coefficients: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Angles in [0, 2π) below which a density on the circle has these shares of its mass.

    One row of Fourier coefficients (n, K + 1) for each share (n,), or one for all. Rows need not
    have mass one.
    """
    rows = np.broadcast_to(coefficients, (len(shares), np.shape(coefficients)[-1]))
    step = max(1, BLOCK // (16 * rows.shape[1]))
    parts = [_angles(rows[i : i + step], shares[i : i + step]) for i in range(0, len(shares), step)]
    return np.concatenate(parts)


def _angles(rows: np.ndarray, shares: np.ndarray) -> np.ndarray:
    k = np.arange(1, rows.shape[1])
    waves = 2 * rows[:, 1:] / np.real(rows[:, :1])

    def density(theta: np.ndarray) -> np.ndarray:
        return 1 + np.sum((waves * np.exp(1j * k * theta[:, None])).real, axis=1)

    def mass(theta: np.ndarray) -> np.ndarray:
        turned = np.expm1(1j * k * theta[:, None])
        return theta + np.sum((waves * turned / (1j * k)).real, axis=1)

    # A table with eight nodes per shortest wave brackets every quantile.
    size = 8 * rows.shape[1]
    ends = 2 * np.pi * np.arange(size + 1) / size
    padded = np.zeros((len(rows), rows.shape[1]), complex)
    padded[:, 1:] = waves / (2j * k)
    ripple = np.fft.irfft(padded, size, norm="forward")
    table = np.concatenate([ripple, ripple[:, :1]], axis=1) - ripple[:, :1] + ends
    wanted = 2 * np.pi * shares
    cell = np.clip(np.sum(table <= wanted[:, None], axis=1) - 1, 0, size - 1)
    return _solve(mass, density, wanted, ends[cell], ends[cell + 1]) % (2 * np.pi)


def heights(coefficients: np.ndarray, dim: int, shares: np.ndarray) -> np.ndarray:
    """Heights s = ⟨x,e⟩ below which a zonal density on S^{d−1} has these shares of its mass.

    ∫_{−1}^s q_ℓ dσ = −w(s)(1−s²) q_ℓ′(s)/(ℓ(ℓ+d−2)), w the density of the heights of uniform
    points. Solved for the angle from −e, in which nothing is singular at the poles.
    """
    degree, total = len(coefficients) - 1, float(coefficients[0])
    ell = np.arange(1, degree + 1)
    inner = coefficients[1:] / (ell * (ell + dim - 2)) / total
    half = (dim - 1) / 2
    log_norm = betaln(half, 0.5)

    def weight(psi: np.ndarray) -> np.ndarray:
        return np.exp((dim - 2) * np.log(np.maximum(np.sin(psi), 1e-300)) - log_norm)

    def density(psi: np.ndarray) -> np.ndarray:
        return weight(psi) * (coefficients / total @ polynomials(-np.cos(psi), dim, degree))

    def mass(psi: np.ndarray) -> np.ndarray:
        base = betainc(half, half, np.sin(psi / 2) ** 2)
        return base - weight(psi) * np.sin(psi) * (
            inner @ slopes(-np.cos(psi), dim, degree)[1:] if degree else 0.0
        )

    ends = np.linspace(0, np.pi, 8 * (degree + 8) + 1)
    table = mass(ends)
    result = np.empty(len(shares))
    step = max(1, BLOCK // (2 * degree + 2))
    for i in range(0, len(shares), step):
        wanted = shares[i : i + step]
        cell = np.clip(np.searchsorted(table, wanted, side="right") - 1, 0, len(ends) - 2)
        result[i : i + step] = _solve(mass, density, wanted, ends[cell], ends[cell + 1])
    return -np.cos(result)


def _solve(
    mass: Callable[[np.ndarray], np.ndarray],
    density: Callable[[np.ndarray], np.ndarray],
    wanted: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> np.ndarray:
    """Newton's method inside a bracket that halves whenever a step would leave it."""
    x = (low + high) / 2
    for _ in range(ROUNDS):
        gap = mass(x) - wanted
        low, high = np.where(gap < 0, x, low), np.where(gap < 0, high, x)
        slope = density(x)
        new = x - gap / np.where(slope > 0, slope, np.inf)
        new = np.where((slope > 0) & (new >= low) & (new <= high), new, (low + high) / 2)
        # Where the density is small, rounding of the mass moves the place by more than rounding.
        x, before = new, x
        if np.all((np.abs(gap) < 4e-15) | (np.abs(x - before) < 4e-15)):
            break
    return x
