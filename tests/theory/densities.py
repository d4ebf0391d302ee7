"""The mean-field PDE on the circle and for zonal densities, solved in the plainest way.

Independent of the package: kernels by their formula or by quadrature, derivatives in weak form,
method of lines with DOP853 at rtol 1e−13 unless told otherwise. Densities are relative to uniform.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import eval_gegenbauer, ive, roots_gegenbauer


class Circle:
    """Pseudo-spectral in θ, the highest third of the modes held at zero."""

    def __init__(self, beta, normalized, kappa=math.inf, size=128):
        self.beta, self.normalized, self.kappa = beta, normalized, kappa
        self.theta = 2 * np.pi * np.arange(size) / size
        self.k = np.arange(size // 2 + 1)
        self.kernel = ive(self.k, beta) * math.exp(beta)

    def derivative(self, f):
        return np.fft.irfft(1j * self.k * np.fft.rfft(f), len(f))

    def potential(self, f):
        z = np.fft.irfft(self.kernel * np.fft.rfft(f), len(f))
        return np.log(z) / self.beta if self.normalized else z / self.beta

    def flux(self, f):
        return f * self.derivative(self.potential(f)) - self.derivative(f) / self.kappa

    def change(self, t, f):
        wave = -1j * self.k * np.fft.rfft(self.flux(f))
        return np.fft.irfft(np.where(3 * self.k < len(f), wave, 0), len(f))

    def flow(self, f, time, **options):
        return _last(self.change, f, time, **options)


class Zonal:
    """Galerkin in Gegenbauer polynomials of α = d/2 − 1 (d ≥ 3), moments ∫f C_ℓ."""

    def __init__(self, beta, dim, normalized, kappa=math.inf, degree=32):
        self.beta, self.normalized, self.kappa = beta, normalized, kappa
        alpha = dim / 2 - 1
        ell = np.arange(degree + 1)
        self.s, w = roots_gegenbauer(3 * degree, alpha)
        w /= w.sum()
        table = eval_gegenbauer(ell[:, None], alpha, self.s)
        norm = np.sqrt((table**2) @ w)
        self.table = table / norm[:, None]
        slope = np.zeros_like(table)
        slope[1:] = 2 * alpha * eval_gegenbauer(ell[:-1, None], alpha + 1, self.s)
        self.slope = np.sqrt(1 - self.s**2) * slope / norm[:, None]
        self.weights, self.laplacian = w, ell * (ell + dim - 2)
        # Funk–Hecke by quadrature: ∫e^{βs} C_ℓ(s)/C_ℓ(1).
        self.kernel = (table / eval_gegenbauer(ell, alpha, 1.0)[:, None]) @ (
            w * np.exp(beta * self.s)
        )

    def change(self, t, c):
        z, push = (self.kernel * c) @ self.table, (self.kernel * c) @ self.slope
        velocity = push / self.beta / (z if self.normalized else 1.0)
        carried = self.slope @ (self.weights * (c @ self.table) * velocity)
        return carried - self.laplacian * c / self.kappa

    def flow(self, c, time, **options):
        return _last(self.change, c, time, **options)


def _last(change, start, time, method="DOP853", rtol=1e-13, atol=1e-15):
    solved = solve_ivp(change, (0.0, time), start, method=method, rtol=rtol, atol=atol)
    assert solved.success
    return solved.y[:, -1]
