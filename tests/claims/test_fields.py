"""Slow checks of fields and flows: late exponents, the averaged limit, stationary laws."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import kstest

import metastable as ms
from tests import oracles

pytestmark = pytest.mark.claim


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize(("n", "dim", "beta"), [(2, 2, 8.0), (32, 32, 4.0), (64, 128, 0.5)])
def test_equiangular_tokens_at_many_sizes(n, dim, beta, normalized):
    stepper = ms.Adaptive(rtol=1e-12, atol=1e-12)
    horizon = {True: 12.0, False: 2.0}[normalized]
    field = ms.SelfAttention(beta, normalized=normalized)
    run = ms.flow(ms.orthogonal(n, dim, seed=3), field, horizon, stepper=stepper)
    gamma = oracles.equiangular(run.times, n, beta, normalized)
    inner = np.einsum("tid,tjd->tij", run.points, run.points)[:, ~np.eye(n, dtype=bool)]
    assert np.abs(inner - gamma[:, None]).max() < 1e-8


@pytest.mark.parametrize("placement", [ms.PreNorm(), ms.PeriNorm(), ms.Mix(until=1.0)])
def test_radius_placements_reach_their_power_law(placement):
    # 1−γ ~ t^{−2}; the correction of the local exponent is r(0)/t, below 0.1 % past t = 5000.
    field = ms.Block(ms.SelfAttention(1.0), placement)
    stepper = ms.Adaptive(rtol=1e-12, atol=1e-12)
    times = np.geomspace(5e3, 4e4, 5)
    run = ms.flow(ms.orthogonal(6, 6).euclidean(), field, 4e4, frames=times, stepper=stepper)
    theta = oracles.unit(run.points[1:])
    gap = 0.5 * ((theta[:, 0] - theta[:, 1]) ** 2).sum(-1)
    assert np.polyfit(np.log(run.times[1:]), np.log(gap), 1)[0] == pytest.approx(-2, rel=2e-3)


def test_random_layers_approach_the_averaged_flow_in_continuous_depth():
    # The same law as in tests/systems/test_resampled.py, by `flow` through every switch.
    start = ms.uniform(6, 3, seed=4)
    draw = lambda key: ms.SelfAttention(2.0, value=jnp.eye(3) + jax.random.normal(key, (3, 3)))
    mean = ms.flow(start, ms.SelfAttention(2.0), 2.0, frames=2).points[-1]
    depths, errors = np.array([8, 32, 128]), []
    for depth in depths.tolist():
        squares = []
        for seed in range(16):
            field = ms.Schedule.resampled(draw, depth, 2.0, seed=100 + seed)
            last = ms.flow(start, field, 2.0, frames=2).points[-1]
            squares.append(np.mean((last - mean) ** 2))
        errors.append(np.sqrt(np.mean(squares)))
    slope = np.polyfit(np.log(depths), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.1)


def test_noise_and_a_pull_settle_in_von_mises_fisher_on_the_sphere():
    # dx = P_x(e)dt + √(2/κ)dW has the stationary density ∝ e^{κ⟨x,e⟩}, with heights in closed form.
    class Axis(ms.Field):
        @property
        def clock(self):
            return "axis"

        def drift(self, measure, at, t, sum):
            return jnp.broadcast_to(jnp.eye(measure.dim)[0], at.points.shape)

    n, kappa = 20_000, 3.0
    start = ms.uniform(n, 3, seed=1)
    run = ms.flow(start, Axis() + ms.Noise(kappa), 8.0, frames=2, stepper=ms.Geodesic(0.02))
    h = run.points[-1][:, 0]
    cdf = lambda h: (np.exp(kappa * h) - np.exp(-kappa)) / (2 * np.sinh(kappa))
    assert kstest(h, cdf).pvalue > 1e-4


def test_geodesic_steps_err_as_computed():
    # On S² half a Brownian step is a Gaussian tangent vector of variance s = step/κ per axis, and
    # the first mode shrinks by E cos(√s R), R Rayleigh: 1 − s + s²/3, not e^{−s}. At a coarse step
    # the run must show that factor, to the power of 2t/step.
    n, kappa, t = 10**6, 1.0, 0.5
    radius = np.sqrt(-2 * np.log(1 - (np.arange(10**5) + 0.5) / 10**5))  # Rayleigh quantiles
    start = ms.Points(np.tile([1.0, 0.0, 0.0], (n, 1)))
    exact, gaps = np.exp(-2 * t / kappa), []
    for step in (0.25, 0.125):
        run = ms.flow(start, ms.Noise(kappa), t, frames=2, stepper=ms.Geodesic(step), seed=7)
        predicted = np.mean(np.cos(np.sqrt(step / kappa) * radius)) ** (2 * t / step)
        assert abs(run.points[-1][:, 0].mean() - predicted) < 4 * 0.6 / np.sqrt(n)
        gaps.append(abs(predicted - exact))
    assert gaps[0] / gaps[1] == pytest.approx(2, abs=0.3)  # weak order one


def test_causal_prompts_follow_their_first_token_at_length():
    start = ms.uniform(64, 8, seed=2)
    run = ms.flow(start, ms.SelfAttention(2.0, causal=True), horizon=400.0, frames=3)
    assert np.abs(run.points[-1] - np.asarray(start.points[0])).max() < 1e-5
