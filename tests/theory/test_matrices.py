"""Laws of random matrices, against quadrature, known moments and matrices themselves."""

import numpy as np
import pytest
from scipy.integrate import quad

from metastable.theory.fits import fit_matrix, fit_scale, kolmogorov_distance, outliers
from metastable.theory.matrices import (
    FussCatalan,
    MarchenkoPastur,
    QuarterCircle,
    Semicircle,
    outlier_location,
)

LAWS = [
    Semicircle(scale=2.0),
    QuarterCircle(scale=0.5),
    MarchenkoPastur(scale=2.0, ratio=0.3),
    MarchenkoPastur(scale=0.5),
    MarchenkoPastur(ratio=3.0),
    FussCatalan(scale=1.5),
    FussCatalan(order=1),
    FussCatalan(order=4),
]


def integrate(law, function, upto):
    """∫ function·density from the lower edge, with the singularity there taken out by u⁸."""
    low = law.edges[0]
    width = upto - low

    def integrand(u):
        x = low + width * u**8
        return float(function(x) * law.density(np.array(x))) * 8 * width * u**7

    return quad(integrand, 0, 1, epsabs=1e-11, epsrel=1e-11, limit=200)[0]


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_distribution_function_is_the_integral_of_the_density(law):
    low, high = law.edges
    for share in (0.1, 0.5, 0.9, 1.0):
        x = low + share * (high - low)
        mass = integrate(law, lambda _: 1.0, x) + law.atom
        assert float(law.cdf(np.array(x))) == pytest.approx(mass, abs=1e-9)
    assert law.cdf(np.array([low - 1 - abs(low), high + 1])).tolist() == pytest.approx([0, 1])


@pytest.mark.parametrize(
    ("law", "moments"),
    [
        (Semicircle(), (0, 1, 0)),
        (MarchenkoPastur(), (1, 2, 5)),  # Catalan numbers
        (MarchenkoPastur(ratio=0.5, scale=2.0), (2, 4 * 1.5, 8 * (1 + 1.5 + 0.25))),  # Narayana
        (FussCatalan(), (1, 3, 12)),
        (FussCatalan(order=3), (1, 4, 22)),
    ],
    ids=repr,
)
def test_moments(law, moments):
    for power, expected in enumerate(moments, start=1):
        found = integrate(law, lambda x, power=power: x**power, law.edges[1])
        assert found == pytest.approx(expected, abs=1e-8)


def test_order_one_is_marchenko_pastur():
    x = np.linspace(0.01, 3.99, 50)
    assert np.allclose(FussCatalan(order=1).cdf(x), MarchenkoPastur().cdf(x), atol=1e-13)
    assert np.allclose(FussCatalan(order=1).density(x), MarchenkoPastur().density(x), rtol=1e-12)


def test_scaling_a_law_scales_its_variable():
    law = MarchenkoPastur(ratio=0.3).scaled(5.0)
    x = np.linspace(0, 15, 31)
    assert np.allclose(law.cdf(x), MarchenkoPastur(ratio=0.3).cdf(x / 5))
    assert np.allclose(law.density(x), MarchenkoPastur(ratio=0.3).density(x / 5) / 5)


def test_kolmogorov_distance_equals_a_brute_force_supremum():
    random = np.random.default_rng(0)
    values = random.standard_normal(40)
    grid = np.unique(np.concatenate([values - 1e-9, values, np.linspace(-4, 4, 9)]))
    steps = (values[None] <= grid[:, None]).mean(axis=1)
    expected = np.max(np.abs(steps - Semicircle().cdf(grid)))
    assert kolmogorov_distance(values, Semicircle()) == pytest.approx(expected, abs=1e-8)


def test_zeros_meet_the_atom():
    random = np.random.default_rng(1)
    wide = random.standard_normal((300, 100))
    values = np.linalg.eigvalsh(wide @ wide.T / 100)  # 200 zeros, with rounding
    law = MarchenkoPastur(ratio=3.0)
    assert kolmogorov_distance(values, law) < 0.02
    assert outliers(values, law).size == 0


def test_uniform_entries_leave_one_outlier_near_n_mu():
    random = np.random.default_rng(2)
    n, variance = 300, 1 / 12
    entries = np.tril(random.random((n, n)))
    values = np.linalg.eigvalsh(entries + np.tril(entries, -1).T)
    found = outliers(values, Semicircle(scale=np.sqrt(n * variance)))
    expected = outlier_location(n, 0.5, variance)
    assert found.size == 1 and expected == pytest.approx(150 + 1 / 6)
    # the largest eigenvalue fluctuates by √2 σ: four of them
    assert abs(found[0] - expected) < 4 * np.sqrt(2 * variance)


@pytest.mark.parametrize("law", [Semicircle(), MarchenkoPastur(ratio=0.4), FussCatalan()], ids=repr)
def test_fitted_scale_is_the_true_one(law):
    low, high = law.edges
    quantiles = low + (high - low) * np.linspace(0, 1, 20_001) ** 6  # dense where density is
    shares = (np.arange(500) + 0.5) / 500
    sample = 3.7 * np.interp(shares, law.cdf(quantiles), quantiles)  # no noise but discreteness
    found, distance = fit_scale(sample, law)
    assert found.scale == pytest.approx(3.7, rel=2e-3) and distance < 0.002


def test_fit_of_a_rectangular_matrix_with_a_planted_direction():
    random = np.random.default_rng(3)
    noise = 0.1 * random.standard_normal((150, 300))
    u, v = (np.cos(np.pi * np.arange(n)) / np.sqrt(n) for n in (150, 300))
    fit = fit_matrix(noise + 10 * np.outer(u, v))
    assert isinstance(fit.fitted, MarchenkoPastur) and fit.fitted.ratio == 0.5
    assert fit.fitted.scale == pytest.approx(0.01, rel=0.05)
    assert fit.outliers.size == 1 and fit.outliers[0] == pytest.approx(100 / 300, rel=0.1)
    # the variance of the entries is moved by the direction, the fit is not
    assert fit.expected.scale > 1.15 * fit.fitted.scale
    assert fit.fitted_distance < 0.02 < fit.expected_distance
    told = fit.to_dict()
    assert told["law"] == "MarchenkoPastur" and told["outliers"] == 1


def test_fit_of_a_symmetric_matrix():
    random = np.random.default_rng(4)
    half = random.standard_normal((200, 200))
    fit = fit_matrix((half + half.T) / np.sqrt(2))
    assert isinstance(fit.fitted, Semicircle)
    assert fit.fitted.scale == pytest.approx(np.sqrt(200), rel=0.02)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Semicircle(scale=0.0), "scale"),
        (lambda: MarchenkoPastur(ratio=-1.0), "ratio"),
        (lambda: FussCatalan(order=0), "order"),
        (lambda: kolmogorov_distance(np.array([]), Semicircle()), "non-empty"),
        (lambda: fit_matrix(np.ones((3, 3))), "constant"),
        (lambda: fit_matrix(np.ones(3)), "two axes"),
        (lambda: fit_scale(np.zeros(5), Semicircle()), "mostly zero"),
    ],
)
def test_refusals(make, word):
    with pytest.raises(ValueError, match=word):
        make()
