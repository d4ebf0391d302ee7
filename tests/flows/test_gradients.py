"""Derivatives through flows and layers against central differences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metastable as ms

START = ms.uniform(5, 3, seed=4)
VALUE = np.eye(3) + 0.2 * np.random.default_rng(0).normal(size=(3, 3))
TIGHT = ms.Adaptive(rtol=1e-12, atol=1e-12)
MOVES = {
    "adaptive": lambda m, f: ms.flow(m, f, 1.0, frames=2, stepper=TIGHT),
    "fixed": lambda m, f: ms.flow(m, f, 1.0, frames=2, stepper=ms.Fixed(0.1)),
    "layers": lambda m, f: ms.flow(m, f, 5 * 0.3, stepper=ms.Layers(0.3)),
}


@pytest.mark.parametrize("how", MOVES)
def test_gradients_of_the_final_energy(how):
    """d/dβ, d/dx_1 and d/dV at once; the pairs are packed into one vector."""
    tangent = np.cross(np.asarray(START.points[1]), [0.0, 0.0, 1.0])

    def final_energy(theta):
        beta, slide, value = theta[0], theta[1], theta[2:].reshape(3, 3)
        moved = START.points.at[1].add(slide * tangent)
        start = START.at(moved / jnp.linalg.norm(moved, axis=1, keepdims=True))
        run = MOVES[how](start, ms.SelfAttention(beta, value=value))
        return ms.energy(run.frames[-1], 2.0)

    solve = jax.jit(jax.value_and_grad(final_energy))
    theta = np.concatenate([[1.5, 0.0], VALUE.ravel()])
    gradient = np.asarray(solve(theta)[1])
    h = 1e-4
    for k in (0, 1, 2, 7):  # β, one token, V_11, V_23
        shift = h * np.eye(theta.size)[k]
        f = [float(solve(theta + c * shift)[0]) for c in (-2, -1, 1, 2)]
        difference = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)  # error h⁴
        assert gradient[k] == pytest.approx(difference, rel=1e-6)
        assert abs(difference) > 1e-4


def test_gradients_through_noise_and_switches():
    switched = ms.Schedule.piecewise([ms.SelfAttention(1.0), ms.SelfAttention(3.0)], [0.5])

    @jax.jit
    @jax.value_and_grad
    def solve(beta):
        field = switched + ms.SelfAttention(beta) + ms.Noise(10.0)
        run = ms.flow(START, field, 1.0, frames=2, stepper=ms.Geodesic(0.1), seed=2)
        return ms.energy(run.frames[-1], 2.0)

    h = 1e-4
    difference = (solve(1.5 + h)[0] - solve(1.5 - h)[0]) / (2 * h)
    assert float(solve(1.5)[1]) == pytest.approx(float(difference), rel=1e-6)


def test_gradients_in_blocks_with_token_times_are_finite_and_the_same():
    # Ten rows in blocks of four leave two padded rows; they must not leak NaN into derivatives.
    m = ms.Points(ms.uniform(10, 3).points, times=np.arange(1.0, 11.0))
    field = ms.SelfAttention(1.0, causal=True)
    size = lambda sum: jax.grad(lambda x: jnp.sum(field.velocity(m.at(x), sum=sum) ** 2))(m.points)
    whole, blocks = np.asarray(size(ms.Dense())), np.asarray(size(ms.Dense(block=4)))
    assert np.isfinite(blocks).all() and np.abs(whole - blocks).max() < 1e-12


def test_noise_without_a_step_asks_for_one_inside_grad():
    call = lambda k: ms.flow(START, ms.Noise(k), 1.0).frames[-1].points[0, 0]
    with pytest.raises(ValueError, match=r"Geodesic\(step"):
        jax.grad(call)(1.0)
