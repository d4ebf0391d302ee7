"""Maxima against polynomial roots, Rice's formula and configurations whose maxima are known."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from scipy.special import ive

from metastable.geometry.harmonics import (
    convolve,
    fourier_coefficients,
    harmonic_coefficients,
    sphere_derivatives,
)
from metastable.geometry.maxima import find_maxima, sphere_basins

GOLDEN = (1 + math.sqrt(5)) / 2
ICOSAHEDRON = np.array(
    [np.roll([0, s, t * GOLDEN], r) for r in range(3) for s in (1, -1) for t in (1, -1)]
) / math.hypot(1, GOLDEN)


def potential(points, weights, beta):
    """Coefficients of Σ w e^{β⟨x,y⟩}, up to a constant, from SciPy's Bessel functions."""
    dim = points.shape[-1]
    degree = np.arange(math.ceil(math.sqrt(60 * beta)) + 10)
    kernel = ive(degree + dim / 2 - 1, beta)
    if dim == 2:
        angles = np.arctan2(points[..., 1], points[..., 0])
        return convolve(fourier_coefficients(angles, weights, degree=degree[-1]), kernel, 2)
    return convolve(harmonic_coefficients(points, weights, degree=degree[-1]), kernel, 3)


def critical_angles(c):
    """Maxima and minima of Σ c_k e^{ikθ}: roots of f′, a polynomial of degree 2K in e^{iθ}."""
    k = np.arange(len(c))
    slope = 1j * k * c
    roots = np.roots(np.r_[slope[::-1], np.conj(slope[1:])])
    angles = np.sort(np.angle(roots[np.abs(np.abs(roots) - 1) < 1e-7]))
    curvature = -np.real(np.exp(1j * k * angles[:, None]) @ (k**2 * c))
    return angles[curvature < 0], angles[curvature > 0]


def test_circle_against_polynomial_roots():
    rng = np.random.default_rng(0)
    c = rng.standard_normal((300, 13)) + 1j * rng.standard_normal((300, 13))
    c[:, 0] = 1
    found = find_maxima(c, 2)
    angles = np.arctan2(found.points[:, 1], found.points[:, 0])
    compared = 0
    for row in range(len(c)):
        tops, bottoms = critical_angles(c[row])
        # The grid has cells of 2π/384: a maximum that close to a minimum may be missed.
        if np.min(np.abs(tops[:, None] - bottoms)) > 2 * np.pi / 384:
            np.testing.assert_allclose(np.sort(angles[found.owner == row]), tops, atol=1e-8)
            compared += 1
    assert compared > 295


def test_circle_counts_follow_rice():
    # A stationary Gaussian function with power p_k has √(Σk⁴p_k/Σk²p_k) maxima on average.
    rng, k = np.random.default_rng(1), np.arange(16)
    power = np.exp(-((k - 4) ** 2) / 8.0)
    draws = rng.standard_normal((4000, 16, 2)) @ [1, 1j]
    counts = find_maxima(draws * np.sqrt(power), 2).counts
    expected = math.sqrt(np.sum(k**4 * power) / np.sum(k**2 * power))
    assert abs(counts.mean() - expected) < 4 * counts.std() / math.sqrt(len(counts))


def test_sphere_counts_follow_the_random_wave_law():
    # A random harmonic of degree ℓ has ℓ(ℓ+1)/(2√3) + O(1) maxima on average.
    ell, rng = 14, np.random.default_rng(2)
    c = np.zeros((120, (ell + 1) ** 2))
    c[:, ell**2 :] = rng.standard_normal((120, 2 * ell + 1))
    counts = find_maxima(c, 3).counts
    error = counts.std() / math.sqrt(len(counts))
    assert abs(counts.mean() - ell * (ell + 1) / (2 * math.sqrt(3))) < 1 + 3 * error


@pytest.mark.parametrize("dim", [2, 3])
def test_two_equal_tokens_part_where_the_midpoint_turns(dim):
    # At the midpoint of tokens at ±a the potential bends as β sin²a − cos a.
    beta = 12.0
    critical = math.acos((math.sqrt(1 + 4 * beta**2) - 1) / (2 * beta))
    rotation = Rotation.random(rng=3).as_matrix()
    for a, expected in [(0.98 * critical, 1), (1.02 * critical, 2)]:
        pair = np.array([[math.cos(a), math.sin(a), 0], [math.cos(a), -math.sin(a), 0]])
        points = pair[:, :2] if dim == 2 else pair @ rotation.T
        found = find_maxima(potential(points, None, beta), dim)
        assert found.counts == expected
        np.testing.assert_allclose(found.shares, 1 / expected, atol=0.02)


@pytest.mark.parametrize("turn", ["axis", "pole", "random"])
def test_icosahedron_has_twelve_maxima_at_its_vertices(turn):
    vertex = ICOSAHEDRON[0]
    rotation = {
        "axis": Rotation.identity(),
        "pole": Rotation.align_vectors([[0, 0, 1]], [vertex])[0],
        "random": Rotation.random(rng=4),
    }[turn]
    points = rotation.apply(ICOSAHEDRON)
    found = find_maxima(potential(points, None, 30.0), 3)
    assert found.counts == 12
    nearest = np.max(found.points @ points.T, axis=1)
    np.testing.assert_allclose(nearest, 1, atol=1e-12)
    np.testing.assert_allclose(found.shares, 1 / 12, atol=0.004)


def test_sphere_maxima_are_critical_concave_and_turn_with_the_tokens():
    rng, rotation = np.random.default_rng(5), Rotation.random(rng=6)
    tokens = rng.standard_normal((4, 200, 3))
    tokens /= np.linalg.norm(tokens, axis=-1, keepdims=True)
    turned = tokens @ rotation.as_matrix().T
    here = find_maxima(c := potential(tokens, None, 20.0), 3)
    there = find_maxima(potential(turned, None, 20.0), 3)
    np.testing.assert_array_equal(here.counts, there.counts)
    for row in range(4):
        cosine = rotation.apply(here.points[here.owner == row]) @ there.points[there.owner == row].T
        np.testing.assert_allclose(cosine.max(1), 1, atol=1e-12)
    value, gradient, hessian = sphere_derivatives(c[here.owner], here.points)
    np.testing.assert_array_equal(value, here.values)
    assert np.abs(gradient).max() < 1e-10 * value.max()
    assert np.all(np.linalg.eigvalsh(hessian)[:, 1] < 0)
    np.testing.assert_allclose(np.bincount(here.owner, here.shares), 1, atol=1e-12)


@pytest.mark.parametrize("dim", [2, 3])
def test_the_flat_far_side_of_a_narrow_cluster_has_no_maxima(dim):
    point = np.ones((1, dim)) / math.sqrt(dim)
    found = find_maxima(potential(point, None, 100.0), dim)
    assert found.counts == 1
    np.testing.assert_allclose(found.points, point, atol=1e-9)


def test_light_clusters_are_not_lost():
    points = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    found = find_maxima(potential(points, np.array([0.998, 0.001, 0.001]), 30.0), 2)
    assert found.counts == 3


def test_quadratic_form_has_two_maxima_with_a_hemisphere_each():
    # 3x² + 2y² + z² on S²: maxima ±e_x; Y_22 ∝ x² − y², Y_20 ∝ 3z² − 1.
    c = np.zeros(9)
    c[8], c[6] = 1.0, -1.0
    found = find_maxima(c, 3)
    np.testing.assert_allclose(np.abs(found.points), [[1, 0, 0], [1, 0, 0]], atol=1e-9)
    np.testing.assert_allclose(found.shares, 0.5, atol=0.03)


def test_constants_have_none_and_batches_keep_their_shape():
    assert find_maxima([2.0, 0.0, 0.0], 2).counts == 0
    assert find_maxima(np.eye(9)[0], 3).counts == 0
    c = np.zeros((2, 3, 6))
    c[..., 5] = 1
    assert find_maxima(c, 2).counts.tolist() == [[5] * 3] * 2


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="dim must be 2 or 3, got 4"):
        find_maxima([1.0], 4)


def test_basins_of_an_icosahedron_are_its_voronoi_cells():
    """By symmetry; a place nearer to a border than a cell of the grid may be given away."""
    turned = Rotation.from_euler("xyz", [0.3, 0.5, 0.7]).apply(ICOSAHEDRON)
    series = potential(turned, np.full(12, 1 / 12), 9.0)
    x = np.random.default_rng(0).standard_normal((20_000, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    near = np.sort(x @ turned.T, axis=1)
    cell = np.pi / (4 * (math.isqrt(len(series)) - 1))
    clear = np.arccos(near[:, -2]) - np.arccos(near[:, -1]) > 4 * cell
    assert np.mean(clear) > 0.6
    basins = sphere_basins(series, turned, x)
    assert np.mean(basins[clear] != np.argmax(x @ turned.T, axis=1)[clear]) == 0
    assert np.mean(basins != np.argmax(x @ turned.T, axis=1)) < 0.05
