"""Densities on the circle and zonal ones on spheres, beside equations solved by their modes."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from metastable.measures import Density

__all__ = ["heat", "porous", "start"]


def start(dim: int, amplitudes: list[float]) -> Density:
    """Uniform plus harmonics of degree 1, 2, …: cosines on the circle, zonal ones elsewhere."""
    if dim == 2:
        return Density(np.array([1.0, *amplitudes], complex), 2)
    return Density(np.array([1.0, *amplitudes]), dim, axis=np.eye(dim)[0])


def heat(density: Density, time: Any) -> np.ndarray:
    """Coefficients of the solution of ∂_sμ = Δμ at these times; negative times go back."""
    degree = np.arange(density.degree + 1)
    rates = degree * (degree + density.dim - 2)
    return np.exp(-np.multiply.outer(np.asarray(time), rates)) * np.asarray(density.coefficients)


def porous(density: Density, time: float, size: int = 256) -> np.ndarray:
    """Fourier coefficients at `time` of ∂_sμ = ½Δ(μ²) on the circle, by differences in space."""
    theta = 2 * np.pi * np.arange(size) / size
    modes = np.asarray(density.coefficients)
    u = np.real(modes[0] + 2 * sum(
        c * np.exp(1j * k * theta) for k, c in enumerate(modes) if k
    ))  # fmt: skip
    k = np.fft.rfftfreq(size, 1 / size)
    right = lambda _, u: np.fft.irfft(-0.5 * k**2 * np.fft.rfft(u * u), size)
    end = solve_ivp(right, (0, time), u, method="LSODA", rtol=1e-9, atol=1e-11).y[:, -1]
    return np.fft.rfft(end) / size
