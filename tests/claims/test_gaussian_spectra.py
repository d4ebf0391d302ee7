"""Spectra at the published sizes: distances fall with n, and the outlier stands at nμ."""

import pytest

from metastable.comparison.random_matrices import ENSEMBLES, judge_spectra, spectra

pytestmark = pytest.mark.claim


@pytest.fixture(scope="module")
def found():
    return {one.name: one for one in spectra(sizes=(100, 300, 1000, 3000))}


@pytest.mark.parametrize("name", ENSEMBLES)
def test_distance_falls_with_n(found, name):
    distances = found[name].distances
    assert list(distances) == sorted(distances, reverse=True)
    assert distances[-1] < 0.003


def test_outlier_within_one_percent_of_n_mu(found):
    (outlier,) = found["uniform-unscaled"].outliers
    assert outlier == pytest.approx(1500, rel=0.01)


def test_unscaled_radius_is_the_printed_one(found):
    law = found["wigner-unscaled"].law
    assert law.edges[1] == pytest.approx(109.5, abs=0.05)
    assert found["wigner-unscaled"].values[-1] == pytest.approx(109.5, rel=0.02)
    # the printed height of the curve: 1/(2πσ²n) = 5.3e−5, times the radius
    assert law.density(0.0) == pytest.approx(5.3e-5 * 109.5, rel=0.01)


def test_every_verdict_agrees(found):
    assert judge_spectra(list(found.values())).agrees
