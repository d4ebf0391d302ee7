"""The iterator under every way of moving: frames as they come, stops, and what is kept."""

from __future__ import annotations

import math

import numpy as np
import pytest

import metastable as ms
from metastable.flows import drive
from metastable.flows.solvers import segments
from tests import oracles

START, FIELD = ms.uniform(12, 2, seed=4), ms.SelfAttention(9.0)
CASES = {
    "adaptive": (START, FIELD, 4.0, dict(frames=49)),
    "noise": (START, FIELD + ms.Noise(20.0), 1.0, dict(stepper=ms.Geodesic(0.05), frames=9)),
    "layers": (START, FIELD, 5.0, dict(stepper=ms.Layers(0.5), frames=4)),
    "merging": (START, FIELD, math.inf, dict(stepper=ms.Merging())),
    "hardmax": (START, FIELD, math.inf, dict(stepper=ms.Hardmax())),
    "hardmax in space": (
        ms.gaussian_points(12, 2, seed=1),
        ms.Rescaled(FIELD),
        math.inf,
        dict(stepper=ms.Hardmax()),
    ),
    "density": (ms.Density.mode(2, 2, 0.1), ms.SelfAttention(3.0), 1.0, dict(frames=4)),
    "handover": (
        ms.Density.mode(2, 2, 0.2),
        ms.SelfAttention(3.0),
        8.0,
        dict(stepper=ms.Resolution(16, 32, handover=40), frames=9),
    ),
    "gaussian": (ms.Gaussian([0.5], 1.0), ms.SelfAttention(1.0, value=-1), 2.0, dict(frames=30)),
    "gaussian layers": (
        ms.Gaussian([0.5], 1.0),
        ms.SelfAttention(1.0, value=-1),
        2.0,
        dict(stepper=ms.Layers(0.25)),
    ),
}


def leaves(measure):
    names = ("points", "coefficients", "factor")
    return next(np.asarray(getattr(measure, name)) for name in names if hasattr(measure, name))


@pytest.mark.parametrize("case", CASES)
def test_frames_come_one_by_one_and_are_those_of_flow(case):
    measure, field, horizon, how = CASES[case]
    run = drive(measure, field, horizon, **how)
    begun = run.trajectory()
    assert len(begun.frames) == 1 and begun.outcome.name == "interrupted"
    frames = list(run)
    whole, plain = run.trajectory(), ms.flow(measure, field, horizon, **how)
    assert whole.outcome == plain.outcome and whole.outcome.name == "done"
    assert set(whole.statistics) == set(plain.statistics)
    assert np.array_equal(whole.times, plain.times)
    for ours, theirs in zip(whole.frames, plain.frames, strict=True):
        assert np.array_equal(leaves(ours), leaves(theirs))
    assert frames[0].time == 0.0 and frames[-1].time == whole.times[-1]
    logs = [frame.log_time for frame in frames[1:]]
    assert logs == sorted(logs)
    assert np.array_equal(leaves(frames[-1].measure), leaves(whole.frames[-1]))
    for frame in frames:
        if whole.mergers is None:
            assert frame.names is None and math.isclose(math.exp(frame.log_time), frame.time)
        else:
            assert np.array_equal(frame.names, whole.mergers.names(frame.measure.count))


@pytest.mark.parametrize("case", CASES)
def test_a_stop_request_keeps_what_was_shown(case):
    measure, field, horizon, how = CASES[case]
    shown = []
    run = drive(measure, field, horizon, **how, stopped=lambda: len(shown) >= 2)
    for frame in run:
        shown.append(frame)
    kept = run.trajectory()
    assert kept.outcome.name == "interrupted" and len(shown) == 2
    assert kept.times[-1] == shown[-1].time
    assert np.array_equal(leaves(kept.frames[-1]), leaves(shown[-1].measure))


def test_a_resumed_run_first_gives_the_frames_it_has(tmp_path, monkeypatch):
    measure, field, horizon, how = CASES["adaptive"]
    file, seen = tmp_path / "run.npz", []
    half = drive(measure, field, horizon, **how, checkpoint=file, stopped=lambda: len(seen) > 8)
    for frame in half:
        seen.append(frame)
    again = drive(measure, field, horizon, **how, checkpoint=file)
    whole = ms.flow(measure, field, horizon, **how)
    compiled, calls = segments._compiled, []
    monkeypatch.setattr(segments, "_compiled", lambda *a: calls.append(1) or compiled(*a))
    assert [frame.time for frame in again] == whole.times.tolist()
    assert np.array_equal(again.trajectory().points, whole.points) and len(calls) == 24 - 4


def test_layers_without_the_identity():
    run = ms.flow(START, FIELD, 1.5, stepper=ms.Layers(0.5, residual=False))
    x, w = np.asarray(START.points), np.asarray(START.weights)
    for frame in run.frames:
        assert np.abs(np.asarray(frame.points) - x).max() < 1e-13
        x = oracles.unit(0.5 * oracles.attention(x, w, 9.0))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (dict(stepper=ms.Merging(), checkpoint="x.npz"), "checkpoint .*Merging.* leave it out"),
        (dict(stepper=ms.Layers(), checkpoint="x.npz"), "checkpoint .*Layers"),
        (dict(stepper=ms.Merging(), check=True), "check has no meaning .*Merging"),
        (dict(stepper=ms.Hardmax(), sum=ms.Dense()), "sum has no meaning .*Hardmax"),
        (dict(stepper=ms.Layers(truncated=True)), "truncated must be False for tokens"),
    ],
)
def test_what_would_have_no_effect_is_refused(how, message):
    horizon = 2.0 if isinstance(how["stepper"], ms.Layers) else math.inf
    with pytest.raises(ValueError, match=message):
        ms.flow(START, FIELD, horizon, **how)
