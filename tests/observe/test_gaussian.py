import numpy as np
import pytest
from scipy.linalg import sqrtm

from metastable.core.numerics import jax, jnp
from metastable.measures import Gaussian
from metastable.observe.distances import bures_wasserstein
from tests.gaussians import covariance


def closed(first, second):
    """The textbook form, by SciPy's matrix square root."""
    a, b = np.asarray(first.cov), np.asarray(second.cov)
    root = np.real(sqrtm(a))
    cross = np.real(np.trace(sqrtm(root @ b @ root)))
    gap = np.sum((np.asarray(first.mean) - np.asarray(second.mean)) ** 2)
    return np.sqrt(gap + np.trace(a) + np.trace(b) - 2 * cross)


def test_equals_the_textbook_form():
    random = np.random.default_rng(0)
    for dim in (1, 2, 5):
        first, second = (
            Gaussian(random.standard_normal(dim), covariance(random, dim)) for _ in "ab"
        )
        assert bures_wasserstein(first, second) == pytest.approx(closed(first, second), rel=1e-12)


def test_commuting_covariances_and_singular_ones():
    first = Gaussian([0.0, 0.0], np.diag([4.0, 0.0]))
    second = Gaussian([0.0, 0.0], np.diag([1.0, 9.0]))
    assert bures_wasserstein(first, second) == pytest.approx(np.hypot(1, 3), rel=1e-14)
    line = Gaussian.from_factor([0.0, 0.0], [[2.0], [0.0]])
    assert bures_wasserstein(line, second) == pytest.approx(np.hypot(1, 3), rel=1e-14)


def test_is_zero_to_rounding_between_equal_measures_with_different_factors():
    random = np.random.default_rng(1)
    factor = random.standard_normal((6, 6))
    turned = factor @ np.linalg.qr(random.standard_normal((6, 6)))[0]
    pair = (Gaussian.from_factor(np.zeros(6), f) for f in (factor, turned))
    assert bures_wasserstein(*pair) < 1e-13


def test_gradient_equals_finite_differences():
    random = np.random.default_rng(2)
    target = Gaussian(np.zeros(3), covariance(random, 3))
    start, way = covariance(random, 3), random.standard_normal((3, 3))
    way = way + way.T

    def distance(s):
        return bures_wasserstein(Gaussian(jnp.ones(3), start + s * way), target)

    step = 1e-5
    slope = (float(distance(step)) - float(distance(-step))) / (2 * step)
    assert float(jax.grad(distance)(0.0)) == pytest.approx(slope, rel=1e-7)


def test_dimensions_must_agree():
    with pytest.raises(ValueError, match="dimension 2"):
        bures_wasserstein(Gaussian([0.0, 0.0], 1.0), Gaussian([0.0], 1.0))
