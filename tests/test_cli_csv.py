"""Tables of commands as CSV files."""

import json

import pandas
import pytest
from typer.testing import CliRunner

import metastable as ms
from metastable.cli import app
from metastable.flows.spec import Experiment
from metastable.sweep.spec import Sweep


def call(*arguments):
    done = CliRunner().invoke(app, [str(one) for one in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def test_verdicts_prediction_and_frames(tmp_path):
    keys = {"measure.tokens": 12, "measure.dim": 3, "field.beta": 2.0, "flow.frames": 4}
    kept = ms.run(Experiment.from_tree({}, keys), tmp_path / "run", page=False)
    call("compare", tmp_path / "run", "--csv", tmp_path / "rows.csv")
    rows = pandas.read_csv(tmp_path / "rows.csv")
    assert rows.verdict.tolist() == [row.verdict for row in kept.verdicts.rows]
    call("report", tmp_path / "run", "--csv", tmp_path / "frames.csv")
    frames = pandas.read_csv(tmp_path / "frames.csv")
    assert len(frames) == 4 and frames.energy.is_monotonic_increasing
    said = json.loads(call("predict", "--dim", 2, "--beta", 9, "--csv", tmp_path / "p.csv",
                           "--json").stdout)  # fmt: skip
    table = pandas.read_csv(tmp_path / "p.csv").set_index("name").value
    assert float(table["max_rate"]) == pytest.approx(said["max_rate"])
    assert float(table["rate_3"]) == pytest.approx(said["rates"][2])


def test_cells_of_a_sweep(tmp_path):
    sweep = Sweep.model_validate(
        {
            "observables": ["pair_probability"],
            "samples": 8,
            "axes": {"field.beta": [1.0, 4.0]},
            "base": {"measure": {"tokens": 8, "dim": 2}, "flow": {"horizon": 5.0, "frames": 6}},
        }
    )
    kept = ms.run(sweep, tmp_path / "store", page=False)
    call("sweep", "status", tmp_path / "store", "--csv", tmp_path / "cells.csv")
    cells = pandas.read_csv(tmp_path / "cells.csv")
    assert len(cells) == 2 * 6 and {"beta", "time", "pair_probability_error"} <= set(cells)
    pandas.testing.assert_frame_equal(cells, kept.to_dataframe(), check_dtype=False)
