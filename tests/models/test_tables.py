"""What is seen through depth as a table of pandas, and as CSV."""

import numpy as np
import pytest

import metastable as ms
from metastable.models.depthwise import Depthwise, depthwise

pandas = pytest.importorskip("pandas")
RUN = ms.Trajectory.from_states(np.random.default_rng(0).normal(size=(5, 7, 4)))


def test_one_row_a_state():
    table = depthwise(RUN)
    frame = table.to_dataframe()
    assert isinstance(table, Depthwise) and len(frame) == 5
    assert frame["layer"].tolist() == [0, 1, 2, 3, 4]
    for column, expected in (
        ("mean_cosine", table.mean_cosine),
        ("mass_09", table.mass[:, 0]),
        ("mass_099", table.mass[:, 1]),
        ("mass_0999", table.mass[:, 2]),
        ("clusters", table.clusters),
        ("energy_1", table.energy[:, 0]),
        ("energy_5", table.energy[:, 1]),
        ("gram_rank", table.gram_rank),
    ):
        assert np.array_equal(frame[column], expected)


def test_states_that_were_not_looked_at_closer_are_empty():
    frame = depthwise(RUN, thorough=False).to_dataframe()
    assert frame[["gram_rank", "modes", "dimension"]].isna().all(axis=None)
    deep = ms.Trajectory.from_states(np.random.default_rng(1).normal(size=(40, 4, 3)))
    table = depthwise(deep)
    modes = table.to_dataframe()["modes"]
    assert np.array_equal(modes.dropna().index, table.chosen)
    assert np.array_equal(modes.dropna(), table.modes)


def test_csv_is_read_back_and_nothing_is_written_over(tmp_path):
    table = depthwise(RUN)
    path = table.to_csv(tmp_path / "table.csv")
    pandas.testing.assert_frame_equal(pandas.read_csv(path), table.to_dataframe())
    with pytest.raises(ValueError, match=r"path must not exist yet; got .*table\.csv"):
        table.to_csv(path)
    with pytest.raises(ValueError, match="folder that exists"):
        table.to_csv(tmp_path / "absent" / "table.csv")
