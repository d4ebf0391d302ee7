"""Retrieval by particles against an exact chain of two, finite differences and brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from metastable.core.numerics import jax, jnp
from metastable.observe.retrieval import (
    circle_drift,
    flow_circle,
    force_waves,
    position_bias,
    position_weights,
    retrieval_profile,
)


def test_two_tokens_follow_the_exact_answer():
    # β = 0: φ' = −sin φ is a Möbius flow of the circle, so that E cos φ(t) = tanh(t/2).
    bias, t = position_bias(2, own=False), 1.5
    profile = retrieval_profile(bias, 0.0, t, systems=4000, steps=32, chunk=1500)
    exact = 2 * np.tanh(t / 2)
    assert abs(profile.response[0] - exact) < 4 * profile.response_error[0]
    assert abs(profile.plain[0] - exact) < 4 * profile.plain_error[0]
    assert profile.response_error[0] < 0.03
    # Mode 2: E cos 2φ = tanh²(t/2) by the same flow.
    second = retrieval_profile(bias, 0.0, t, systems=4000, steps=32, mode=2)
    assert abs(second.response[0] - 2 * np.tanh(t / 2) ** 2) < 4 * second.response_error[0]


def test_errors_are_the_scatter_over_seeds():
    bias, weights = position_bias(6, 1.0), np.array([[0.5, 0.5, -1.0, 0.0, 1.0]])
    runs = [retrieval_profile(bias, 1.0, 1.5, systems=64, steps=8, seed=k) for k in range(64)]
    means, errors = np.array([np.ravel(run.averaged(weights)) for run in runs]).T
    assert errors.mean() == pytest.approx(means.std(ddof=1), rel=0.25)  # 2.8 of its own errors
    singles = np.array([run.response for run in runs]).std(axis=0, ddof=1)
    ratio = np.mean([run.response_error for run in runs], axis=0) / singles
    assert ratio.mean() == pytest.approx(1.0, abs=0.15)


def test_tokens_that_see_nothing_stay_and_every_system_counts_once():
    profile = retrieval_profile(np.full((3, 3), -np.inf), 1.0, 1.0, systems=1000, chunk=300)
    assert np.all(profile.response == 0)
    assert profile.plain_error == pytest.approx(np.full(2, 3 / np.sqrt(2000)), rel=0.05)
    assert np.all(np.abs(profile.plain) < 4 * profile.plain_error)


BIAS = position_bias(7, 2.0, width=4, sinks=1, period=3.0, depth=0.5)


def velocity(theta, beta, bias):
    """θ' by loops."""
    out = np.zeros_like(theta)
    for i in range(len(theta)):
        weights = [np.exp(bias[i, j]) for j in range(len(theta))]
        for j, weight in enumerate(weights):
            apart = theta[j] - theta[i]
            out[i] += (
                weight / max(sum(weights), 1e-300) * np.exp(beta * np.cos(apart)) * np.sin(apart)
            )
    return out


OTHER = position_bias(7, 0.5, own=False)  # a second head: flat, of all earlier tokens


@pytest.mark.parametrize(
    "heads", [[(BIAS, 0.0, 1.0)], [(BIAS, 6.0, 1.0)], [(BIAS, 1.0, 0.3), (OTHER, 3.0, 0.7)]]
)
def test_flow_and_derivative_are_those_of_the_equation(heads):
    start = np.random.default_rng(1).uniform(0, 2 * np.pi, (7, 2))
    biases, betas, outputs = zip(*heads, strict=True)
    pull = jnp.asarray([position_weights(bias) for bias in biases])
    force = force_waves(betas, jnp.float64, outputs)
    drift = np.asarray(circle_drift(jnp.asarray(start), pull, force))
    total = lambda y: sum(o * velocity(y, beta, bias) for bias, beta, o in heads)
    expected = np.stack([total(column) for column in start.T], axis=1)
    assert np.abs(drift - expected).max() < 1e-12 * max(1, np.abs(expected).max())
    t = 0.5 * np.exp(-max(betas))
    flow = lambda y: flow_circle(y, pull, force, t / 40, 40)
    end = np.asarray(flow(jnp.asarray(start)))
    run = lambda y: solve_ivp(lambda _, x: total(x), (0, t), y, rtol=1e-11, atol=1e-12)
    assert np.abs(end[:, 0] - run(start[:, 0]).y[:, -1]).max() < 1e-7
    slope = np.asarray(jax.grad(lambda y: flow(y)[-1].sum())(jnp.asarray(start)))
    for j in range(7):
        nudge = np.zeros((7, 2))
        nudge[j, 0] = 1e-5
        ends = [np.asarray(flow(jnp.asarray(start + sign * nudge)))[-1, 0] for sign in (1, -1)]
        assert slope[j, 0] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-8)


def test_windows_of_positions_are_means():
    profile = retrieval_profile(BIAS, 1.0, 1.0, systems=64)
    parts = np.split(profile.response, [3])  # s = 1/7 … 6/7
    binned = profile.binned([0, 0.5, 1])
    np.testing.assert_allclose(binned[:, 1], [part.mean() for part in parts])


def test_equal_heads_are_one_head():
    one = retrieval_profile(BIAS, 1.5, 1.0, systems=64, steps=20)
    two = retrieval_profile([BIAS, BIAS], 1.5, 1.0, systems=64, steps=20)
    np.testing.assert_allclose(two.response, one.response, atol=1e-10)
    twice = retrieval_profile([BIAS, BIAS], [1.5, 0.0], 1.0, systems=64, steps=20, outputs=[1, 0])
    np.testing.assert_allclose(twice.response, one.response, atol=1e-10)


def test_two_heads_respond_to_first_order_by_the_mean_of_their_kernels():
    from metastable.theory.retrieval import retrieval_row
    from metastable.theory.spectrum import growth_rates

    biases = [position_bias(6, 3.0, own=False), position_bias(6, own=False, width=3)]
    betas, t = [0.5, 2.0], 0.02
    rates = [float(growth_rates(beta, 2, 1, normalized=False)[0]) for beta in betas]
    pull = [position_weights(bias) for bias in biases]
    expected = retrieval_row(pull, [0.5 * rate * t for rate in rates])
    profile = retrieval_profile(biases, betas, t, systems=40_000, steps=4)
    off = np.abs(profile.response - expected)
    # Nonlinear terms are of second order in t e^β = 0.15.
    assert np.all(off < 4 * profile.response_error + 0.01 * expected.max())
    assert np.all(profile.response_error < 0.02 * expected.max())
    swapped = retrieval_row(pull, [0.5 * rate * t for rate in rates[::-1]])
    assert np.any(np.abs(profile.response - swapped) > 20 * profile.response_error)


def test_profile_approaches_the_closed_form_from_below():
    from metastable.theory.retrieval import retrieval_law
    from metastable.theory.spectrum import growth_rates

    rate = float(growth_rates(1.0, 2, 1, normalized=False)[0])
    bias = position_bias(16, 1.0, own=False)
    how = {"systems": 3000, "precision": "float32", "steps": 8}
    profile = retrieval_profile(bias, 1.0, 1 / rate, **how)
    ratio = profile.response[4:] / retrieval_law(profile.position[4:], 1.0)
    # Measured with 4096 systems: 0.80 at 16 tokens, 0.93 at 64, 0.98 at 256.
    assert ratio.mean() == pytest.approx(0.80, abs=0.05)
    assert np.all(profile.response_error < profile.plain_error)


def test_bad_arguments_are_named():
    for call in (
        lambda: retrieval_profile(np.full((2, 2), np.nan), 1.0, 1.0, systems=4),
        lambda: retrieval_profile(BIAS, -1.0, 1.0, systems=4),
        lambda: retrieval_profile(BIAS, 1.0, 1.0, systems=1),
        lambda: retrieval_profile([BIAS, BIAS], [1.0, 1.0, 1.0], 1.0, systems=4),
        lambda: retrieval_profile([BIAS, BIAS], 1.0, 1.0, systems=4, outputs=[1.0]),
        lambda: position_bias(1),
    ):
        with pytest.raises(ValueError, match="must"):
            call()
