"""Observables of every frame, against definitions written out here."""

import math
from itertools import combinations

import numpy as np
import pytest

import metastable as ms
from metastable.core.outcome import Outcome

FIELD = ms.SelfAttention(beta=9.0)


def test_tokens_have_the_numbers_of_their_definitions():
    run = ms.flow(ms.uniform(tokens=40, dim=3, seed=1), FIELD, 6.0, frames=4)
    table = run.observables(first=lambda measure: float(measure.points[0, 0]))
    for k, frame in enumerate(run.frames):
        x = np.asarray(frame.points)
        row = table.isel(time=k)
        cosines = [x[i] @ x[j] for i, j in combinations(range(40), 2)]
        assert row.similarity == pytest.approx(np.mean(cosines), abs=1e-12)
        assert row.order == pytest.approx(np.linalg.norm(x.mean(axis=0)))
        energy = np.exp(9 * (x @ x.T - 1)).mean()  # 2βe^{−β}E
        assert row.energy == pytest.approx(energy)
        assert row.clusters == ms.clusters(frame, 9.0).count and row["first"] == x[0, 0]
    frame = run.to_dataframe()
    assert list(frame.time) == [0.0, 2.0, 4.0, 6.0] and frame.clusters.dtype.kind == "i"


def test_merged_tokens_count_as_those_they_were():
    start = ms.uniform(tokens=12, dim=2, seed=0)
    run = ms.flow(start, FIELD, math.inf, stepper=ms.Merging())
    table = run.observables()
    # One cluster in the end: all pairs have cosine 1, and the energy is that of a point.
    assert table.tokens[0] == 12 and table.tokens[-1] == 1
    assert float(table.similarity[-1]) == pytest.approx(1, abs=1e-12)
    assert float(table.energy[-1]) == pytest.approx(1, abs=1e-12)
    pairs = [float(ms.similarity(frame, tokens=12).mean) for frame in run.frames]
    np.testing.assert_allclose(table.similarity, pairs, atol=1e-10)
    assert "log_time" in table


def test_densities_and_gaussians_have_their_own():
    still = lambda measure: ms.Trajectory(
        np.array([0.0]), (measure,), "SA", Outcome.done(), {}, FIELD
    )
    wave = still(ms.Density.mode(dim=2, degree=4, amplitude=0.01))
    assert set(wave.observables()) == {"clusters", "entropy", "degree", "energy"}
    assert int(wave.observables().clusters[0]) == 4
    blob = ms.Gaussian([3.0, 4.0], [[2.0, 0.0], [0.0, 0.5]])
    table = still(blob).observables()
    assert float(table.mean_length[0]) == pytest.approx(5)
    assert float(table.largest_variance[0]) == pytest.approx(2)


def test_csv_is_read_back(tmp_path):
    import pandas

    run = ms.flow(ms.uniform(tokens=8, dim=2, seed=0), FIELD, 1.0, frames=3)
    path = run.to_csv(tmp_path / "run.csv")
    pandas.testing.assert_frame_equal(pandas.read_csv(path), run.to_dataframe())
    with pytest.raises(ValueError, match="must not exist yet"):
        run.to_csv(path)
