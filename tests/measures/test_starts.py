"""Every start against its law: moments, scipy's Bessel functions, Kolmogorov–Smirnov."""

from __future__ import annotations

import jax
import mpmath
import numpy as np
import pytest
from scipy.stats import beta as beta_law
from scipy.stats import chi2, kstest, norm

import metastable as ms
from metastable.geometry.sphere import retract
from metastable.measures.starts import _vmf_depths
from tests import oracles

N = 20_000
FALSE_ALARM = 1e-4  # per Kolmogorov–Smirnov test; the draws are seeded, so green stays green


@pytest.mark.parametrize("dim", [2, 3, 16])
def test_uniform_has_the_moments_of_the_sphere(dim):
    x = np.asarray(ms.uniform(N, dim, seed=3).points)
    assert np.abs(np.linalg.norm(x, axis=1) - 1).max() < 1e-15
    # E x = 0 with variance 1/d per axis; E xxᵀ = I/d; E x_1⁴ = 3/(d(d+2)).
    assert np.abs(x.mean(0)).max() < 5 / np.sqrt(N * dim)
    spread = np.sqrt(3 / (dim * (dim + 2)) - 1 / dim**2)
    assert np.abs(x.T @ x / N - np.eye(dim) / dim).max() < 5 * spread / np.sqrt(N)
    # (1+x_1)/2 follows Beta((d−1)/2, (d−1)/2).
    law = beta_law((dim - 1) / 2, (dim - 1) / 2)
    assert kstest((1 + x[:, 0]) / 2, law.cdf).pvalue > FALSE_ALARM


def test_seeds_decide_the_draw():
    a, b, c = ms.uniform(9, 3, seed=1), ms.uniform(9, 3, seed=1), ms.uniform(9, 3, seed=2)
    assert np.array_equal(a.points, b.points)
    assert np.abs(np.asarray(a.points) - np.asarray(c.points)).max() > 0.1


@pytest.mark.parametrize(("tokens", "dim"), [(1, 2), (5, 7), (17, 3), (311, 3), (1025, 2)])
def test_uniform_tokens_are_those_of_a_draw_of_their_own_size(tokens, dim):
    """Drawing more and keeping the first compiles less often; the draw must not change.

    Some processors add up a norm in another order for another number of rows: to two units in the
    last place.
    """
    exact = jax.random.normal(jax.random.key(6), (tokens, dim), dtype=float)
    x = np.asarray(ms.uniform(tokens, dim, seed=6).points)
    np.testing.assert_array_max_ulp(x, np.asarray(retract(retract(exact))), maxulp=2)


@pytest.mark.parametrize("seed", [None, 0, 5])
def test_orthogonal_tokens_are_orthonormal(seed):
    x = np.asarray(ms.orthogonal(5, 9, seed=seed).points)
    assert np.abs(x @ x.T - np.eye(5)).max() < 1e-14


def test_random_orthogonal_frames_favour_no_direction():
    first = np.array([ms.orthogonal(2, 3, seed=s).points[1] for s in range(300)])
    assert kstest((1 + first[:, 0]) / 2, "uniform").pvalue > FALSE_ALARM  # Archimedes


@pytest.mark.parametrize("dim", [2, 3, 8, 64])
@pytest.mark.parametrize("kappa", [0.0, 0.5, 10.0, 1e4])
def test_von_mises_fisher_has_the_resultant_length_of_theory(dim, kappa):
    centre = np.arange(1.0, dim + 1)
    x = np.asarray(ms.von_mises_fisher(N, centre, kappa, seed=7).points)
    h = x @ (centre / np.linalg.norm(centre))
    mean = oracles.resultant_length(dim, kappa) if kappa else 0.0
    # Var⟨x,c⟩ = A′(κ) = 1 − A² − (d−1)A/κ, and 1/d at κ = 0.
    if kappa < 1e3:
        variance = 1 - mean**2 - (dim - 1) * mean / kappa if kappa else 1 / dim
    else:
        variance = (dim - 1) / (2 * kappa**2)  # the leading order; the exact form cancels
    assert abs(h.mean() - mean) < 5 * np.sqrt(variance / N)
    assert np.isclose(h.var(), variance, rtol=0.1)


def test_von_mises_fisher_on_the_sphere_has_exponential_heights():
    kappa = 4.0
    x = np.asarray(ms.von_mises_fisher(N, [0.0, 0.0, 3.0], kappa, seed=1).points)
    cdf = lambda h: (np.exp(kappa * h) - np.exp(-kappa)) / (2 * np.sinh(kappa))  # d = 3
    assert kstest(x[:, 2], cdf).pvalue > FALSE_ALARM
    azimuth = (np.arctan2(x[:, 1], x[:, 0]) / (2 * np.pi)) % 1
    assert kstest(azimuth, "uniform").pvalue > FALSE_ALARM


def _law_of_depths(dim, kappa):
    """Grid, distribution and mean of g = κ(1 − ⟨x,centre⟩), by quadrature over the angle.

    The angle has density ∝ sin^{d−2}θ e^{−κ(1 − cos θ)}; 1 − cos θ = 2 sin²(θ/2)
    keeps every digit for large κ.
    """
    widest = np.pi if kappa < 1 else min(np.pi, np.sqrt(8 * (60 + dim) / kappa))
    theta = np.linspace(0, widest, 40_001)
    g = 2 * kappa * np.sin(theta / 2) ** 2
    density = (np.sin(theta) / min(widest, 1.0)) ** (dim - 2) * np.exp(-g)
    mass = np.concatenate([[0], np.cumsum(density[1:] + density[:-1])])
    mean = np.trapezoid(g * density, theta) / np.trapezoid(density, theta)
    return g, mass / mass[-1], mean


@pytest.mark.parametrize("dim", [2, 3, 4, 16])
@pytest.mark.parametrize("kappa", [1e-8, 1e-2, 3.0, 1e6, 1e15, 1e16, 1e40, 1e300])
def test_von_mises_fisher_depths_follow_their_law_at_every_concentration(dim, kappa):
    g = kappa * _vmf_depths(np.random.default_rng(dim), N, dim, kappa)
    grid, law, mean = _law_of_depths(dim, kappa)
    assert kstest(g, lambda x: np.interp(x, grid, law)).pvalue > FALSE_ALARM
    assert abs(g.mean() - mean) < 5 * g.std() / np.sqrt(N)
    if kappa >= 1e6:  # there 2g is chi-squared with d − 1 degrees of freedom, to O(1/κ)
        assert kstest(2 * g, chi2(dim - 1).cdf).pvalue > FALSE_ALARM
    if dim == 3:  # Archimedes: an exponential cut off at 2κ
        cdf = lambda x: np.expm1(-x) / np.expm1(-2 * kappa)
        assert kstest(g, cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("dim", [2, 3, 4, 16])
@pytest.mark.parametrize("kappa", [1e-8, 1.0, 1e4, 1e12])
def test_von_mises_fisher_depths_have_the_mean_of_the_bessel_functions(dim, kappa):
    with mpmath.workdps(60):
        ratio = mpmath.besseli(dim / 2, kappa) / mpmath.besseli(dim / 2 - 1, kappa)
        expected = float(1 - ratio)
    below = _vmf_depths(np.random.default_rng(9), N, dim, kappa)
    assert abs(below.mean() - expected) < 5 * below.std() / np.sqrt(N)


@pytest.mark.parametrize("kappa", [1e16, 1e100, 1.79e308])
def test_tokens_of_any_concentration_lie_as_near_the_centre_as_they_should(kappa):
    """Across the centre every coordinate is N(0, 1/κ); warnings are errors here."""
    x = np.asarray(ms.von_mises_fisher(N, [1.0, 0.0, 0.0, 0.0], kappa, seed=2).points)
    assert np.abs(x[:, 0] - 1).max() < 3e-15
    assert kstest((x[:, 1:] * np.sqrt(kappa)).ravel(), norm.cdf).pvalue > FALSE_ALARM
    planted = np.asarray(ms.planted(5, 3, 3, concentration=kappa, seed=2).points)
    assert np.abs(np.linalg.norm(planted, axis=1) - 1).max() < 1e-15


def test_planted_tokens_of_a_seed_stay_where_they_were():
    """Tokens of an ordinary concentration, as Wood's scheme in w = 1 − u placed them."""
    random, kappa, dim = np.random.default_rng([4, 0]), 100.0, 3
    b = (dim - 1) / (2 * kappa + np.hypot(2 * kappa, dim - 1))
    x0 = (1 - b) / (1 + b)
    z = random.beta((dim - 1) / 2, (dim - 1) / 2, 24)
    w = (1 - (1 + b) * z) / (1 - (1 - b) * z)
    share = kappa * (w - x0) + (dim - 1) * np.log((1 - x0 * w) / (1 - x0**2))
    heights = w[share >= np.log(random.uniform(size=24))][:12]
    below = _vmf_depths(np.random.default_rng([4, 0]), 12, dim, kappa)
    np.testing.assert_allclose(1 - below, heights, rtol=1e-14)


@pytest.mark.parametrize("radius", [0.3, np.pi])
def test_caps_on_the_sphere_have_uniform_heights(radius):
    centres = np.array([[0.0, 0.0, 2.0], [1.0, 1.0, 0.0]])
    x = np.asarray(ms.caps(5000, centres, radius, seed=2).points).reshape(2, 5000, 3)
    for tokens, centre in zip(x, oracles.unit(centres), strict=True):
        h = tokens @ centre
        assert h.min() >= np.cos(radius) - 1e-12
        assert kstest((1 - h) / (1 - np.cos(radius)), "uniform").pvalue > FALSE_ALARM


def test_caps_follow_the_sine_power_law_in_other_dimensions():
    for dim, radius in [(2, 0.5), (6, 1.2)]:
        x = np.asarray(ms.caps(N, np.eye(dim)[:1], radius, seed=4).points)
        angle = np.arccos(np.clip(x[:, 0], -1, 1))
        grid = np.linspace(0, radius, 20_001)
        mass = np.cumsum(np.sin(grid) ** (dim - 2))
        cdf = lambda a, g=grid, m=mass: np.interp(a, g, (m - m[0]) / (m[-1] - m[0]))
        assert kstest(angle, cdf).pvalue > FALSE_ALARM


def test_simplex_and_polygon_have_their_inner_products():
    for dim in (2, 3, 7):
        x = np.asarray(ms.simplex(dim).points)
        assert x.shape == (dim + 1, dim)
        expected = (1 + 1 / dim) * np.eye(dim + 1) - 1 / dim
        assert np.abs(x @ x.T - expected).max() < 1e-14
    k = np.arange(7)
    x = np.asarray(ms.polygon(7, dim=4).points)
    assert np.abs(x @ x.T - np.cos(2 * np.pi * (k[:, None] - k) / 7)).max() < 1e-14
    assert np.abs(x[:, 2:]).max() == 0


def test_planted_clusters_have_equal_shares_around_their_centres():
    x = np.asarray(ms.planted(10, 3, 3, concentration=1e6, seed=1).points)
    same = x @ x.T > 0.999
    sizes = sorted({tuple(row) for row in same.tolist()}, key=lambda row: sum(row))
    assert [sum(row) for row in sizes] == [3, 3, 4]


def test_planted_clusters_of_neighbouring_seeds_are_independent():
    share = 200
    a = np.asarray(ms.planted(2 * share, 2, 2, concentration=5.0, seed=0).points)[share:]
    b = np.asarray(ms.planted(2 * share, 2, 2, concentration=5.0, seed=1).points)[:share]
    spread = lambda x: np.linalg.norm(x - oracles.unit(x.mean(0)), axis=1)
    correlation = np.corrcoef(spread(a), spread(b))[0, 1]
    assert abs(correlation) < 5 / np.sqrt(share)


def test_gaussian_points_are_normal_with_the_scale():
    m = ms.gaussian_points(N, 2, scale=3.0, seed=5)
    assert not m.on_sphere
    assert kstest(np.asarray(m.points)[:, 1] / 3, norm.cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("dim", "base"), [(6, 10000.0), (5, 100.0)])
def test_positional_start_adds_the_sinusoids(dim, base):
    words = np.random.default_rng(0).normal(size=(12, dim))
    tokens = ms.positional(words, base)
    expected = oracles.unit(words + oracles.sinusoids(12, dim, base))
    assert np.abs(np.asarray(tokens.points) - expected).max() < 1e-14
    assert tokens.positions.tolist() == list(range(12))


def test_from_array_keeps_directions_weights_and_times():
    m = ms.from_array([[3.0, 4.0], [0.0, -2.0]], weights=[3, 1], times=[1, 0])
    assert np.allclose(m.points, [[0.6, 0.8], [0, -1]])
    assert m.weights.tolist() == [0.75, 0.25] and m.positions.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ms.uniform(0, 2), r"tokens must be an integer >= 1; got 0"),
        (lambda: ms.uniform(2.5, 2), r"tokens.*2\.5"),  # pyright: ignore
        (lambda: ms.uniform(True, 2), r"tokens.*True"),
        (lambda: ms.uniform(4, 1), r"dim must be an integer >= 2; got 1"),
        (lambda: ms.uniform(4, 2, seed=-1), r"seed.*-1"),
        (lambda: ms.uniform(10**12, 100), r"1000000000000 tokens.*PiB.*fewer"),
        (lambda: ms.orthogonal(5, 4), r"tokens <= dim; got 5 tokens in dimension 4"),
        (lambda: ms.von_mises_fisher(4, [0.0, 0.0], 1.0), r"centre.*nonzero.*zeros"),
        (lambda: ms.von_mises_fisher(4, [[1.0, 0.0]], 1.0), r"centre.*1 non-empty.*\(1, 2\)"),
        (lambda: ms.von_mises_fisher(4, [1.0, 0.0], -2.0), r"concentration must be >= 0.*-2"),
        (lambda: ms.von_mises_fisher(4, [1.0, 0.0], np.nan), r"concentration.*nan"),
        (lambda: ms.planted(4, 2, 0), r"clusters.*>= 1.*0"),
        (lambda: ms.planted(4, 2, 5), r"clusters must be <= tokens \(4\); got 5"),
        (lambda: ms.caps(0, np.eye(2), 0.1), r"tokens_per_cap.*0"),
        (lambda: ms.caps(3, np.eye(2), 4.0), r"radius.*pi.*4"),
        (lambda: ms.caps(3, np.eye(2), 0.0), r"radius must be > 0.*0"),
        (lambda: ms.caps(3, [1.0, 0.0], 0.1), r"centres.*2 non-empty.*\(2,\)"),
        (lambda: ms.polygon(0), r"tokens.*0"),
        (lambda: ms.polygon(4, dim=1), r"dim.*1"),
        (lambda: ms.simplex(1), r"dim.*>= 2.*1"),
        (lambda: ms.simplex(2.5), r"dim.*2\.5"),  # pyright: ignore
        (lambda: ms.gaussian_points(3, 2, scale=0.0), r"scale must be > 0.*0"),
        (lambda: ms.gaussian_points(3, 0), r"dim.*>= 1.*0"),
        (lambda: ms.from_array([[1.0, 0.0], [0.0, 0.0]]), r"array.*zero row.*row 1"),
        (lambda: ms.from_array([[1.0, np.inf]]), r"array must be finite.*row 0"),
        (lambda: ms.positional(np.ones((2, 2)), base=-1.0), r"base must be > 0.*-1"),
    ],
)
def test_bad_arguments_are_named_with_their_value(make, message):
    with pytest.raises(ValueError, match=message):
        make()
