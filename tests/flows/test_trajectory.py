"""Trajectories: datasets, saving, loading."""

from __future__ import annotations

import numpy as np
import pytest

import metastable as ms


@pytest.fixture(scope="module")
def run():
    start = ms.Points(ms.uniform(5, 3).points, weights=[1, 2, 3, 4, 0], times=[0, 2, 1, 5, 5])
    return ms.flow(start, ms.SelfAttention(2.0, causal=True), 1.5, stepper=ms.Layers(0.25))


def test_dataset_names_its_dimensions(run):
    data = run.to_dataset()
    assert dict(data.sizes) == {"time": 7, "token": 5, "axis": 3}
    assert data["tokens"].dims == ("time", "token", "axis")
    assert data["weights"].dims == ("time", "token")
    assert np.array_equal(data["tokens"].values, run.points)
    assert np.allclose(data["time"].values, 0.25 * np.arange(7))
    assert data["time"].attrs["clock"] == data.attrs["clock"] == "SA"
    assert data.attrs["outcome"] == "done" and "causal=True" in data.attrs["field"]


def test_saving_and_loading_gives_the_run_back(run, tmp_path):
    path = run.save(tmp_path / "run.zarr")
    back = ms.Trajectory.load(path)
    assert np.array_equal(back.times, run.times) and back.clock == "SA"
    assert np.abs(back.points - run.points).max() < 1e-15
    for a, b in zip(back.frames, run.frames, strict=True):
        assert np.allclose(a.weights, b.weights, rtol=1e-15, atol=0)
        assert np.array_equal(a.positions, b.positions)
    assert back.outcome == run.outcome and back.statistics == run.statistics
    assert back.field is None and "7 frames" in repr(back)
    with pytest.raises(ValueError, match=r"path must not exist.*run\.zarr"):
        run.save(path)
    with pytest.raises(ValueError, match=r"path.*nothing"):
        ms.Trajectory.load(tmp_path / "other.zarr")


def test_tokens_in_space_are_saved_as_such(tmp_path):
    run = ms.flow(ms.gaussian_points(4, 2), ms.SelfAttention(1.0), 0.2, stepper=ms.Layers(0.1))
    back = ms.Trajectory.load(run.save(tmp_path / "free.zarr"))
    assert not back.frames[0].on_sphere and back.statistics["max_norm_drift"] is None
    assert np.array_equal(back.points, run.points)


def test_frames_after_mergers_are_padded_and_read_back(tmp_path):
    few = ms.polygon(2)
    run = ms.Trajectory(
        np.array([0.0, 1.0]), (ms.polygon(3), few), "SA", ms.Outcome.done(), {"steps": 1}
    )
    data = run.to_dataset()
    assert np.isnan(data["tokens"].values[1, 2]).all() and data["weights"].values[1, 2] == 0
    back = ms.Trajectory.load(run.save(tmp_path / "merged.zarr"))
    assert [f.count for f in back.frames] == [3, 2]
    assert np.allclose(back.frames[1].points, few.points, atol=1e-15)
