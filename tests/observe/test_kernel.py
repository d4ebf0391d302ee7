import numpy as np
import pytest
from scipy.special import ive

from metastable.measures import Points, gaussian_points, planted, polygon, simplex, uniform
from metastable.observe import kernel_modes


def potential(measure, beta, places):
    x, w = np.asarray(measure.points), np.asarray(measure.weights)
    return np.exp(beta * (places @ x.T - 1)) @ w


def circle_peaks(measure, beta, size=40001):
    """Maxima of Z on a fine grid, and the minima between them."""
    theta = np.linspace(-np.pi, np.pi, size)[:-1]
    z = potential(measure, beta, np.stack([np.cos(theta), np.sin(theta)], axis=1))
    before, after = np.roll(z, 1), np.roll(z, -1)
    return theta[(z > before) & (z >= after)], theta[(z < before) & (z <= after)]


@pytest.mark.parametrize("tokens", [40, 400])
@pytest.mark.parametrize("beta", [3.0, 20.0, 100.0])
def test_circle_against_a_grid(tokens, beta):
    for seed in range(2):
        measure = uniform(tokens, 2, seed=seed)
        peaks, valleys = circle_peaks(measure, beta)
        found = kernel_modes(measure, beta)
        places = np.sort(np.arctan2(found.centres[:, 1], found.centres[:, 0]))
        assert found.count == len(peaks)
        np.testing.assert_allclose(places, peaks, atol=3e-4)
        shares = np.histogram(
            np.asarray(measure.angles), np.concatenate([[-np.pi], valleys, [np.pi]])
        )[0]
        shares[0] += shares[-1]
        # Mean shift starts once per tenth of the bandwidth, so a border token may change sides.
        border = 0 if tokens > 200 else 2
        gaps = np.sort(found.masses * tokens) - np.sort(shares[:-1])
        assert np.abs(gaps).max() <= border + 1e-9


@pytest.mark.parametrize(("dim", "beta"), [(3, 5.0), (3, 20.0), (4, 9.0)])
def test_centres_are_maxima(dim, beta):
    measure = uniform(250, dim, seed=dim)
    found = kernel_modes(measure, beta)
    rng = np.random.default_rng(0)
    for centre in found.centres:
        kick = rng.normal(size=(400, dim))
        near = centre + 3e-3 * kick / np.linalg.norm(kick, axis=1, keepdims=True)
        near /= np.linalg.norm(near, axis=1, keepdims=True)
        assert (potential(measure, beta, near) < potential(measure, beta, centre)).all()
    assert found.masses.sum() == pytest.approx(1)


def test_series_and_mean_shift_agree_on_the_sphere(monkeypatch):
    for seed in range(1):
        measure = uniform(300, 3, seed=seed)
        series = kernel_modes(measure, 20.0)
        monkeypatch.setattr("metastable.observe.kernel.FEW_TOKENS", 10**6)
        climbed = kernel_modes(measure, 20.0)
        monkeypatch.undo()
        assert series.count == climbed.count
        gaps = np.linalg.norm(series.centres[:, None] - climbed.centres, axis=2).min(axis=1)
        assert gaps.max() < 1e-5
        np.testing.assert_allclose(np.sort(series.masses), np.sort(climbed.masses), atol=0.03)


@pytest.mark.parametrize("dim", [2, 3, 8])
def test_planted_bumps(dim):
    measure = planted(400, dim, 4, concentration=3000.0, seed=7)
    found = kernel_modes(measure, 50.0)
    assert found.count == 4
    np.testing.assert_allclose(found.masses, 0.25, rtol=1e-12)


def test_symmetric_measures():
    # Two tokens at angle φ have one maximum between them iff β < β_c, where the second derivative
    # of e^{β cos(θ−φ/2)} at θ = 0 changes sign: β sin²(φ/2) = cos(φ/2).
    half = 0.4
    critical = np.cos(half) / np.sin(half) ** 2
    pair = Points([[np.cos(half), np.sin(half)], [np.cos(half), -np.sin(half)]])
    assert kernel_modes(pair, 0.95 * critical).count == 1
    assert kernel_modes(pair, 1.05 * critical).count == 2
    assert kernel_modes(simplex(4), 12.0).count == 5
    # A token on the saddle between two others belongs to one of them.
    triple = Points([[np.cos(a), np.sin(a)] for a in (-0.8, 0.0, 0.8)], [1, 1e-3, 1])
    assert kernel_modes(triple, 20.0).count == 2


def test_level_ridges_are_one():
    assert ive(300, 5.0) / ive(0, 5.0) < 1e-300  # the 300-gon's potential is constant
    for tokens in (100, 300):
        for dim in (2, 3):
            assert kernel_modes(polygon(tokens, dim), 5.0).count == 1


def test_odd_but_legal_measures():
    assert kernel_modes(Points([[1.0, 0.0]]), 3.0).count == 1
    ghost = kernel_modes(Points([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [1, 0, 1]), 50.0)
    assert ghost.labels.tolist() == [0, -1, 0]
    assert kernel_modes(polygon(2), 1e4).count == 2
    free = Points(
        np.concatenate([gaussian_points(20, 2, 0.1).points, 5 + np.zeros((5, 2))]), on_sphere=False
    )
    found = kernel_modes(free, 1.0)
    assert found.masses.tolist() == pytest.approx([0.8, 0.2])
    with pytest.raises(ValueError, match="beta must be > 0; got 0"):
        kernel_modes(polygon(3), 0.0)
