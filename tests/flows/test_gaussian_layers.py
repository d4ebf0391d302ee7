import mpmath
import numpy as np
import pytest

import metastable as ms
from metastable.core.numerics import jax, jnp
from metastable.flows.solvers.gaussian_layers import layer_map
from metastable.measures import Gaussian
from metastable.theory.gaussian import longest_truncated_step
from tests.gaussians import covariance, hermite, layered, moments


@pytest.mark.parametrize(("mean", "variance"), [(1.0, 0.5), (-3.0, 2.0), (0.25, 0.0)])
def test_one_dimension_is_exact(mean, variance):
    """μ_T = (2 + σ²)μ and σ_T² = (1 + σ²)²σ², up to the last place."""
    run = layered(Gaussian([mean], [[variance]]), ms.SelfAttention(1.0), depth=1)
    last = run.frames[-1]
    assert float(last.mean[0]) == pytest.approx((2 + variance) * mean, rel=4e-16)
    assert float(last.cov[0, 0]) == pytest.approx((1 + variance) ** 2 * variance, rel=1e-15)


def head(random, dim, keys, values):
    q, k = random.standard_normal((2, keys, dim)) / np.sqrt(dim)
    v = random.standard_normal((values, dim)) / np.sqrt(dim)
    w = random.standard_normal((dim, values)) / np.sqrt(values)
    return q, k, v, w


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("heads", [1, 3])
def test_layer_equals_fifty_digit_arithmetic_to_1e_13(heads, residual):
    random = np.random.default_rng(heads)
    dim, keys, values, step = 7, 3, 5, 0.3
    matrices = [head(random, dim, keys, values) for _ in range(heads)]
    field = ms.MultiHead(
        [ms.SelfAttention(keys**-0.5, q, k, v) for q, k, v, _ in matrices],
        [w for *_, w in matrices],
    )
    start = Gaussian(random.standard_normal(dim), covariance(random, dim))
    frame = layered(start, field, 1, step, residual=residual).frames[-1]
    with mpmath.workdps(50):
        mean, factor = mpmath.matrix(start.mean.tolist()), mpmath.matrix(start.factor.tolist())
        cov = factor * factor.T
        jacobian = mpmath.eye(dim) if residual else mpmath.zeros(dim)
        moved = mean.copy() if residual else mpmath.zeros(dim, 1)
        for q, k, v, w in (map(lambda m: mpmath.matrix(m.tolist()), one) for one in matrices):
            linear = w * v * cov * k.T * q / mpmath.sqrt(keys)
            jacobian += step * linear
            moved += step * (w * v * mean + linear * mean)
        exact = np.array((jacobian * cov * jacobian.T).tolist(), float)
        exact_mean = np.array(moved.tolist(), float)[:, 0]
    assert np.linalg.norm(frame.cov - exact) < 1e-13 * np.linalg.norm(exact)
    assert np.linalg.norm(frame.mean - exact_mean) < 1e-13 * np.linalg.norm(exact_mean)


def test_layers_move_quadrature_tokens_alike():
    """`layers` of weighted tokens and of the Gaussian they stand for agree."""
    mean, cov = np.array([0.3, -0.5]), np.array([[0.4, 0.1], [0.1, 0.3]])
    field = ms.MultiHead([ms.SelfAttention(0.5, value=-1), ms.L2Attention(0.7)], [1.0, 0.5])
    tokens = layered(hermite(mean, cov), field, depth=3, step=0.2)
    run = layered(Gaussian(mean, cov), field, depth=3, step=0.2)
    for frame, other in zip(run.frames, tokens.frames, strict=True):
        expected_mean, expected = moments(other)
        assert np.allclose(frame.mean, expected_mean, atol=1e-11)
        assert np.allclose(frame.cov, expected, atol=1e-11)


@pytest.mark.parametrize("draws", [100, pytest.param(1000, marks=pytest.mark.claim)])
def test_exact_layer_stays_positive_definite_and_the_truncated_one_does_not(draws):
    """Random draws, 1000 among the claims, in the scaling Σ = GGᵀ/√d, step 1."""
    random = np.random.default_rng(0)
    dim, keys, lost = 20, 12, 0
    for _ in range(draws):
        q, k, v, w = head(random, dim, keys, dim)
        field = ms.SelfAttention(1.0, query=k.T @ q / np.sqrt(keys), value=w @ v)
        start = Gaussian.from_factor(np.zeros(dim), random.standard_normal((dim, dim)) / dim**0.25)
        assert layered(start, field, 1).frames[-1].eigenvalues[0] > 0
        lost += layered(start, field, 1, truncated=True).outcome.name == "indefinite"
    assert lost == draws


def test_truncation_is_lost_exactly_past_its_longest_step():
    random = np.random.default_rng(1)
    cov, value = covariance(random, 4), random.standard_normal((4, 4))
    longest = longest_truncated_step(cov, value @ cov)
    assert np.isfinite(longest)
    start, field = Gaussian(np.zeros(4), cov), ms.SelfAttention(1.0, value=value)
    kept = layered(start, field, 1, 0.999 * longest, truncated=True)
    assert kept.outcome.name == "done" and kept.frames[-1].eigenvalues[0] > 0
    lost = layered(start, field, 3, 1.001 * longest, truncated=True)
    assert lost.outcome.name == "indefinite" and lost.statistics["steps"] == 0
    assert "at layer 1: eigenvalues from -" in lost.outcome.message
    assert "truncated" in lost.statistics["stepper"]


def test_truncated_map_is_the_first_order_of_the_exact_one():
    random = np.random.default_rng(2)
    start = Gaussian(random.standard_normal(3), covariance(random, 3))
    field = ms.SelfAttention(1.0, query=random.standard_normal((3, 3)))
    gaps = []
    for step in (1e-3, 1e-4):
        pair = [layered(start, field, 1, step, truncated=t).frames[-1] for t in (0, 1)]
        gaps.append(np.linalg.norm(pair[0].cov - pair[1].cov))
        assert np.allclose(pair[0].mean, pair[1].mean, rtol=1e-15)
    assert gaps[0] / gaps[1] == pytest.approx(100, rel=1e-3)


def test_divergence_names_its_layer_and_keeps_the_frames_before():
    run = layered(Gaussian([0.0], 1.0), ms.SelfAttention(1.0), depth=30, frames=4)
    # σ² ← (1+σ²)²σ² passes 1e308 at the 9th layer: 3^n digits of growth, like σ²·3ⁿ in logarithms
    variance, count = 1.0, 0
    while variance < 1e100:
        variance, count = (1 + variance) ** 2 * variance, count + 1
    with np.errstate(over="ignore"):
        while np.isfinite(np.float64(1 + variance) ** 2 * variance):
            variance, count = float(np.float64(1 + variance) ** 2 * variance), count + 1
    assert run.outcome.name == "blow_up" and f"layer {count + 1}" in run.outcome.message
    assert run.statistics["steps"] == count and run.times[-1] == count
    assert np.isfinite(run.frames[-1].cov).all()


def test_kept_layers_and_switching_fields():
    fields = ms.Schedule.piecewise([ms.SelfAttention(0.0), ms.SelfAttention(1.0)], [0.2])
    run = layered(Gaussian([0.0], 1.0), fields, depth=4, step=0.1, frames=3)
    assert run.times.tolist() == [0.0, 0.2, 0.4]
    # β = 0 leaves the covariance alone; then σ ← (1 + 0.1 σ²)σ twice
    sigma = 1.1
    assert float(run.frames[1].cov[0, 0]) == 1.0
    assert float(run.frames[2].cov[0, 0]) == pytest.approx(
        (1 + 0.1 * sigma**2) ** 2 * sigma**2, rel=1e-14
    )


def test_layer_map_is_differentiable():
    def spread(beta):
        return layer_map(jnp.zeros(1), jnp.ones((1, 1)), ms.SelfAttention(beta))[1][0, 0] ** 2

    assert float(jax.grad(spread)(1.0)) == pytest.approx(4.0)  # (1+β)² has slope 2(1+β)


def test_refusals():
    start, field = Gaussian([0.0], 1.0), ms.SelfAttention(1.0)
    with pytest.raises(ValueError, match="residual=False"):
        ms.Layers(residual=False, truncated=True)
    with pytest.raises(ValueError, match="causal"):
        layered(start, ms.SelfAttention(1.0, causal=True), 1)
    with pytest.raises(ValueError, match="horizon must be > 0"):
        layered(start, field, 0)
