"""Harmonics against SciPy, mpmath, quadrature and sums done by hand."""

import math

import mpmath
import numpy as np
import pytest
from scipy.special import eval_gegenbauer, ive, sph_harm_y

from metastable.geometry import harmonics
from metastable.geometry.harmonics import (
    circle_derivatives,
    convolve,
    fourier_coefficients,
    gegenbauer,
    harmonic_coefficients,
    multiplicity,
    sphere_derivatives,
    spherical_harmonics,
    values_on_circle,
    values_on_sphere,
)

POLES = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0], [1e-9, 0.0, -1.0]])


def unit_vectors(*shape, seed=0):
    x = np.random.default_rng(seed).standard_normal(shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def grid_points(size):
    theta, phi = np.meshgrid(
        np.pi * np.arange(size + 1) / size, np.pi * np.arange(2 * size) / size, indexing="ij"
    )
    return np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], -1)


def test_gegenbauer_is_chebyshev_on_the_circle():
    angle = np.linspace(0, np.pi, 31)
    expected = np.cos(np.arange(201)[:, None] * angle)
    np.testing.assert_allclose(gegenbauer(np.cos(angle), 2, 200), expected, atol=1e-12)


@pytest.mark.parametrize("dim", [3, 4, 9])
def test_gegenbauer_matches_scipy(dim):
    s, nu = np.linspace(-1, 1, 21), dim / 2 - 1
    degree = np.arange(41)[:, None]
    expected = eval_gegenbauer(degree, nu, s) / eval_gegenbauer(degree, nu, 1.0)
    np.testing.assert_allclose(gegenbauer(s, dim, 40), expected, atol=1e-12)


def test_gegenbauer_matches_fifty_digits_in_high_dimension():
    with mpmath.workdps(50):
        for degree, s in [(7, 0.3), (60, -0.9), (150, 0.999)]:
            ratio = mpmath.gegenbauer(degree, 31, mpmath.mpf(s)) / mpmath.gegenbauer(degree, 31, 1)
            assert abs(gegenbauer(s, 64, degree)[-1] - float(ratio)) < 1e-13


@pytest.mark.parametrize("dim", [2, 3, 4, 7, 20])
def test_multiplicities_fill_the_polynomials_on_the_sphere(dim):
    # Polynomials of degree ≤ L restricted to S^{d−1}: homogeneous ones of degrees L and L − 1.
    for degree in (0, 1, 2, 5, 30):
        space = math.comb(degree + dim - 1, dim - 1)
        if degree > 0:
            space += math.comb(degree + dim - 2, dim - 1)
        assert sum(multiplicity(ell, dim) for ell in range(degree + 1)) == space


def test_fourier_coefficients_are_the_weighted_sum():
    rng = np.random.default_rng(1)
    angles, weights = rng.uniform(-9, 9, (2, 3, 40)), rng.dirichlet(np.ones(40), (2, 3))
    k = np.arange(151)
    expected = np.einsum("abn,abnk->abk", weights, np.exp(-1j * k * angles[..., None]))
    np.testing.assert_allclose(
        fourier_coefficients(angles, weights, degree=150), expected, atol=1e-13
    )
    np.testing.assert_allclose(
        fourier_coefficients(angles, degree=150)[..., 7],
        np.exp(-7j * angles).mean(-1),
        atol=1e-13,
    )


def test_spherical_harmonics_match_scipy_to_degree_200():
    x = np.concatenate([unit_vectors(40, 3), POLES])
    y = spherical_harmonics(x, 200)
    theta, phi = np.arccos(np.clip(x[:, 2], -1, 1)), np.arctan2(x[:, 1], x[:, 0])
    theta[-1] = np.pi - 1e-9  # arccos cannot see it
    for ell in (0, 1, 2, 7, 60, 199, 200):
        for m in {0, min(1, ell), ell // 2, ell}:
            # SciPy's carry the Condon–Shortley sign and unit norm over an area of 4π.
            z = sph_harm_y(ell, m, theta, phi) * (-1) ** m * math.sqrt(4 * math.pi)
            scale = 1 if m == 0 else math.sqrt(2)
            np.testing.assert_allclose(y[:, ell**2 + ell + m], scale * z.real, atol=3e-12)
            if m > 0:
                np.testing.assert_allclose(y[:, ell**2 + ell - m], scale * z.imag, atol=3e-12)


def test_addition_theorem():
    # Σ_m Y_ℓm(x) Y_ℓm(y) = (2ℓ+1) P_ℓ(⟨x,y⟩): every degree, at random and at the poles.
    x, y = np.concatenate([unit_vectors(30, 3, seed=2), POLES]), unit_vectors(33, 3, seed=3)
    products = spherical_harmonics(x, 200) * spherical_harmonics(y, 200)
    sums = np.add.reduceat(products, np.arange(201) ** 2, axis=1)
    expected = (2 * np.arange(201) + 1) * gegenbauer(np.sum(x * y, 1), 3, 200).T
    np.testing.assert_allclose(sums, expected, atol=2e-10)


def test_orthonormal_for_the_uniform_probability():
    z, weights = np.polynomial.legendre.leggauss(9)
    phi = 2 * np.pi * np.arange(17) / 17
    sine = np.sqrt(1 - z**2)[:, None]
    x = np.stack([sine * np.cos(phi), sine * np.sin(phi), np.tile(z[:, None], 17)], -1)
    y = spherical_harmonics(x, 8)
    gram = np.einsum("i,ija,ijb->ab", weights / 2 / 17, y, y)
    np.testing.assert_allclose(gram, np.eye(81), atol=1e-13)


def test_harmonic_coefficients_do_not_depend_on_the_blocks(monkeypatch):
    x, weights = unit_vectors(2, 50, 3), np.random.default_rng(4).dirichlet(np.ones(50), 2)
    expected = np.einsum("bn,bnk->bk", weights, spherical_harmonics(x, 6))
    monkeypatch.setattr(harmonics, "_BLOCK_BYTES", 8 * 2 * 49 * 7)  # seven points at a time
    np.testing.assert_allclose(
        harmonic_coefficients(x, weights, degree=6), expected, rtol=0, atol=1e-14
    )


def test_values_on_grids_are_the_series():
    rng = np.random.default_rng(5)
    c = rng.standard_normal((2, 9)) + 1j * rng.standard_normal((2, 9))
    c[:, 0] = c[:, 0].real
    theta = 2 * np.pi * np.arange(20) / 20
    waves = np.exp(1j * np.arange(9)[:, None] * theta)
    expected = 2 * (c @ waves).real - c[:, :1].real
    np.testing.assert_allclose(values_on_circle(c, 20), expected, atol=1e-12)

    for degree, size in [(0, 1), (12, 13), (40, 100)]:
        c = rng.standard_normal((2, (degree + 1) ** 2))
        expected = np.einsum("ijk,bk->bij", spherical_harmonics(grid_points(size), degree), c)
        np.testing.assert_allclose(values_on_sphere(c, size), expected, atol=1e-10)


def test_potential_is_the_sum_over_tokens():
    beta, rng = 9.0, np.random.default_rng(6)
    weights = rng.dirichlet(np.ones(5))
    angles = rng.uniform(0, 2 * np.pi, 5)
    kernel = ive(np.arange(45), beta)  # e^{−β} e^{β cos φ} = Σ_k I_k e^{−β} e^{ikφ}
    values = values_on_circle(
        convolve(fourier_coefficients(angles, weights, degree=44), kernel, 2), 90
    )
    grid = 2 * np.pi * np.arange(90) / 90
    expected = np.exp(beta * (np.cos(grid[:, None] - angles) - 1)) @ weights
    np.testing.assert_allclose(values, expected, atol=1e-14)

    tokens = unit_vectors(5, 3)
    # c_ℓ e^{−β} = √(π/2β) I_{ℓ+½} e^{−β} on S²
    kernel = math.sqrt(math.pi / (2 * beta)) * ive(np.arange(45) + 0.5, beta)
    values = values_on_sphere(
        convolve(harmonic_coefficients(tokens, weights, degree=44), kernel, 3), 45
    )
    expected = np.exp(beta * (grid_points(45) @ tokens.T - 1)) @ weights
    np.testing.assert_allclose(values, expected, atol=1e-13)


@pytest.mark.parametrize("dim", [2, 3])
def test_derivatives_are_those_of_the_potential(dim):
    # Σ w e^{β(⟨x,y⟩−1)}: the surface gradient is P DF, the surface Hessian P D²F P − ⟨x,DF⟩ P.
    beta, rng = 6.0, np.random.default_rng(7)
    tokens, weights = unit_vectors(6, dim, seed=8), rng.dirichlet(np.ones(6))
    at = unit_vectors(10, dim, seed=9)
    if dim == 2:
        angles = np.arctan2(tokens[:, 1], tokens[:, 0])
        row = fourier_coefficients(angles, weights, degree=40) * ive(np.arange(41), beta)
        found = circle_derivatives(np.tile(row, (len(at), 1)), at)
    else:
        at = np.concatenate([at, POLES])
        kernel = math.sqrt(math.pi / (2 * beta)) * ive(np.arange(41) + 0.5, beta)
        row = convolve(harmonic_coefficients(tokens, weights, degree=40), kernel, 3)
        found = sphere_derivatives(np.tile(row, (len(at), 1)), at)
    force = weights * np.exp(beta * (at @ tokens.T - 1))
    slope = beta * force @ tokens
    bend = beta**2 * np.einsum("pn,ni,nj->pij", force, tokens, tokens)
    project = np.eye(dim) - at[:, :, None] * at[:, None, :]
    radial = np.sum(at * slope, 1)[:, None, None]
    np.testing.assert_allclose(found[0], force.sum(1), atol=1e-12)
    np.testing.assert_allclose(found[1], np.einsum("pij,pj->pi", project, slope), atol=1e-11)
    np.testing.assert_allclose(found[2], project @ bend @ project - radial * project, atol=1e-10)


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="dim must be at least 2, got 1"):
        gegenbauer(0.5, 1, 3)
    with pytest.raises(ValueError, match="dim must be 2 or 3, got 4"):
        convolve([1.0], [1.0], 4)
    with pytest.raises(ValueError, match="size must exceed twice the degree 3, got 6"):
        values_on_circle(np.ones(4), 6)
    with pytest.raises(ValueError, match="size must exceed the degree 1, got 1"):
        values_on_sphere(np.ones(4), 1)
    with pytest.raises(ValueError, match=r"\(L\+1\)² entries on S², got 5"):
        values_on_sphere(np.ones(5), 8)
    with pytest.raises(ValueError, match="degree must be at most 1000, got 1001"):
        spherical_harmonics([0.0, 0.0, 1.0], 1001)
