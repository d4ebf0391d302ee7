"""The equation is tested at every interval and token: planted errors are found where they are."""

import dataclasses
import math

import diffrax
import numpy as np
import pytest

import metastable as ms
from metastable.comparison.equation import reapplied, weights_of, worst_residual

STATED = "tokens move by the stated field"


@pytest.fixture(scope="module")
def run():
    return ms.flow(ms.uniform(60, 2, seed=3), ms.SelfAttention(9.0), 20.0, frames=81)


def row(run, start=STATED, **changes):
    rows = ms.compare(dataclasses.replace(run, **changes)).rows
    return next(row for row in rows if row.claim.startswith(start))


def test_weights_integrate_every_polynomial_through_the_nodes():
    """∫_{0.3}^{0.7} t⁵ dt = (0.7⁶ − 0.3⁶)/6, from six nodes of unequal spacing."""
    nodes = np.array([0.0, 0.1, 0.35, 0.6, 0.8, 1.0])
    assert weights_of(nodes, 0.3, 0.7) @ nodes**5 == pytest.approx((0.7**6 - 0.3**6) / 6, rel=1e-12)


def test_an_honest_run_is_far_inside_what_is_allowed(run):
    assert worst_residual(run).ratio < 0.3
    assert row(run).verdict == "agree"


@pytest.mark.parametrize(
    "field",
    [
        ms.SelfAttention(9.0 * 1.02),
        ms.SelfAttention(9.0 / 1.02),
        ms.SelfAttention(9.0, value=0.995),
        ms.SelfAttention(9.0, causal=True),
        ms.SelfAttention(9.0, normalized=False),
    ],
)
def test_another_field_is_noticed(run, field):
    assert row(run, field=field).verdict == "disagree"


def test_another_clock_is_noticed(run):
    assert row(run, times=1.005 * run.times).verdict == "disagree"


def test_a_frozen_end_is_noticed_where_it_begins(run):
    frames = tuple(run.frames[min(k, 20)] for k in range(81))
    found = worst_residual(dataclasses.replace(run, frames=frames))
    assert found.ratio > 1 and found.time > run.times[20]
    assert row(run, frames=frames).verdict == "disagree"


@pytest.mark.parametrize("frame", [1, 30, 60, 80])
def test_one_token_off_in_one_frame_is_named(run, frame):
    frames = list(run.frames)
    points = np.array(frames[frame].points)
    x, y = points[7]
    points[7] = np.array([x - 1e-3 * y, y + 1e-3 * x]) / math.hypot(1, 1e-3)
    frames[frame] = frames[frame].at(points)
    found = row(run, frames=tuple(frames))
    assert found.verdict == "disagree" and found.reason.endswith("token 7")


def test_swapped_tokens_are_noticed(run):
    points = np.array([np.array(frame.points) for frame in run.frames])
    gaps = np.linalg.norm(points[40][:, None] - points[40][None], axis=2)
    pair = np.argwhere((gaps > 1e-2) & (gaps < 0.5))[0]
    order = np.arange(60)
    order[pair] = order[pair[::-1]]
    frames = tuple(f.at(f.points[order]) if k >= 40 else f for k, f in enumerate(run.frames))
    assert row(run, frames=frames).verdict == "disagree"


def test_frames_of_any_spacing(run):
    spaced = ms.flow(run.frames[0], run.field, 6.0, frames=np.geomspace(0.01, 6, 40))
    assert row(spaced).verdict == "agree"
    assert row(spaced, field=ms.SelfAttention(9.18)).verdict == "disagree"


def test_weights_that_were_ignored(run):
    weights = np.linspace(0.5, 1.5, 60)
    frames = tuple(ms.Points(frame.points, weights) for frame in run.frames)
    assert row(run, frames=frames).verdict == "disagree"


def test_layers_are_applied_again():
    how = ms.Layers(0.5)
    run = ms.flow(ms.uniform(20, 3, seed=1), ms.SelfAttention(4.0), 12.0, stepper=how, frames=7)
    assert reapplied(run, how).error < 1e-14
    assert row(run).verdict == "agree"
    assert row(run, field=ms.SelfAttention(4.04)).verdict == "disagree"
    assert row(run, stepper=ms.Layers(0.5, residual=False)).verdict == "disagree"


@pytest.mark.parametrize("stepper", [ms.Fixed(0.1), ms.Fixed(0.03, diffrax.Euler())])
def test_equal_steps_are_held_to_their_own_error(stepper):
    """0.03 does not divide the frames: their error is that of the steps; a wrong β makes more."""
    run = ms.flow(ms.uniform(20, 2, seed=1), ms.SelfAttention(4.0), 3.0, stepper=stepper, frames=31)
    assert row(run).verdict == "agree"
    assert row(run, field=ms.SelfAttention(8.0)).verdict == "disagree"


def test_no_polynomial_reaches_over_a_switch():
    piecewise = lambda betas: ms.Schedule.piecewise([ms.SelfAttention(b) for b in betas], [1.03, 2])
    run = ms.flow(ms.uniform(20, 2, seed=3), piecewise([2.0, 9.0, 4.0]), 4.0, frames=41)
    assert row(run).verdict == "agree"
    assert row(run, field=piecewise([2.0, 9.2, 4.0])).verdict == "disagree"


def test_runs_that_merge_tokens(run):
    merged = ms.flow(run.frames[0], run.field, math.inf, stepper=ms.Merging())
    assert ms.compare(merged).agrees
    for beta in (9.0 * 1.05, 9.0 / 1.05, 3.0):
        assert row(merged, field=ms.SelfAttention(beta)).verdict == "disagree"


@pytest.fixture(scope="module")
def noisy():
    field = ms.SelfAttention(5.0) + ms.Noise(40.0)
    return ms.flow(ms.uniform(40, 2, seed=0), field, 20.0, frames=61, stepper=ms.Geodesic(0.05))


@pytest.mark.parametrize("factor, seen", [(1.0, "agree"), (1.5, "disagree"), (1 / 1.5, "disagree")])
def test_the_strength_of_noise(noisy, factor, seen):
    field = ms.SelfAttention(5.0) + ms.Noise(40.0 * factor)
    assert row(noisy, "strength κ", field=field).verdict == seen


def test_noise_that_is_not_there_or_not_stated(noisy):
    calm = ms.flow(noisy.frames[0], ms.SelfAttention(5.0), 20.0, frames=61)
    assert row(calm, "strength κ", field=noisy.field, stepper=noisy.stepper).verdict == "disagree"
    assert row(noisy, field=ms.SelfAttention(5.0), stepper=None).verdict == "disagree"


def test_the_drift_under_noise(noisy):
    assert row(noisy, "drift under noise").verdict == "agree"
    field = ms.SelfAttention(5.0, value=-1.0) + ms.Noise(40.0)
    assert row(noisy, "drift under noise", field=field).verdict == "disagree"


def test_a_density_is_solved_again():
    angle = lambda x: np.arctan2(x[..., 1], x[..., 0])
    start = ms.Density.from_function(lambda x: 1 + 0.05 * np.cos(3 * angle(x)), 2)
    run = ms.flow(start, ms.SelfAttention(5.0), 1.0, frames=11)
    assert row(run, "the density moves").verdict == "agree"
    assert row(run, "the density moves", field=ms.SelfAttention(5.05)).verdict == "disagree"


def test_gaussian_layers_are_applied_again():
    rng = np.random.default_rng(0)
    query, key, value = (rng.normal(size=(2, 2)) for _ in range(3))
    start = ms.Gaussian([1.0, 0.0], [[1.0, 0.2], [0.2, 0.5]])
    field = lambda f: ms.SelfAttention(0.5, query * f[0], key * f[1], value * f[2])
    run = ms.flow(start, field((1, 1, 1)), 1.0, stepper=ms.Layers(0.1))
    assert row(run, "mean and covariance").verdict == "agree"
    for factors in ((1.01, 1, 1), (1, 1.01, 1), (1, 1, 1.01)):
        assert row(run, "mean and covariance", field=field(factors)).verdict == "disagree"


def test_bad_runs_are_refused_or_say_why(run):
    frames = list(run.frames)
    frames[3] = frames[3].at(np.full((60, 2), np.nan))
    with pytest.raises(ValueError, match=r"frame 3 at t = 0\.75 has tokens that are no numbers"):
        ms.compare(dataclasses.replace(run, frames=tuple(frames)))
    one = dataclasses.replace(run, frames=run.frames[:1], times=run.times[:1])
    assert row(one).reason == "needs two frames"
    assert ms.compare(one).agrees
