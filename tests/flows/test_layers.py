"""Discrete depth: the exact recursion, its limit, and which layers are kept."""

from __future__ import annotations

import diffrax
import numpy as np
import pytest

import metastable as ms
from tests import oracles

START = ms.uniform(6, 3, seed=4)
X, W = np.asarray(START.points), np.asarray(START.weights)
FIELD = ms.SelfAttention(2.0, value=[[1.0, 0.3, 0.0], [0.0, 0.7, 0.0], [0.2, 0.0, 1.1]])
VALUE = np.asarray(FIELD.value)


def recursion(x, depth, step, normalise=oracles.unit):
    """x ← N(x + εA(x)) with A not projected, as a transformer computes it."""
    states = [x]
    for _ in range(depth):
        x = normalise(x + step * oracles.attention(x, W, 2.0, value=VALUE))
        states.append(x)
    return np.stack(states)


def test_layers_are_the_residual_recursion():
    run = ms.flow(START, FIELD, 7 * 0.8, stepper=ms.Layers(0.8))
    assert np.abs(run.points - recursion(X, 7, 0.8)).max() < 1e-13
    assert np.allclose(run.times, 0.8 * np.arange(8)) and run.statistics["evaluations"] == 7
    free = ms.flow(START.euclidean(), FIELD, 7 * 0.8, stepper=ms.Layers(0.8))
    expected = recursion(X, 7, 0.8, normalise=lambda y: y)
    assert np.abs(free.points - expected).max() < 1e-13 * np.abs(expected).max()


@pytest.mark.parametrize(("depth", "frames"), [(10, 4), (10, 11), (10, 99), (7, 2), (5, 3)])
def test_kept_layers_are_among_all_layers_and_include_the_last(depth, frames):
    run = ms.flow(START, FIELD, depth * 0.5, stepper=ms.Layers(0.5), frames=frames)
    every = recursion(X, depth, 0.5)
    index = np.rint(run.times / 0.5).astype(int)
    assert index[0] == 0 and index[-1] == depth and (np.diff(index) > 0).all()
    assert len(index) <= frames and len(index) == len(run.frames)
    assert np.abs(run.points - every[index]).max() < 1e-13


def test_thin_layers_tend_to_the_flow_at_first_order():
    # 1 ± 0.1: the error of Euler with normalisation is Cε + O(ε²).
    def rhs(t, y):
        y = oracles.unit(y)
        return oracles.project(y, oracles.attention(y, W, 2.0, value=VALUE))

    exact = oracles.integrate(rhs, X, np.array([0.0, 2.0]))[-1]
    depths = np.array([50, 100, 200])
    runs = [ms.flow(START, FIELD, 2.0, stepper=ms.Layers(2.0 / n), frames=2) for n in depths]
    errors = [np.abs(run.points[-1] - exact).max() for run in runs]
    order = -np.polyfit(np.log(depths), np.log(errors), 1)[0]
    assert order == pytest.approx(1, abs=0.1)


def test_layers_refuse_noise():
    with pytest.raises(ValueError, match="noise"):
        ms.flow(START, FIELD + ms.Noise(1.0), 2.0, stepper=ms.Layers())


def test_a_layer_that_leaves_the_range_of_floats_is_not_kept():
    # The square of 2e200 is infinite, and x/∞ = 0 is finite: a frame of norm 0.
    field = ms.SelfAttention(1.0, value=2.0)
    run = ms.flow(START, field, 4e200, stepper=ms.Layers(1e200))
    assert run.outcome.name == "blow_up" and run.times.tolist() == [0.0]
    assert np.array_equal(run.points[0], X)
    euler = ms.flow(START, field, 2e200, frames=3, stepper=ms.Fixed(1e200, diffrax.Euler()))
    assert euler.outcome.name == "blow_up" and len(euler.frames) == 1


def test_a_depth_without_end_is_refused():
    with pytest.raises(ValueError, match=r"depth must be at most 100000000 layers; got 1e\+15"):
        ms.flow(START, FIELD, 1e15, stepper=ms.Layers(), frames=2)
