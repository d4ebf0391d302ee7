import numpy as np
import pytest

import metastable as ms
from metastable.core.numerics import jnp
from metastable.flows.solvers.affine import affine_velocity
from metastable.measures import Gaussian
from metastable.theory.gaussian import (
    blow_up_time,
    collapsed_shape,
    covariance_at,
    limit_rank,
    mean_at,
)
from tests.gaussians import covariance, hermite

RANDOM = np.random.default_rng(5)
Q, K = 0.5 * RANDOM.standard_normal((2, 3, 2))
V, W = 0.6 * RANDOM.standard_normal((4, 2)), 0.6 * RANDOM.standard_normal((2, 4))
MEAN, COV = np.array([0.3, -0.5]), np.array([[0.8, 0.3], [0.3, 0.5]])
FIELDS = {
    "softmax": ms.SelfAttention(0.7, Q, K, W @ V),
    "identity": ms.SelfAttention(0.4),
    "repulsion": ms.SelfAttention(0.4, value=-1, query=0.5),
    "L2": ms.L2Attention(0.7, Q, K, W @ V),
    "L2 identity": ms.L2Attention(0.7),
    "Sinkhorn": ms.SinkhornAttention(0.7, Q, K, W @ V),
    "Sinkhorn identity": ms.SinkhornAttention(0.5),
    "heads": ms.MultiHead([ms.SelfAttention(0.7, Q, K, V), ms.L2Attention(0.5)], [W, 0.5]),
    "sum": ms.SelfAttention(0.4) + ms.SinkhornAttention(0.5, value=-1),
    "schedule": ms.Schedule(lambda t: ms.SelfAttention(0.3 + t)),
}


@pytest.mark.parametrize("name", FIELDS)
def test_velocity_equals_that_of_quadrature_tokens(name):
    """Gauss–Hermite tokens turn every integral of the field into a sum, exact to rounding."""
    places = np.array([[0.1, 0.2], [-0.7, 0.4], [0.9, -0.8]])
    tokens = hermite(MEAN, COV)
    factor = jnp.asarray(np.linalg.cholesky(COV))
    offset, linear = affine_velocity(FIELDS[name], jnp.asarray(MEAN), factor, 0.2)
    seen = FIELDS[name].velocity(tokens, at=places, t=0.2)
    assert np.allclose(offset + places @ linear.T, seen, rtol=0, atol=2e-10)


def cases(count, dim, seed):
    random = np.random.default_rng(seed)
    for _ in range(count):
        yield random.standard_normal((dim, dim)), covariance(random, dim), random


def test_closed_form_for_the_identity_value_to_1e_10():
    for bilinear, cov, random in cases(5, 4, seed=1):
        bilinear = (bilinear + bilinear.T) / 2
        mean, end = random.standard_normal(4), 0.8 * blow_up_time(cov, bilinear)
        end = min(end, 3.0)
        run = ms.flow(Gaussian(mean, cov), ms.SelfAttention(1.0, query=bilinear), end, frames=5)
        for t, frame in zip(run.times, run.frames, strict=True):
            expected = covariance_at(t, cov, bilinear)
            assert np.linalg.norm(frame.cov - expected) < 1e-10 * np.linalg.norm(expected)
            expected = mean_at(t, mean, cov, bilinear)
            assert np.linalg.norm(frame.mean - expected) < 1e-10 * np.linalg.norm(expected)


def test_blow_up_time_to_1e_6_in_20_random_cases():
    found = 0
    for bilinear, cov, _ in cases(20, 4, seed=2):
        expected = blow_up_time(cov, bilinear)
        run = ms.flow(
            Gaussian(np.zeros(4), cov), ms.SelfAttention(1.0, query=bilinear), 200.0, frames=2
        )
        assert run.outcome.name == "blow_up"
        assert run.statistics["blow_up_time"] == pytest.approx(expected, rel=1e-6)
        found += 1
    assert found == 20


def test_shape_collapses_to_rank_one_before_the_blow_up():
    for bilinear, cov, _ in cases(3, 4, seed=3):
        end = (1 - 1e-5) * blow_up_time(cov, bilinear)
        run = ms.flow(
            Gaussian(np.zeros(4), cov), ms.SelfAttention(1.0, query=bilinear), end, frames=2
        )
        last = np.asarray(run.frames[-1].cov)
        assert np.allclose(last / np.trace(last), collapsed_shape(cov, bilinear), atol=2e-3)
        assert run.frames[-1].rank(1e-3) == 1 and run.frames[-1].rank() == 4


def test_limit_rank_in_20_random_cases():
    """A + Aᵀ = −M of random rank, with a random antisymmetric part that must not matter."""
    random = np.random.default_rng(4)
    ranks = []
    for _ in range(20):
        dim, lost = 4, int(random.integers(1, 4))
        basis = np.linalg.qr(random.standard_normal((dim, dim)))[0][:, :lost]
        skew = 0.2 * random.standard_normal((dim, dim))
        bilinear = -(basis * random.uniform(1, 3, lost)) @ basis.T / 2 + skew - skew.T
        cov = covariance(random, dim)
        run = ms.flow(
            Gaussian(np.zeros(dim), cov), ms.SelfAttention(1.0, query=bilinear), 300.0, frames=2
        )
        ranks.append(limit_rank(cov, bilinear))
        assert ranks[-1] == dim - lost
        # what is lost is below 1/300 by then, what stays above 0.1
        assert run.frames[-1].rank(0.03) == ranks[-1]
    assert set(ranks) == {1, 2, 3}


def test_switching_schedules_are_not_stepped_across():
    fields = [ms.SelfAttention(0.1), ms.SelfAttention(0.9)]
    run = ms.flow(Gaussian([0.0], 1.0), ms.Schedule.piecewise(fields, [0.35]), 0.5, frames=2)
    # 1/σ² falls at the rate 2β
    expected = 1 / (1 - 2 * 0.1 * 0.35 - 2 * 0.9 * 0.15)
    assert float(run.frames[-1].cov[0, 0]) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("field", "word"),
    [
        (ms.SelfAttention(1.0, causal=True), "causal attention must be left out"),
        (ms.L2Attention(1.0, causal=True), "causal attention must be left out"),
        (ms.SelfAttention(1.0, normalized=False), "normalized=False is not affine"),
        (ms.SelfAttention(1.0, position=ms.Rope()), "positions is not affine"),
        (ms.SelfAttention(1.0) + ms.Noise(3.0), "got Noise"),
        (ms.SelfAttention(1.0, query=np.ones((2, 3))), "query must map dimension 2"),
        (ms.SelfAttention(1.0, value=np.ones((3, 2))), "map dimension 2 to itself"),
    ],
)
def test_refusals_say_why(field, word):
    with pytest.raises(ValueError, match=word):
        ms.flow(Gaussian([0.0, 0.0], 1.0), field, 1.0)


def test_token_options_are_refused():
    with pytest.raises(ValueError, match=r"stepper must be .* for Gaussian; got Merging"):
        ms.flow(Gaussian([0.0], 1.0), ms.SelfAttention(1.0), 1.0, stepper=ms.Merging())
    with pytest.raises(ValueError, match="stepper must be"):
        ms.flow(Gaussian([0.0], 1.0), ms.SelfAttention(1.0), 1.0, stepper=ms.Geodesic())
