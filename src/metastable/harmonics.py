"""Harmonics of a measure on the circle and the sphere: coefficients, potentials and maxima.

A real function is kept as coefficients, the last axis running over
- circle (dim = 2): complex f̂_0..f̂_K, f(θ) = Σ_{|k|≤K} f̂_k e^{ikθ} with f̂_{−k} = conj f̂_k;
- sphere (dim = 3): real f̂_{ℓm}, f = Σ f̂_{ℓm} Y_{ℓm}, stored at ℓ² + ℓ + m for |m| ≤ ℓ ≤ L.

Both bases are orthonormal for the uniform *probability* measure, so f̂_0 is the mass of a measure
and n independent uniform tokens have coefficients of variance 1/n (E|f̂|² on the circle).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = [
    "circle_derivatives",
    "convolve",
    "fourier_coefficients",
    "gegenbauer",
    "harmonic_coefficients",
    "multiplicity",
    "sphere_derivatives",
    "spherical_harmonics",
    "values_on_circle",
    "values_on_sphere",
]

# Legendre functions are kept without their factor sin^m θ, and reach 1e209 at this degree.
_MAX_DEGREE = 1000
_BLOCK_BYTES = 64 * 2**20


def gegenbauer(s: Any, dim: int, degree: int) -> np.ndarray:
    """Gegenbauer polynomials P_0..P_degree of S^{d−1} at s, normalised to P_ℓ(1) = 1.

    (ℓ+d−2) P_{ℓ+1} = (2ℓ+d−2) s P_ℓ − ℓ P_{ℓ−1}, stable upwards on [−1, 1]. Chebyshev for d = 2,
    Legendre for d = 3. Returns shape (degree + 1, *s.shape).

    >>> gegenbauer(0.5, 3, 3).tolist()
    [1.0, 0.5, -0.125, -0.4375]
    """
    _require_dim(dim)
    s = np.asarray(s, float)
    p = np.ones((degree + 1, *s.shape))
    if degree > 0:
        p[1] = s
    for ell in range(1, degree):
        p[ell + 1] = ((2 * ell + dim - 2) * s * p[ell] - ell * p[ell - 1]) / (ell + dim - 2)
    return p


def multiplicity(degree: int, dim: int) -> int:
    """Dimension of the space of harmonics of this degree on S^{d−1}: C(ℓ+d−1, ℓ) − C(ℓ+d−3, ℓ−2).

    >>> [multiplicity(ell, 3) for ell in range(4)]
    [1, 3, 5, 7]
    """
    _require_dim(dim)
    lower = math.comb(degree + dim - 3, degree - 2) if degree > 1 else 0
    return math.comb(degree + dim - 1, degree) - lower


def fourier_coefficients(angles: Any, weights: Any = None, *, degree: int) -> np.ndarray:
    """Fourier coefficients of weighted points on the circle, μ̂_k = Σ_j w_j e^{−ikθ_j}.

    `angles` and `weights` have shape (..., n) (equal weights of total mass one by default);
    returns (..., degree + 1). Costs O(n·degree) time and O(n) memory.
    """
    angles = np.asarray(angles, float)
    weights = _weights(weights, angles.shape)
    turn, power = np.exp(-1j * angles), np.ones(angles.shape, complex)
    result = np.empty((*angles.shape[:-1], degree + 1), complex)
    for k in range(degree + 1):
        result[..., k] = np.sum(weights * power, -1)
        power *= turn
    return result


def harmonic_coefficients(points: Any, weights: Any = None, *, degree: int) -> np.ndarray:
    """Spherical-harmonic coefficients of weighted points on S², μ̂_{ℓm} = Σ_j w_j Y_{ℓm}(x_j).

    `points` (..., n, 3) of unit length, `weights` (..., n); returns (..., (degree + 1)²). Points
    are taken in blocks, so that memory does not grow with n·degree².
    """
    points = np.asarray(points, float)
    weights = _weights(weights, points.shape[:-1])
    result = np.zeros((*points.shape[:-2], (degree + 1) ** 2))
    rows = math.prod(points.shape[:-2])
    block = max(1, _BLOCK_BYTES // (8 * max(rows, 1) * (degree + 1) ** 2))
    for start in range(0, points.shape[-2], block):
        part = slice(start, start + block)
        y = spherical_harmonics(points[..., part, :], degree)
        result += (weights[..., None, part] @ y)[..., 0, :]
    return result


def spherical_harmonics(points: Any, degree: int) -> np.ndarray:
    """Real spherical harmonics Y_{ℓm} at unit vectors, orthonormal for the uniform probability.

    Y_{ℓm} = √2 P̄_ℓ^m(z) Re(x+iy)^m, Y_{ℓ,−m} the same with Im, Y_{ℓ0} = √(2ℓ+1) P_ℓ(z), where
    P̄_ℓ^m ∝ d^m P_ℓ/dz^m (no Condon–Shortley sign); Σ_m Y_{ℓm}(x)² = 2ℓ+1.
    `points` (..., 3); returns (..., (degree + 1)²), Y_{ℓm} at ℓ² + ℓ + m. Degrees to 1000.

    >>> spherical_harmonics([0.0, 0.0, 1.0], 1).round(4).tolist()  # 1, √3·(y, z, x)
    [1.0, 0.0, 1.7321, 0.0]
    """
    points = np.asarray(points, float)
    result = np.empty((*points.shape[:-1], (degree + 1) ** 2))
    w = points[..., 0] + 1j * points[..., 1]
    power = np.ones_like(w)
    for m, (p,) in enumerate(_legendre(points[..., 2], degree)):
        columns = _columns(m, degree)
        legendre = np.moveaxis(p, 0, -1)
        result[..., columns - m] = legendre * np.imag(power)[..., None]
        result[..., columns + m] = legendre * np.real(power)[..., None]
        power = power * w
    return result


def convolve(coefficients: Any, kernel: Any, dim: int) -> np.ndarray:
    """Coefficients of the potential W∗μ: each degree times its Funk–Hecke weight.

    `kernel` holds ŵ_0..ŵ_L; for W = e^{β⟨x,y⟩}/c_0 these are I_{ℓ+ν}(β)/I_ν(β), ν = d/2 − 1.
    Any per-degree factor will do, such as the growth e^{λ_ℓ t}.
    """
    kernel = np.asarray(kernel)
    if dim not in (2, 3):
        raise ValueError(f"dim must be 2 or 3, got {dim}; coefficients exist for these only.")
    if dim == 3:
        kernel = np.repeat(kernel, 2 * np.arange(kernel.shape[-1]) + 1, axis=-1)
    return np.asarray(coefficients) * kernel


def values_on_circle(coefficients: Any, size: int) -> np.ndarray:
    """Values at θ_j = 2πj/size, by FFT; `size` > 2K. Shape (..., size).

    >>> values_on_circle([1.0, 0.5], 4).round(12).tolist()  # 1 + cos θ
    [2.0, 1.0, 0.0, 1.0]
    """
    coefficients = np.asarray(coefficients, complex)
    if size <= 2 * (coefficients.shape[-1] - 1):
        raise ValueError(
            f"size must exceed twice the degree {coefficients.shape[-1] - 1}, got {size}; "
            "take more points or fewer modes."
        )
    return np.fft.irfft(coefficients, size) * size


def values_on_sphere(coefficients: Any, size: int) -> np.ndarray:
    """Values at colatitudes πi/size, i = 0..size, and longitudes πj/size, j = 0..2·size − 1.

    `size` > L. Both poles are rows of equal values. Returns (..., size + 1, 2·size).
    """
    coefficients, degree = _sphere_array(coefficients)
    if size <= degree:
        raise ValueError(f"size must exceed the degree {degree}, got {size}; take a finer grid.")
    theta = np.pi * np.arange(size + 1) / size
    sine, modes = np.sin(theta), np.zeros((*coefficients.shape[:-1], size + 1, size + 1), complex)
    sine[-1] = 0.0
    for m, (p,) in enumerate(_legendre(np.cos(theta), degree)):
        modes[..., m] = _azimuthal(coefficients, m, degree) @ (p * sine**m)
    modes[..., 1:] /= 2
    return np.fft.irfft(modes, 2 * size) * (2 * size)


def circle_derivatives(
    coefficients: np.ndarray, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value, gradient f′τ and Hessian f″ττᵀ on the circle of one function per point, τ = ∂_θ x.

    `coefficients` (p, K + 1), `points` (p, 2) of unit length; returns (p,), (p, 2), (p, 2, 2).
    """
    x = np.asarray(points, float)
    k = np.arange(np.shape(coefficients)[-1])
    waves = np.exp(1j * k * np.arctan2(x[:, 1], x[:, 0])[:, None]) * coefficients
    waves[:, 1:] *= 2
    tangent = np.stack([-x[:, 1], x[:, 0]], 1)
    slope, curvature = -(waves.imag @ k), -(waves.real @ k**2)
    return (
        np.sum(waves.real, 1),
        slope[:, None] * tangent,
        curvature[:, None, None] * tangent[:, :, None] * tangent[:, None, :],
    )


def sphere_derivatives(
    coefficients: np.ndarray, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value, gradient and Hessian on S² of one function per point.

    With F the extension Σ_m Re[g_m(z)(x+iy)^m] to R³ and P = I − xxᵀ: ∇f = P DF and
    Hess f = P D²F P − ⟨x, DF⟩ P, both written in R³ and regular at the poles.
    `coefficients` (p, (L+1)²), `points` (p, 3); returns (p,), (p, 3), (p, 3, 3).
    """
    coefficients, degree = _sphere_array(coefficients)
    x = np.asarray(points, float)
    w = x[:, 0] + 1j * x[:, 1]
    powers = [np.zeros_like(w), np.zeros_like(w), np.ones_like(w)]  # w^{m−2}, w^{m−1}, w^m
    value, first, second = np.zeros(len(x)), np.zeros_like(x), np.zeros((len(x), 3, 3))
    for m, p in enumerate(_legendre(x[:, 2], degree, derivatives=2)):
        g, g_z, g_zz = np.einsum("pl,jlp->jp", _azimuthal(coefficients, m, degree), p)
        value += (g * powers[2]).real
        slope, twist = m * g * powers[1], m * g_z * powers[1]
        curve = m * (m - 1) * g * powers[0]
        # ∂_x and ∂_y of w^m are m w^{m−1} and i m w^{m−1}, and Re(iu) = −Im u.
        first += np.stack([slope.real, -slope.imag, (g_z * powers[2]).real], -1)
        second[:, 0] += np.stack([curve.real, -curve.imag, twist.real], -1)
        second[:, 1, 1:] += np.stack([-curve.real, -twist.imag], -1)
        second[:, 2, 2] += (g_zz * powers[2]).real
        powers = [powers[1], powers[2], powers[2] * w]
    second[:, [1, 2, 2], [0, 0, 1]] = second[:, [0, 0, 1], [1, 2, 2]]
    projector = np.eye(3) - x[:, :, None] * x[:, None, :]
    radial = np.sum(x * first, 1)[:, None, None]
    return (
        value,
        np.einsum("pij,pj->pi", projector, first),
        projector @ second @ projector - radial * projector,
    )


def _legendre(z: np.ndarray, degree: int, derivatives: int = 0) -> Iterator[np.ndarray]:
    """For m = 0..degree, P̄_m^m..P̄_degree^m over sin^m θ and their z-derivatives.

    Each item has shape (derivatives + 1, degree − m + 1, *z.shape); √2 is included for m > 0.
    """
    if degree > _MAX_DEGREE:
        raise ValueError(f"degree must be at most {_MAX_DEGREE}, got {degree}; smooth first.")
    sectoral = 1.0
    for m in range(degree + 1):
        if m > 0:
            sectoral *= math.sqrt((2 * m + 1) / (2 * m)) * (math.sqrt(2) if m == 1 else 1)
        p = np.zeros((derivatives + 1, degree - m + 1, *z.shape))
        p[0, 0] = sectoral
        for i in range(1, degree - m + 1):
            ell = m + i
            a = math.sqrt((4 * ell * ell - 1) / (ell * ell - m * m))
            b = math.sqrt(((ell - 1) ** 2 - m * m) / (4 * (ell - 1) ** 2 - 1)) if i > 1 else 0.0
            for j in range(derivatives + 1):
                p[j, i] = z * p[j, i - 1] - b * p[j, i - 2]
                if j > 0:
                    p[j, i] += j * p[j - 1, i - 1]
                p[j, i] *= a
        yield p


def _columns(m: int, degree: int) -> np.ndarray:
    """Where (ℓ, 0) sits for ℓ = m..degree; add or subtract m."""
    ell = np.arange(m, degree + 1)
    return ell * ell + ell


def _azimuthal(coefficients: np.ndarray, m: int, degree: int) -> np.ndarray:
    """f̂_{ℓm} − i f̂_{ℓ,−m} for ℓ = m..degree, the factor of (x+iy)^m inside the real part."""
    columns = _columns(m, degree)
    sine = coefficients[..., columns - m] if m > 0 else 0.0
    return coefficients[..., columns + m] - 1j * sine


def _sphere_array(coefficients: Any) -> tuple[np.ndarray, int]:
    coefficients = np.asarray(coefficients, float)
    degree = math.isqrt(coefficients.shape[-1]) - 1
    if (degree + 1) ** 2 != coefficients.shape[-1]:
        raise ValueError(
            f"coefficients must have (L+1)² entries on S², got {coefficients.shape[-1]}; "
            "pass every degree up to L in full."
        )
    return coefficients, degree


def _weights(weights: Any, shape: tuple[int, ...]) -> np.ndarray:
    if weights is None:
        return np.full(shape, 1 / shape[-1])
    return np.broadcast_to(np.asarray(weights, float), shape)


def _require_dim(dim: int) -> None:
    if dim < 2:
        raise ValueError(f"dim must be at least 2, got {dim}; the circle is dim=2.")
