"""Grenier's expansion: the way out of the uniform measure, order by order in the amplitude.

A single harmonic of degree ℓ₀ leaves the uniform measure as δ e^{λt} u_1, and its products with
itself follow as δ^j e^{jλt} u_j. Each order is a polynomial of degree j ℓ₀, so the recursion is a
finite sum in harmonics and exact to rounding. Densities are relative to the uniform probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from metastable.core import checks
from metastable.geometry.harmonics import multiplicity, spherical_harmonics, values_on_circle
from metastable.theory.interaction import Interaction, laplacian, zonal_grid

# Closer than this to a resonance (relative to λ), the division would only enlarge rounding noise.
_RESONANT = 1e-8


@dataclass(frozen=True)
class Expansion:
    """f = 1 + Σ_{j=1}^N δ^j e^{jλt} u_j: `orders` holds the coefficients of 1, u_1, …, u_N by row.

    `rate` is λ, `mode` the degree ℓ₀ of u_1.
    """

    mode: int
    rate: float
    orders: np.ndarray

    def at(self, delta: Any, t: Any = 0.0, order: int | None = None) -> np.ndarray:
        """Coefficients of the approximate density at amplitude δ and time t, to a given order.

        `delta` and `t` broadcast; the coefficients are the last axis.
        """
        count = len(self.orders) if order is None else order + 1
        amplitude = np.asarray(delta * np.exp(self.rate * np.asarray(t)))
        return amplitude[..., None] ** np.arange(count) @ self.orders[:count]


def expand(
    interaction: Interaction,
    order: int,
    *,
    mode: int | None = None,
    kappa: float = math.inf,
    pattern: Any = None,
) -> Expansion:
    """Approximate solution 1 + Σ_{j≤N} δ^j e^{jλt} u_j of the mean-field PDE around uniform.

    (jλ − λ_ℓ) û_{j,ℓ} = [−Δ(ψ_j − p_j) − Σ_{i+k=j} div(u_i ∇ψ_k)]_ℓ with p_j = ŵ∗u_j and
    ψ_j = p_j − (b/j) Σ_{i<j} i ψ_i p_{j−i} (the logarithm of SA; b = 0 for USA and zonal W).

    Scheme of grenier2000nonlinear, applied to transformers in arXiv:2410.23228; the recursion is
    derived here and checked against the full PDE. The error at fixed t falls like δ^{N+1} from the
    start `at(delta)`; as a curve in δe^{λt} it is the Taylor series of the unstable manifold of the
    uniform measure. Valid while δe^{λt} is small: at 0.1 each order gains about a digit.

    `mode` is the degree of u_1, the fastest by default; another works unless some jλ = λ_ℓ.
    Without `pattern`, u_1 = P_ℓ(⟨x,e⟩), of height 1 at its pole (cos ℓθ on the circle), in any
    dimension, and coefficients are those of `theory.interaction`. With it, u_1 is any harmonic of
    that degree and coefficients are those of `metastable.geometry.harmonics`: one complex number
    f̂_ℓ on the circle, or 2ℓ + 1 reals f̂_{ℓm} on S².

    >>> from metastable.theory.interaction import attention_interaction
    >>> way_out = expand(attention_interaction(5.0, 2), order=2)
    >>> way_out.mode, round(way_out.rate, 6)
    (3, 0.682678)
    """
    checks.integer("order", order, 1)
    dim = interaction.dim
    if mode is None:
        mode = 1 + int(np.argmax(interaction.growth_rates(interaction.degree, kappa)[1:]))
    degree = order * checks.integer("mode", mode, 1)
    basis, first = _basis(dim, mode, degree, pattern)
    by_degree = interaction.growth_rates(degree, kappa)
    rate = float(by_degree[mode])
    rates, kernel, L = (
        table[basis.degrees]
        for table in (by_degree, interaction.weights_to(degree), laplacian(degree, dim))
    )

    def divergence(u: np.ndarray, psi: np.ndarray) -> np.ndarray:
        # div(u∇ψ) = ½[Δ(uψ) + uΔψ − ψΔu] needs no derivative but the Laplacian, on any sphere.
        a, b = basis.values(u), basis.values(psi)
        rest = basis.project(b * basis.values(L * u) - a * basis.values(L * psi))
        return (rest - L * basis.project(a * b)) / 2

    uniform = np.zeros_like(first)
    uniform[0] = 1
    u, p, psi = [uniform, first], [uniform, kernel * first], [uniform, kernel * first]
    for j in range(2, order + 1):
        products = (i * basis.values(psi[i]) * basis.values(p[j - i]) for i in range(1, j))
        bend = -interaction.softmax / j * basis.project(sum(products))
        right = L * bend - sum(divergence(u[i], psi[j - i]) for i in range(1, j))
        u.append(_divide(right, j * rate - rates, j, basis.degrees, rate))
        p.append(kernel * u[j])
        psi.append(p[j] + bend)
    return Expansion(mode, rate, np.array(u))


def _divide(
    right: np.ndarray, gap: np.ndarray, j: int, degrees: np.ndarray, rate: float
) -> np.ndarray:
    """û_j = right/(jλ − λ_ℓ), without the mass, which no order carries."""
    forced = np.abs(right) > 1e-12 * np.max(np.abs(right))
    resonant = (degrees > 0) & (np.abs(gap) <= _RESONANT * abs(rate))
    if np.any(resonant & forced):
        ell = degrees[resonant & forced][0]
        raise ValueError(
            f"mode must not resonate: {j}λ equals the rate of degree {ell}, where order {j} grows "
            f"faster than e^({j}λt); expand the fastest mode, or stop at order {j - 1}."
        )
    active = (degrees > 0) & ~resonant
    return np.where(active, right / np.where(active, gap, 1), 0)


class _Basis(Protocol):
    """Harmonics to a degree, and a grid that holds products of total degree no higher."""

    degrees: np.ndarray

    def values(self, coefficients: np.ndarray) -> np.ndarray: ...
    def project(self, values: Any) -> np.ndarray: ...


class _Table:
    """Real harmonics by their values at quadrature nodes, `table` (size, nodes)."""

    def __init__(self, degrees: np.ndarray, table: np.ndarray, weights: np.ndarray):
        self.degrees, self.table, self.weights = degrees, table, weights

    def values(self, coefficients: np.ndarray) -> np.ndarray:
        return coefficients @ self.table

    def project(self, values: Any) -> np.ndarray:
        return self.table @ (self.weights * values)


class _Circle:
    """Complex Fourier coefficients f̂_0..f̂_K, by FFT."""

    def __init__(self, degree: int):
        self.degrees = np.arange(degree + 1)

    def values(self, coefficients: np.ndarray) -> np.ndarray:
        return values_on_circle(coefficients, 2 * len(self.degrees))

    def project(self, values: Any) -> np.ndarray:
        return np.fft.rfft(values)[..., : len(self.degrees)] / (2 * len(self.degrees))


def _basis(dim: int, mode: int, degree: int, pattern: Any) -> tuple[_Basis, np.ndarray]:
    """The harmonics to expand in, and the coefficients of u_1."""
    if pattern is None:
        grid = zonal_grid(dim, degree + 1)
        basis = _Table(np.arange(degree + 1), grid.table, grid.weights)
        own = np.array([1 / np.sqrt(float(multiplicity(mode, dim)))])
    elif dim == 2:
        basis, own = _Circle(degree), np.atleast_1d(np.asarray(pattern, complex))
    elif dim == 3:
        basis, own = _sphere(degree), np.asarray(pattern, float)
    else:
        raise ValueError(f"pattern must be None for dim > 3, got dim={dim}; zonal modes need none.")
    first = np.zeros(len(basis.degrees), own.dtype)
    place = basis.degrees == mode
    if own.shape != (place.sum(),):
        raise ValueError(
            f"pattern must have {place.sum()} coefficients for degree {mode} in dim {dim}, got "
            f"shape {own.shape}; give them as metastable.geometry.harmonics orders them."
        )
    first[place] = own
    return basis, first


def _sphere(degree: int) -> _Table:
    """Spherical harmonics on Gauss latitudes and equally spaced longitudes."""
    latitudes, longitudes = degree + 1, 2 * degree + 1
    checks.fits_memory(
        f"the table of harmonics to degree {degree}",
        latitudes * longitudes * (degree + 1) ** 2,
        "lower the order, or expand a zonal mode (pattern=None)",
    )
    z, weights = np.polynomial.legendre.leggauss(latitudes)
    phi = 2 * np.pi * np.arange(longitudes) / longitudes
    r = np.sqrt(1 - z**2)[:, None]
    x = np.stack(np.broadcast_arrays(r * np.cos(phi), r * np.sin(phi), z[:, None]), -1)
    table = spherical_harmonics(x.reshape(-1, 3), degree).T
    degrees = np.repeat(np.arange(degree + 1), 2 * np.arange(degree + 1) + 1)
    return _Table(degrees, table, np.repeat(weights, longitudes) / (2 * longitudes))
