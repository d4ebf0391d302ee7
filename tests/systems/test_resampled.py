"""Weights drawn afresh in every layer average out as layers get thin."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metastable as ms

START = ms.uniform(6, 3, seed=4)
DEPTHS = np.array([8, 32, 128])


def draw(key):
    return ms.SelfAttention(2.0, value=jnp.eye(3) + jax.random.normal(key, (3, 3)))


def test_random_layers_approach_the_averaged_flow_like_the_central_limit():
    # Attention is linear in V, so the average field has V = I. Over L layers of length T/L the
    # i.i.d. deviations add to T/L · √L · σ = Tσ/√L: slope −1/2 in L. The same layers with V = I
    # are subtracted, which removes the first-order error of discrete depth. 12 draws give the
    # root mean square error within about 10 %, and the slope over a factor 16 within 0.05.
    errors = []
    for depth in DEPTHS.tolist():
        step = 2.0 / depth
        mean = end(ms.SelfAttention(2.0), depth, step)
        squares = [np.mean((random_layers(depth, step, seed) - mean) ** 2) for seed in range(12)]
        errors.append(np.sqrt(np.mean(squares)))
    assert errors[0] > errors[1] > errors[2]
    slope = np.polyfit(np.log(DEPTHS), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.1)


def random_layers(depth, step, seed):
    field = ms.Schedule.resampled(draw, layers=depth, horizon=2.0, seed=seed)
    return end(field, depth, step)


def end(field, depth, step):
    return ms.flow(START, field, depth * step, stepper=ms.Layers(step), frames=2).points[-1]
