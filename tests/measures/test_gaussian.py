import numpy as np
import pytest

from metastable.core.numerics import jax, jnp
from metastable.core.outcome import Outcome
from metastable.flows import Trajectory
from metastable.measures import Gaussian, Points

COV = np.array([[2.0, 0.5], [0.5, 1.0]])


def test_factor_gives_the_covariance_back():
    for cov in (COV, np.outer([1, 2.0], [1, 2.0]), np.zeros((2, 2))):
        assert np.allclose(Gaussian([0.0, 0.0], cov).cov, cov, atol=1e-15)
    assert np.allclose(Gaussian([0.0, 0.0], 4.0).cov, 4 * np.eye(2))


def test_eigenvalues_are_those_of_the_matrix_and_never_negative():
    assert np.allclose(Gaussian([0.0, 0.0], COV).eigenvalues, np.linalg.eigvalsh(COV), rtol=1e-14)
    thin = Gaussian.from_factor(np.zeros(3), [[1.0], [0.0], [1e-9]])
    assert thin.eigenvalues.min() >= 0 and thin.rank() == 1 and thin.dim == 3


def test_samples_have_the_moments():
    n = 40_000
    points = Gaussian([1.0, -2.0], COV).sample(n, seed=3)
    assert isinstance(points, Points) and not points.on_sphere
    x = np.asarray(points.points)
    # four standard errors of a mean and of a variance
    assert np.all(np.abs(x.mean(axis=0) - [1, -2]) < 4 * np.sqrt(np.diag(COV) / n))
    assert np.all(np.abs(np.cov(x.T) - COV) < 4 * 2.0 * np.sqrt(2 / n))
    assert np.array_equal(x, Gaussian([1.0, -2.0], COV).sample(n, seed=3).points)


def test_of_tokens_is_numpys_covariance_with_weights():
    random = np.random.default_rng(0)
    x, w = random.standard_normal((50, 3)), random.integers(1, 5, 50)
    found = Gaussian.of(Points(x, w, on_sphere=False))
    assert np.allclose(found.cov, np.cov(x.T, fweights=w, bias=True), rtol=1e-12)
    assert np.allclose(found.mean, np.average(x, axis=0, weights=w), rtol=1e-12)


def test_gradients_pass_through_the_factor():
    def spread(cov):
        return jnp.sum(Gaussian(jnp.zeros(2), cov).factor ** 2)  # the trace

    assert np.allclose(np.tril(jax.grad(spread)(jnp.asarray(COV))), np.eye(2), atol=1e-12)


@pytest.mark.parametrize(
    ("mean", "cov", "word"),
    [
        ([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]], "positive semidefinite"),
        ([0.0, 0.0], [[1.0, 0.1], [0.0, 1.0]], "symmetric"),
        ([0.0, 0.0], np.eye(3), "2 x 2"),
        ([0.0], -1.0, "cov must be >= 0"),
        ([np.nan], [[1.0]], "mean must be finite"),
    ],
)
def test_refusals_name_what_is_wrong(mean, cov, word):
    with pytest.raises(ValueError, match=word):
        Gaussian(mean, cov)


def test_trajectories_of_gaussians_are_stored(tmp_path):
    wide = Gaussian([1.0, 2.0], COV)
    thin = Gaussian.from_factor([0.0, 0.0], [[1.0], [2.0]])
    run = Trajectory(np.array([0.0, 1.0]), (wide, thin), "SA", Outcome.done(), {})
    back = Trajectory.load(run.save(tmp_path / "run"))
    for old, new in zip(run.frames, back.frames, strict=True):
        assert np.array_equal(old.mean, new.mean)
        assert np.allclose(old.cov, new.cov, rtol=1e-15)
