"""Numbers of maxima of random functions against closed forms and against sampled functions."""

import math

import numpy as np
import pytest

from metastable.geometry.harmonics import multiplicity
from metastable.geometry.maxima import find_maxima
from metastable.theory.waves import expected_maxima, maxima_variance


def sampled(power, dim, samples, seed):
    """Counts of maxima of Gaussian functions with the given power in degrees 1.."""
    rng = np.random.default_rng(seed)
    degree = np.arange(len(power) + 1)
    each = np.r_[0.0, power] / [max(1, multiplicity(int(k), dim)) for k in degree]
    if dim == 2:
        normal = rng.standard_normal((samples, len(degree), 2)) @ [1, 1j]
        return find_maxima(normal * np.sqrt(each), 2).counts
    normal = rng.standard_normal((samples, len(degree) ** 2))
    return find_maxima(normal * np.sqrt(np.repeat(each, 2 * degree + 1)), 3).counts


def test_a_single_degree_has_its_own_number():
    assert expected_maxima([0, 0, 0, 1.0], 2) == pytest.approx(4.0, rel=1e-14)
    assert maxima_variance([0, 0, 0, 1.0]) < 1e-3
    for ell in (1, 2, 40):  # 1 + ((L−2)/2)/√(3 + 4/(L−2)); one maximum of a linear function
        big = ell * (ell + 1) - 2
        expected = 1.0 if big == 0 else 1 + big / 2 / math.sqrt(3 + 4 / big)
        assert expected_maxima(np.eye(ell)[-1], 3) == pytest.approx(expected, rel=1e-13)
    assert expected_maxima(np.eye(400)[-1], 3) == pytest.approx(400 * 401 / 12**0.5, rel=1e-4)


@pytest.mark.parametrize(
    ("power", "dim", "samples"),
    [([1, 2, 3, 1, 0.5], 2, 4000), ([0, 0, 1, 1, 1, 1, 1], 2, 4000), ([1, 1, 2, 1], 3, 500)],
)
def test_mean_and_variance_of_sampled_functions(power, dim, samples):
    counts = sampled(np.array(power, float), dim, samples, 1)
    error = counts.std() / math.sqrt(samples)
    assert counts.mean() == pytest.approx(expected_maxima(power, dim), abs=4 * error)
    if dim == 2:  # the relative error of a variance is near √(2/samples) = 2 %
        assert counts.var() == pytest.approx(maxima_variance(power), rel=0.1)


def test_other_dimensions_are_refused():
    with pytest.raises(ValueError, match="dim must be 2 or 3, got 4"):
        expected_maxima([1.0], 4)
