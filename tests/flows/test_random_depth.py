"""Weights drawn at every moment: the layers, the equation they tend to, and its steps."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metastable as ms
from metastable.fields.random import draw_matrix, triangle
from metastable.fields.sums import Dense
from metastable.geometry.sphere import exponential, project
from metastable.observe.random_depth import step_common

START = ms.uniform(5, 3, seed=2)


def _softmax_means(x, beta):
    weights = np.exp(beta * x @ x.T)
    return weights / weights.sum(axis=1, keepdims=True) @ x


def test_a_layer_is_the_residual_layer_of_one_matrix_for_all():
    """x ← N(x + √h W m), with the matrix of the layer's own key, in NumPy."""
    h, beta, seed = 0.3, 2.0, 7
    run = ms.flow(START, ms.RandomValue(beta), 2 * h, stepper=ms.Layers(h), seed=seed)
    x = np.asarray(START.points)
    for k in range(2):
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), k), 0)
        matrix = np.asarray(draw_matrix(key, 3, False))
        x = x + math.sqrt(h) * _softmax_means(x, beta) @ matrix.T
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        np.testing.assert_allclose(run.frames[k + 1].points, x, atol=1e-13)


def test_a_force_beside_random_weights_keeps_its_own_time():
    field = ms.SelfAttention(2.0) + ms.RandomValue(2.0, scale=1e-6)
    run = ms.flow(START, field, 2.0, stepper=ms.Layers(0.5), seed=1)
    quiet = ms.flow(START, ms.SelfAttention(2.0), 2.0, stepper=ms.Layers(0.5))
    np.testing.assert_allclose(run.frames[-1].points, quiet.frames[-1].points, atol=1e-5)
    assert run.clock == "SA"
    both = ms.flow(START, field, 2.0, seed=1)
    smooth = ms.flow(START, ms.SelfAttention(2.0), 2.0)
    # The midpoint rule in steps of 0.01 leaves 1e−5.
    np.testing.assert_allclose(both.frames[-1].points, smooth.frames[-1].points, atol=1e-4)


def test_few_tokens_feel_a_matrix_of_the_same_law():
    """L Z and M Wᵀ have one covariance, MMᵀ on each axis."""
    means = jnp.asarray(np.random.default_rng(0).normal(size=(3, 6)))
    lower = triangle(means)
    np.testing.assert_allclose(lower @ lower.T, means @ means.T, rtol=1e-12)
    field, pair = ms.RandomValue(1.0), ms.uniform(2, 6, seed=1)
    keys = jax.random.split(jax.random.key(0), 20_000)
    kicks = np.asarray(jax.vmap(lambda key: field.kick(pair, key, 0.0, Dense()))(keys))
    seen = np.einsum("sid,sjd->ij", kicks, kicks) / (20_000 * 6)
    exact = np.asarray(field.means(pair, 0.0, Dense()))
    np.testing.assert_allclose(seen, exact @ exact.T, atol=0.02)


def test_orthogonal_weights_have_the_scale_of_normal_ones():
    matrix = np.asarray(draw_matrix(jax.random.key(3), 5, True))
    np.testing.assert_allclose(matrix @ matrix.T, 5 * np.eye(5), atol=1e-12)


def test_steps_along_geodesics_have_strong_order_one_half():
    """Five tokens on one path of W up to t = ¼: errors against 2048 steps, over 400 paths."""
    field, paths, fine = ms.RandomValue(2.0), 400, 2048
    increments = jax.random.normal(jax.random.key(0), (paths, fine, 3, 3)) / math.sqrt(4 * fine)

    def end(matrices):
        def step(x, matrix):
            kick = field.means(START.at(x), 0.0, Dense()) @ matrix.T
            return exponential(x, project(x, kick)), None

        return jax.lax.scan(step, START.points, matrices)[0]

    ends = jax.jit(jax.vmap(end))
    exact, errors, counts = np.asarray(ends(increments)), [], (8, 16, 32, 64)
    for count in counts:
        coarse = increments.reshape(paths, count, fine // count, 3, 3).sum(axis=2)
        errors.append(math.sqrt(np.mean(np.sum((np.asarray(ends(coarse)) - exact) ** 2, axis=2))))
    order = -np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert 0.4 < order < 0.65


def test_many_heads_approach_the_averaged_flow_like_one_over_root_of_their_number():
    """σ² = η/H: E‖δ(T)‖² = σ²∫tr of the linearised equation, by a Lyapunov equation here."""
    beta, horizon, samples = 1.0, 1.0, 300
    start, force = ms.uniform(3, 3, seed=4), ms.SelfAttention(beta)
    steps = 200
    velocity = lambda x: force.velocity(start.at(x.reshape(3, 3)), sum=Dense()).ravel()
    x, cov = start.points.ravel(), jnp.zeros((9, 9))
    jacobian = jax.jit(jax.jacobian(velocity))
    for _ in range(steps):  # Euler steps of covariance along the flow
        points = np.asarray(x).reshape(3, 3)
        means = _softmax_means(points, beta)
        tangent = [np.eye(3) - np.outer(p, p) for p in points]
        noise = np.block([
            [means[i] @ means[j] * tangent[i] @ tangent[j] for j in range(3)] for i in range(3)
        ])  # fmt: skip
        slope, dt = np.asarray(jacobian(x)), horizon / steps
        cov = cov + dt * (slope @ cov + cov @ slope.T + noise)
        moved = (x + dt * velocity(x)).reshape(3, 3)
        x = (moved / jnp.linalg.norm(moved, axis=1, keepdims=True)).ravel()
    constant = float(jnp.trace(cov))
    flow_end = np.asarray(ms.flow(start, force, horizon).frames[-1].points)
    measured = []
    for scale in (0.2, 0.05):
        field = force + ms.RandomValue(beta, scale=scale)
        how = {"stepper": ms.Layers(0.005), "frames": 2, "progress": False}
        off = [
            np.sum((np.asarray(ms.flow(start, field, horizon, seed=s, **how).frames[-1].points)
                    - flow_end) ** 2) for s in range(samples)
        ]  # fmt: skip
        measured.append((np.mean(off) / scale**2, np.std(off) / scale**2 / math.sqrt(samples)))
    for value, error in measured:
        assert abs(value - constant) < 4 * error + 0.05 * constant
    assert constant > 0.5


def test_random_heads_move_all_tokens_and_are_deterministic_in_their_seed():
    runs = [ms.flow(START, ms.RandomHeads(3, 1.0), 0.5, seed=s) for s in (1, 1, 2)]
    ends = [np.asarray(run.frames[-1].points) for run in runs]
    assert np.array_equal(ends[0], ends[1]) and not np.allclose(ends[0], ends[2], atol=1e-2)
    one = step_common(START.points, ms.RandomHeads(3, 1.0), jax.random.key(0), 0.1, True)
    np.testing.assert_allclose(np.linalg.norm(one, axis=1), 1.0, atol=1e-14)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="step must be at most"):
        ms.flow(START, ms.RandomValue(1.0), 1.0, stepper=ms.Geodesic(1.0))
    with pytest.raises(ValueError, match="outermost"):
        ms.flow(START, ms.Gain(ms.RandomValue(1.0), np.ones(3)), 1.0)
    with pytest.raises(ValueError, match="residual"):
        ms.flow(START, ms.RandomValue(1.0), 1.0, stepper=ms.Layers(0.5, residual=False))
    with pytest.raises(ValueError, match="stepper must be Geodesic"):
        ms.flow(START, ms.RandomValue(1.0), 1.0, stepper=ms.Adaptive())
    for wrong in ({"scale": 0.0}, {"beta": -1.0}):
        with pytest.raises(ValueError):
            ms.RandomValue(**{"beta": 1.0} | wrong)
    with pytest.raises(ValueError, match="heads"):
        ms.RandomHeads(0)
