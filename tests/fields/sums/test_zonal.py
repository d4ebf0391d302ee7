"""The series of e^{β(s−1)} against Bessel functions at 50 digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from metastable.core.numerics import jnp
from metastable.fields.sums.harmonic import legendre_table
from metastable.fields.sums.nufft import pack_harmonics, unpack_harmonics
from metastable.fields.sums.zonal import degree_for, spectrum
from metastable.geometry.harmonics import gegenbauer


def coefficient(dim, ell, beta):
    """e^{−β} I_ℓ(β) on the circle, e^{−β}√(π/2β) I_{ℓ+1/2}(β) on the sphere."""
    with mpmath.workdps(50):
        b = mpmath.mpf(beta)
        scale = mpmath.exp(-b) * (1 if dim == 2 else mpmath.sqrt(mpmath.pi / (2 * b)))
        return scale * mpmath.besseli(ell + (dim - 2) / mpmath.mpf(2), b)


@pytest.mark.parametrize("beta", [0.01, 9.0, 300.0])
@pytest.mark.parametrize("dim", [2, 3])
def test_spectrum(dim, beta):
    degree = degree_for(beta, dim, 1e-13)
    got = np.asarray(spectrum(jnp.asarray(beta), dim, degree))
    expected = np.array([float(coefficient(dim, ell, beta)) for ell in range(degree + 1)])
    # The sum weighs each degree by its multiplicity, so it is this error that must be small.
    many = np.array([2 if dim == 2 else 2 * ell + 1 for ell in range(degree + 1)])
    assert np.sum(many * np.abs(got - expected)) < 1e-13


@pytest.mark.parametrize("tolerance", [1e-4, 1e-9, 1e-13])
@pytest.mark.parametrize("beta", [0.5, 9.0, 100.0])
@pytest.mark.parametrize("dim", [2, 3])
def test_degree_is_the_least_that_reaches_the_tolerance(dim, beta, tolerance):
    degree = degree_for(beta, dim, tolerance)

    def dropped(above):
        degrees = range(above + 1, above + 60)
        return sum((2 if dim == 2 else 2 * k + 1) * coefficient(dim, k, beta) for k in degrees)

    assert dropped(degree) <= tolerance / 2 < dropped(degree - 1)


def test_degree_without_attention_or_with_much():
    assert degree_for(0.0, 2, 1e-10) == degree_for(0.0, 3, 1e-10) == 1
    assert degree_for(1e4, 2, 1e-10) < 8 * np.sqrt(1e4)


def test_legendre_table_obeys_the_addition_theorem():
    """Σ_m Y_ℓm(x) Y_ℓm(y) = (2ℓ+1) P_ℓ(⟨x,y⟩) (DLMF 14.18.1)."""
    degree, theta, phi = 30, np.array([0.3, 1.9]), np.array([0.7, -2.4])
    table, k = legendre_table(degree), np.arange(degree + 1)
    waves = np.stack([np.cos(np.outer(theta, k)), np.sin(np.outer(theta, k))])
    total = np.zeros(degree + 1)
    for m in range(degree + 1):
        y1, y2 = waves[m % 2] @ table[m]
        total += (2 if m else 1) * np.cos(m * (phi[0] - phi[1])) * y1 * y2
    s = np.prod(np.cos(theta)) + np.prod(np.sin(theta)) * np.cos(phi[0] - phi[1])
    expected = (2 * k + 1) * gegenbauer(s, 3, degree)
    assert np.max(np.abs(total - expected)) < 1e-12


@pytest.mark.parametrize("channels", [1, 2, 5])
def test_packing_is_undone(channels):
    x = np.random.default_rng(0).normal(size=(4, channels))
    assert np.array_equal(unpack_harmonics(pack_harmonics(jnp.asarray(x)), channels), x)
