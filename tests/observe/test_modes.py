import numpy as np
import pytest
from scipy.special import eval_gegenbauer, eval_legendre, sph_harm_y

from metastable.geometry.harmonics import multiplicity
from metastable.measures import Points, gaussian_points, polygon, simplex, uniform
from metastable.observe import amplitudes, modes, power
from metastable.observe.modes import SphereWaves


def weighted(count, dim, seed):
    return Points(
        uniform(count, dim, seed=seed).points, np.random.default_rng(seed).uniform(0.1, 1, count)
    )


def test_circle_modes_by_definition():
    measure = weighted(20, 2, 1)
    theta, w = np.asarray(measure.angles), np.asarray(measure.weights)
    expected = [np.sum(w * np.exp(-1j * k * theta)) for k in range(6)]
    np.testing.assert_allclose(modes(measure, 5), expected, atol=1e-13)
    np.testing.assert_allclose(amplitudes(measure, 5), np.abs(expected[1:]), atol=1e-13)
    np.testing.assert_allclose(power(measure, 5)[1:], 2 * np.abs(expected[1:]) ** 2, atol=1e-13)


def test_sphere_power_against_scipy_harmonics():
    measure = weighted(15, 3, 2)
    x, w = np.asarray(measure.points), np.asarray(measure.weights)
    polar, azimuth = np.arccos(x[:, 2]), np.arctan2(x[:, 1], x[:, 0])
    expected = [
        4 * np.pi * sum(abs(w @ sph_harm_y(l, m, polar, azimuth)) ** 2 for m in range(-l, l + 1))
        for l in range(7)
    ]
    np.testing.assert_allclose(power(measure, 6), expected, rtol=1e-11)
    assert modes(measure, 6).shape == (49,)
    np.testing.assert_allclose(np.sum(modes(measure, 6)[4:9] ** 2), expected[2], rtol=1e-11)


@pytest.mark.parametrize("degree", [1, 6, 33])
def test_waves_of_the_sphere_are_its_harmonics(degree):
    """Sums against SciPy's harmonics, at the poles as well."""
    measure = weighted(40, 3, 5)
    x, w = np.array(measure.points), np.asarray(measure.weights)
    x[:2] = [[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]
    polar, azimuth = np.arccos(x[:, 2]), np.arctan2(x[:, 1], x[:, 0])
    columns = []
    for ell in range(degree + 1):
        for m in range(-ell, ell + 1):
            # Condon and Shortley's sign taken off, the norm that of the uniform probability.
            y = (-1) ** abs(m) * np.sqrt(4 * np.pi) * sph_harm_y(ell, abs(m), polar, azimuth)
            columns.append(y.real if m == 0 else np.sqrt(2) * (y.real if m > 0 else y.imag))
    expected = np.stack(columns, axis=1)
    np.testing.assert_allclose(SphereWaves(x, degree).moments(w), w @ expected, atol=1e-12)


@pytest.mark.parametrize("dim", [2, 3, 4, 7])
def test_amplitudes_are_pair_averages(dim):
    measure = weighted(12, dim, dim)
    x, w = np.asarray(measure.points), np.asarray(measure.weights)
    cosines = np.clip(x @ x.T, -1, 1)
    for degree in range(1, 6):
        if dim == 2:
            values = np.cos(degree * np.arccos(cosines))
        elif dim == 3:
            values = eval_legendre(degree, cosines)
        else:
            nu = dim / 2 - 1
            values = eval_gegenbauer(degree, nu, cosines) / eval_gegenbauer(degree, nu, 1.0)
        expected = np.sqrt(w @ values @ w)
        assert amplitudes(measure, 5)[degree - 1] == pytest.approx(expected, rel=1e-9)


def test_designs_and_points():
    # The simplex is a spherical 2-design (not 3), the cross-polytope a 3-design (not 4).
    assert (amplitudes(simplex(5), 3) > 1e-7).tolist() == [False, False, True]
    cross = Points(np.concatenate([np.eye(4), -np.eye(4)]))
    assert (amplitudes(cross, 4) > 1e-7).tolist() == [False, False, False, True]
    assert (amplitudes(polygon(6), 6) > 1e-7).tolist() == [False] * 5 + [True]
    for dim in (2, 3, 5):
        one = Points(np.eye(dim)[:1])
        np.testing.assert_allclose(amplitudes(one, 5), 1, rtol=1e-12)
        ghost = Points(np.eye(dim)[:2], [1.0, 0.0])
        np.testing.assert_allclose(amplitudes(ghost, 5), 1, rtol=1e-12)


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_noise_floor_of_uniform_tokens(dim):
    # Each of the N(d,ℓ) coefficients has variance 1/n; 40 seeds, five degrees.
    n, seeds = 200, 40
    mean = np.mean([power(uniform(n, dim, seed=s), 5)[1:] for s in range(seeds)], axis=0)
    counts = np.array([multiplicity(ell, dim) for ell in range(1, 6)])
    error = np.sqrt(2 / (counts * seeds))
    assert (np.abs(mean * n / counts - 1) < 4 * error).all()


def test_messages():
    with pytest.raises(ValueError, match=r"Use power\(...\) or amplitudes"):
        modes(uniform(4, 5), 3)
    with pytest.raises(ValueError, match=r"Use measure.directions"):
        power(gaussian_points(4, 3), 3)
