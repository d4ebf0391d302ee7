"""Frames, times and statistics of a flow, and what `flow` refuses."""

from __future__ import annotations

import diffrax
import numpy as np
import pytest

import metastable as ms
from tests import oracles

START = ms.Points(ms.uniform(6, 3, seed=4).points, weights=[1, 2, 3, 4, 5, 6])
X, W = np.asarray(START.points), np.asarray(START.weights)


def rhs(t, y):
    y = oracles.unit(y)
    return oracles.project(y, oracles.attention(y, W, 3.0))


@pytest.fixture(scope="module")
def run():
    return ms.flow(START, ms.SelfAttention(3.0), horizon=4.0)


def test_frames_follow_the_ode_and_lie_on_the_sphere(run):
    assert run.outcome.name == "done" and run.clock == "SA"
    assert np.array_equal(run.times, np.linspace(0, 4, 101)) and len(run.frames) == 101
    assert np.abs(run.points - oracles.integrate(rhs, X, run.times)).max() < 2e-8
    assert np.abs(np.linalg.norm(run.points, axis=-1) - 1).max() < 1e-12
    assert run.statistics["max_norm_drift"] < 1e-12
    assert np.array_equal(run.frames[0].points, START.points)
    assert all(np.array_equal(f.weights, START.weights) for f in run.frames)


def test_statistics_count_the_work(run):
    s = run.statistics
    assert s["sum"] == "dense" and s["stepper"] == "Dopri8(rtol=1e-09, atol=1e-09)"
    assert 20 <= s["steps"] < 200 and 0 <= s["rejected"] <= s["steps"]
    # 13 stages a step when the last one serves the next step as its first.
    assert (
        12 * (s["steps"] + s["rejected"]) <= s["evaluations"] <= 15 * (s["steps"] + s["rejected"])
    )
    text = repr(run)
    assert "SelfAttention(beta=3)" in text and "SA clock" in text and "101 frames" in text


def test_frames_come_at_the_times_asked_for():
    times = np.array([0.1, 1.0, 1.0 + 1e-9, 3.3])
    run = ms.flow(START, ms.SelfAttention(3.0), horizon=4.0, frames=times)
    assert np.array_equal(run.times, [0.0, *times, 4.0])
    assert np.abs(run.points - oracles.integrate(rhs, X, run.times)).max() < 2e-8


def test_the_error_falls_with_the_tolerance():
    exact = oracles.integrate(rhs, X, np.array([0.0, 4.0]), rtol=1e-13)[-1]
    errors = []
    for tol in (1e-3, 1e-6, 1e-9):
        stepper = ms.Adaptive(rtol=tol, atol=tol, solver=diffrax.Tsit5())
        last = ms.flow(START, ms.SelfAttention(3.0), 4.0, frames=2, stepper=stepper).points[-1]
        errors.append(np.abs(last - exact).max())
    assert errors[0] > 30 * errors[1] > 900 * errors[2]
    assert all(e < 30 * tol for e, tol in zip(errors, (1e-3, 1e-6, 1e-9), strict=True))


def test_fixed_steps_have_the_order_of_their_solver():
    exact = oracles.integrate(rhs, X, np.array([0.0, 4.0]), rtol=1e-13)[-1]
    coarse, fine = (
        ms.flow(START, ms.SelfAttention(3.0), 4.0, frames=2, stepper=ms.Fixed(h)).points[-1] - exact
        for h in (0.1, 0.05)
    )
    assert np.log2(np.abs(coarse).max() / np.abs(fine).max()) == pytest.approx(5, abs=0.3)  # Tsit5


def euler(x, step, count):
    for _ in range(count):
        x = oracles.unit(x + step * oracles.project(x, oracles.attention(x, W, 3.0)))
    return x


def test_fixed_euler_steps_are_those_of_the_paper_scripts():
    stepper = ms.Fixed(0.1, diffrax.Euler())
    run = ms.flow(START, ms.SelfAttention(3.0), 4.0, frames=2, stepper=stepper)
    assert np.abs(run.points[-1] - euler(X, 0.1, 40)).max() < 1e-12
    assert run.statistics["steps"] == 40


def test_fixed_steps_are_equal_whatever_the_frames():
    stepper = ms.Fixed(0.1, diffrax.Euler())
    run = ms.flow(START, ms.SelfAttention(3.0), 4.0, frames=101, stepper=stepper)
    assert np.abs(run.points[-1] - euler(X, 0.1, 40)).max() < 1e-12


FIELD = ms.SelfAttention(1.0)
NOISY = FIELD + ms.Noise(5.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ms.flow(START, FIELD, -1.0), r"horizon must be > 0; got -1"),
        (lambda: ms.flow(START, FIELD, np.inf), r"horizon.*inf"),
        (lambda: ms.flow(START, FIELD, 1.0, frames=1), r"frames.*>= 2; got 1"),
        (lambda: ms.flow(START, FIELD, 1.0, frames=2.5), r"frames.*2\.5"),
        (lambda: ms.flow(START, FIELD, 1.0, frames=[0.5, 2.0]), r"frames.*horizon 1.*2\.0"),
        (lambda: ms.flow(START, FIELD, 1.0, frames=[-0.5]), r"frames.*horizon 1.*-0\.5"),
        (lambda: ms.flow(START, FIELD, 1.0, frames=[np.nan]), r"frames.*nan"),
        (lambda: ms.flow(START, FIELD, 1.0, stepper=ms.Geodesic()), r"stepper.*Adapt.*Geodesic"),
        (lambda: ms.flow(START, NOISY, 1.0, stepper=ms.Fixed(0.1)), r"stepper.*Geodesic.*Fixed"),
        (lambda: ms.flow(START, ms.Rescaled(FIELD), 1.0), r"Rescaled.*euclidean"),
        (
            lambda: ms.flow(START, ms.SelfAttention(1.0, value=np.ones((2, 2))), 1.0),
            r"dimension 2.*dimension 3",
        ),
        (lambda: ms.Adaptive(rtol=0.0), r"rtol must be > 0.*0"),
        (lambda: ms.Adaptive(atol=-1.0), r"atol must be > 0.*-1"),
        (lambda: ms.Adaptive(max_steps=0), r"max_steps.*>= 1.*0"),
        (lambda: ms.Fixed(0.0), r"step must be > 0.*0"),
        (lambda: ms.Geodesic(step=-1.0), r"step must be > 0.*-1"),
        (lambda: ms.flow(START, FIELD, 0, stepper=ms.Layers()), r"horizon must be > 0.*0"),
        (lambda: ms.flow(START, FIELD, 1.5, stepper=ms.Layers()), r"horizon.*whole.*1\.5.*take 2"),
        (lambda: ms.Layers(step=0.0), r"step must be > 0.*0"),
        (lambda: ms.flow(START, FIELD, 2, stepper=ms.Layers(), frames=1), r"frames.*>= 2.*1"),
    ],
)
def test_bad_calls_are_refused_before_any_work(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: ms.flow(START, FIELD, 1.0, stepper="adaptive"), "stepper"),
        (lambda: ms.flow(START, [FIELD], 1.0), "field"),
        (lambda: ms.flow(np.eye(3), FIELD, 1.0), "measure"),
        (lambda: ms.flow(START, NOISY, 1.0, seed=0.5), "seed"),
        (lambda: ms.flow(START, FIELD, 1.0, frames=10**12), "frames"),  # MemoryError
        (lambda: ms.flow(START, FIELD, 4.0, checkpoint="no/such/folder/x.npz"), "checkpoint"),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused_by_name(call, name):
    with pytest.raises(ValueError, match=name):
        call()
