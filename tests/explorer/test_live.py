"""A watched run is the run: the same bits as `metastable run`, frame by frame."""

import numpy as np
import pytest

from metastable.explorer.limits import Limits, read_experiment
from metastable.explorer.live import live, log_frames
from metastable.flows.build import run_experiment

START = {"tokens": 40, "dim": 2, "seed": 3}
CASES = {
    "adaptive": {"measure": START, "field": {"beta": 4.0}, "flow": {"horizon": 5.0, "frames": 31}},
    "noise": {
        "measure": START,
        "field": [{"kind": "self_attention"}, {"kind": "noise", "kappa": 5.0}],
        "flow": {"horizon": 1.0, "frames": 11, "seed": 7},
    },
    "layers": {
        "measure": START,
        "flow": {"horizon": 4.0, "stepper": {"kind": "layers", "step": 0.5}},
    },
}
STAIRCASE = {
    "measure": START | {"tokens": 20},
    "field": {"beta": 30.0},
    "flow": {"horizon": "end", "stepper": {"kind": "merging"}, "frames": 41},
}


@pytest.mark.parametrize("name", CASES)
def test_watched_runs_have_the_bits_of_unwatched_ones(name):
    experiment = read_experiment(CASES[name], Limits())
    watched = live(experiment)
    seen = list(watched)
    run = watched.trajectory()
    plain = run_experiment(experiment, progress=False)
    assert run.outcome == plain.outcome
    np.testing.assert_array_equal(run.times, plain.times)
    for ours, theirs in zip(run.frames, plain.frames, strict=True):
        np.testing.assert_array_equal(ours.points, theirs.points)
    np.testing.assert_array_equal(seen[-1].measure.points, plain.frames[-1].points)
    assert len(seen) == len(plain.frames)


def test_a_staircase_is_watched_to_its_last_cluster():
    experiment = read_experiment(STAIRCASE, Limits())
    watched = live(experiment)
    seen = list(watched)
    run = watched.trajectory()
    plain = run_experiment(experiment, progress=False)
    assert run.outcome.name == "done"
    counts = [moment.measure.count for moment in seen]
    assert counts == sorted(counts, reverse=True) and (counts[0], counts[-1]) == (20, 1)
    assert all(len(moment.names) == moment.measure.count for moment in seen)
    # More looks than `run` takes cut its steps elsewhere; the solution is one, to the tolerance.
    assert len(seen) > len(plain.frames)
    assert abs(seen[-1].log_time - plain.log_times[-1]) < 1e-5 and seen[-1].log_time > 20
    np.testing.assert_allclose(seen[-1].measure.points, plain.frames[-1].points, atol=1e-5)


def test_stopping_keeps_the_frames_so_far():
    asked = []
    watched = live(read_experiment(CASES["adaptive"], Limits()), stopped=lambda: len(asked) > 6)
    for moment in watched:
        asked.append(moment)
    run = watched.trajectory()
    assert run.outcome.name == "interrupted"
    assert 6 < len(run.frames) == len(asked) < 31


def test_log_clock_has_even_steps_of_log_time():
    watched = live(read_experiment(CASES["adaptive"], Limits()), log_clock=True)
    moments = list(watched)
    run = watched.trajectory()
    steps = np.diff([moment.log_time for moment in moments[1:]])
    np.testing.assert_allclose(steps, steps[0], rtol=1e-9)
    assert run.times[0] == 0 and run.times[-1] == 5.0
    assert len(log_frames(5.0, 31)) == 31
    # The frames lie on one solution: the last one is that of the even clock to the tolerance.
    plain = run_experiment(read_experiment(CASES["adaptive"], Limits()), progress=False)
    np.testing.assert_allclose(moments[-1].measure.points, plain.frames[-1].points, atol=1e-6)
