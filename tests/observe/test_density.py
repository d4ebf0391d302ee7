"""Observables of densities, against closed forms and against the same of very many tokens."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, special

import metastable as ms
from metastable.measures import Density
from metastable.observe import (
    amplitudes,
    entropy,
    free_energy,
    modes,
    peaks,
    power,
    sobolev_distance,
)

BUMP = Density.von_mises_fisher([0.0, 0.6, 0.8], 4.0)
TOKENS = BUMP.to_points(3000)


def test_energy_is_the_double_integral():
    """∬e^{β⟨x,y⟩} of two von Mises–Fisher measures on the circle, by SciPy's quadrature."""
    density = Density.von_mises_fisher([1.0, 0.0], 2.0)
    f = lambda t: np.exp(2 * np.cos(t)) / special.i0(2.0) / (2 * np.pi)
    pairs = integrate.dblquad(
        lambda s, t: np.exp(3 * np.cos(s - t)) * f(s) * f(t), -np.pi, np.pi, -np.pi, np.pi,
        epsabs=1e-11,
    )[0]  # fmt: skip
    assert float(ms.energy(density, 3.0)) == pytest.approx(pairs / 6, rel=1e-9)
    assert float(ms.energy(density, 3.0, scaled=True)) == pytest.approx(
        pairs * np.exp(-3), rel=1e-9
    )
    mean = special.iv(1, 2.0) / special.iv(0, 2.0)
    assert float(ms.energy(density, 0.0)) == pytest.approx(mean**2 / 2, rel=1e-12)
    with pytest.raises(ValueError, match=r"matrix must be left out"):
        ms.energy(density, 3.0, np.eye(2))


def test_densities_and_their_tokens_agree():
    """To what a lattice of 3000 tokens leaves, about 1e−4 in each harmonic."""
    for beta in (-2.0, 3.0):
        assert float(ms.energy(TOKENS, beta)) == pytest.approx(
            float(ms.energy(BUMP, beta)), rel=1e-3
        )
    assert power(TOKENS, 5) == pytest.approx(power(BUMP, 5), abs=1e-4)
    assert amplitudes(TOKENS, 5) == pytest.approx(amplitudes(BUMP, 5), abs=1e-4)
    assert modes(TOKENS, 3) == pytest.approx(modes(BUMP, 3), abs=1e-3)
    zonal = Density.von_mises_fisher([0.0, 0.6, 0.8], 4.0, zonal=True)
    assert power(zonal, 5) == pytest.approx(power(BUMP, 5), rel=1e-12)


def test_distances_between_tokens_and_densities():
    near = sobolev_distance(BUMP, 2.0, TOKENS)
    assert near < 1e-3 and near == sobolev_distance(TOKENS, 2.0, BUMP)
    # A zonal density against tokens counts the harmonics that are not zonal as well.
    zonal = Density.von_mises_fisher([0.0, 0.6, 0.8], 4.0, zonal=True)
    few = BUMP.sample(50, seed=1)
    assert sobolev_distance(zonal, 2.0, few, highest=20) == pytest.approx(
        sobolev_distance(BUMP, 2.0, few, highest=20), rel=1e-10
    )
    mode = Density.mode(2, 3, 0.1)
    assert sobolev_distance(mode, 1.0) ** 2 == pytest.approx(2 * 0.01 / 10)  # 2|a|²/(1 + 3²)
    assert sobolev_distance(mode, 1.0, Density.uniform(2)) == sobolev_distance(mode, 1.0)
    with pytest.raises(ValueError, match=r"other must have the geometry and axis"):
        sobolev_distance(zonal, 1.0, BUMP)


def test_entropy_and_free_energy():
    """H of e^{κs}κ/sinh κ is κ coth κ − 1 + log(κ/sinh κ) on S²."""
    expected = 4 / np.tanh(4) - 1 + np.log(4 / np.sinh(4))
    assert entropy(BUMP) == pytest.approx(expected, rel=1e-12)
    assert entropy(Density.uniform(8)) == 0.0
    field = ms.SelfAttention(3.0, normalized=False) + ms.Noise(5.0)
    uniform = float(ms.energy(Density.uniform(3), 3.0))
    found = free_energy(BUMP, field)
    assert found == pytest.approx(expected / 5 - float(ms.energy(BUMP, 3.0)) + uniform, rel=1e-12)
    with pytest.raises(ValueError, match=r"softmax attention with noise has no free energy"):
        free_energy(BUMP, ms.SelfAttention(3.0) + ms.Noise(5.0))


def test_peaks():
    assert peaks(Density.uniform(2)) == 0 and peaks(BUMP) == 1 and peaks(BUMP, 5.0) == 1
    assert peaks(Density.mode(3, 3, 0.1, order=2)) == 4  # xyz has four maxima
    assert peaks(Density.mode(8, 2, 0.1)) == 2  # both poles
    assert peaks(Density.mode(8, 2, -0.1)) == 1  # the equator
    # What attention cannot see is not counted: mode 9 at β = 1 weighs I_9/I_0 = 4e−9.
    c = np.zeros(10)
    c[0], c[2], c[9] = 1.0, 0.01, 0.05
    assert peaks(Density(c, 2)) == 9 and peaks(Density(c, 2), 1.0) == 2
