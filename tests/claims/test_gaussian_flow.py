"""The Gaussian flow against tokens, at every scale of time, and through its derivatives."""

import numpy as np
import pytest

import metastable as ms
from metastable.core.numerics import jax, jnp
from metastable.measures import Gaussian
from metastable.theory.gaussian import covariance_at
from tests.flows.test_gaussian import COV, FIELDS, MEAN
from tests.gaussians import hermite, moments

pytestmark = pytest.mark.claim
NAMES = ["softmax", "repulsion", "L2", "Sinkhorn identity", "heads"]


@pytest.mark.parametrize("name", NAMES)
def test_flow_moves_mean_and_covariance_as_tokens_do(name):
    field, times = FIELDS[name], np.array([0.2, 0.5])
    # An affine map carries quadrature tokens to quadrature tokens: they are exact at every time.
    tokens = ms.flow(hermite(MEAN, COV, order=16), field, 0.5, frames=times)
    run = ms.flow(Gaussian(MEAN, COV), field, 0.5, frames=times)
    assert run.outcome.name == "done" and run.clock == tokens.clock
    for frame, other in zip(run.frames, tokens.frames, strict=True):
        mean, cov = moments(other)
        assert np.allclose(frame.mean, mean, atol=1e-7)
        assert np.allclose(frame.cov, cov, atol=1e-7)


def test_blow_up_is_found_at_any_scale_of_time():
    for size in (1e-8, 1e8):
        run = ms.flow(Gaussian([0.0], [[size]]), ms.SelfAttention(1.0), 10.0 / size, frames=2)
        assert run.statistics["blow_up_time"] == pytest.approx(0.5 / size, rel=1e-9)
        assert "infinite at t" in run.outcome.message


def test_negative_value_turns_the_sign_of_time():
    cov = np.diag([1.0, 0.5])
    run = ms.flow(Gaussian([0.0, 0.0], cov), ms.SelfAttention(1.0, value=-1), 2.0, frames=2)
    assert np.allclose(run.frames[-1].cov, covariance_at(2.0, cov, -np.eye(2)), rtol=1e-9)


def test_gradient_through_the_flow_equals_that_of_the_closed_form():
    def spread(beta):
        run = ms.flow(Gaussian(jnp.zeros(1), jnp.eye(1)), ms.SelfAttention(beta), 0.2, frames=2)
        return run.frames[-1].cov[0, 0]

    # 1/(1 − 2βt): derivative 2t/(1 − 2βt)²
    assert float(jax.grad(spread)(1.0)) == pytest.approx(0.4 / 0.36, rel=1e-8)


def test_step_limit_is_an_outcome():
    field, short = ms.SelfAttention(1.0, value=-1), ms.Adaptive(max_steps=20)
    run = ms.flow(Gaussian([0.0], 1.0), field, 1e6, stepper=short, frames=2)
    assert run.outcome.name == "step_limit" and len(run.frames) == 1


def test_fixed_steps():
    start, field = Gaussian([0.0], 1.0), ms.SelfAttention(1.0, value=-1)
    run = ms.flow(start, field, 1.0, stepper=ms.Fixed(step=0.01), frames=3)
    assert run.statistics["steps"] == 100
    assert float(run.frames[-1].cov[0, 0]) == pytest.approx(1 / 3, rel=1e-8)


def test_l2_attention_grows_without_a_pole():
    # σ² alone: d(σ²)/dt = 2σ⁴/(1+σ²), so t = (log σ² − 1/σ² + 1)/2 from σ² = 1
    run = ms.flow(Gaussian([0.0], 1.0), ms.L2Attention(1.0), 3.0, frames=2)
    assert run.outcome.name == "done"
    s = float(run.frames[-1].cov[0, 0])
    assert (np.log(s) - 1 / s + 1) / 2 == pytest.approx(3.0, rel=1e-9)
