"""Untrained twins of several seeds: their ranges, and what is said and drawn of them."""

import dataclasses
import json

import numpy as np
import pytest

from metastable.models.capture import capture
from metastable.models.depthwise import depthwise
from metastable.models.folder import load
from metastable.models.groups import group_tokens
from metastable.models.inspection import inspect
from metastable.models.representation import intrinsic_dimension
from metastable.models.twins import range_of
from metastable.report.figures import figures_of

from .made import IDS
from .test_inspect import albert as albert
from .test_inspect import beside, call, states
from .test_inspect import text as text

pytest.importorskip("transformers")
LINE, NEAR, HEAP = [0.0, 1.0, 2.0, 3.0], [0.0, 0.3, 2.0, 3.0], [0.0, 0.1, 0.2, 3.0]


def test_ranges_are_those_of_runs_made_one_by_one(albert):
    found = inspect(albert, [IDS], seed=5, progress=False)
    assert len(found.twins) == 3
    network = load(albert)
    runs = [capture(network.untrained(seed), IDS, progress=False) for seed in (5, 6, 7)]
    tables = [depthwise(run, progress=False) for run in runs]
    last = [frame.directions() for frame in (run.frames[-1] for run in runs)]
    dimensions = [intrinsic_dimension(measure) for measure in last]
    shares = [group_tokens(run, cosine=0.9, progress=False).shares for run in runs]
    drawn = float(found.groups.thresholds[0])
    counts = [group_tokens(run, cosine=drawn, progress=False).counts for run in runs]
    for spread, values in (
        (found.twins.of_tables("mean_cosine"), [table.mean_cosine for table in tables]),
        (found.twins.of_tables("energy", 1), [table.energy[:, 1] for table in tables]),
        (found.twins.shares, shares),
        (found.twins.counts, counts),
    ):
        np.testing.assert_allclose(spread.mean, np.mean(values, axis=0))
        np.testing.assert_allclose(spread.low, np.min(values, axis=0))
        np.testing.assert_allclose(spread.high, np.max(values, axis=0))
    assert found.twins.dimension.mean[-1] == pytest.approx(np.mean(dimensions))
    np.testing.assert_allclose(found.control_table.mean_cosine, tables[0].mean_cosine)
    told = found.to_dict()["twins"]
    assert told["count"] == 3
    np.testing.assert_allclose(
        told["mean_cosine"]["high"], found.twins.of_tables("mean_cosine").high
    )
    assert ") untrained. " in found.sentence and "in 3 untrained twins" in found.sentence
    said = "Untrained: mean of 3 seeds, with a band from the lowest to the highest."
    figures = figures_of(found)
    for name in ("cosines", "clusters", "energies", "alignment"):
        assert (said in figures[name].caption) == (name != "cosines")
    (band,) = [s for s in figures["energies"].panels[0].series if s.label == "untrained"]
    np.testing.assert_allclose(band.band[1], np.max([t.energy[:, 0] for t in tables], axis=0))


def test_the_model_differs_only_from_what_no_twin_does(albert):
    found = inspect(albert, [IDS], twins=1, progress=False)
    for later, twins, said in (
        (HEAP, [LINE, LINE], "in 2 untrained twins 0 % → 0 %: in the end the model gathers more "
         "tokens than every one of them"),
        (LINE, [HEAP, NEAR], "0 % → 62 % (50 to 75 %): in the end the model gathers fewer tokens "
         "than every one of them"),
        (NEAR, [LINE, HEAP], "0 % → 38 % (0 to 75 %): no difference to speak of"),
    ):  # fmt: skip
        parts = beside(states(LINE, later), [states(LINE, each) for each in twins], 0.9)
        sentence = dataclasses.replace(found, **parts).sentence
        assert said in sentence and "one seed" not in sentence


def test_a_twin_that_stops_early_counts_as_far_as_it_came():
    run = states(LINE, NEAR, HEAP)
    twins = beside(run, [states(LINE, NEAR, NEAR), states(LINE, HEAP)], 0.9)["twins"]
    np.testing.assert_allclose(twins.shares.mean, [0.0, 0.625, 0.5])
    np.testing.assert_allclose(twins.shares.high, [0.0, 0.75, 0.5])
    none = beside(run, [states(LINE, NEAR)], 0.9)
    assert "no state to compare" in none["twins"].beside(none["loose"])
    assert none["twins"].of_tables("mean_cosine").end(2) == "–"
    more = beside(states(LINE, NEAR), [states(LINE, HEAP, LINE)], 0.9)["twins"]
    np.testing.assert_allclose(more.shares.mean, [0.0, 0.75])


def test_ends_are_written_with_their_range():
    spread = range_of([[0.0, 0.36], [0.0, 0.37], [0.0, 0.41]], 2)
    assert spread.end(2) == "0.38 (0.36 to 0.41)" and spread.end(0) == "0"
    assert spread.band is not None and spread.band.tolist() == [[0.0, 0.36], [0.0, 0.41]]
    assert range_of([[0.0, 0.3]], 2).band is None


def test_the_command_takes_one_twin_and_refuses_none(albert, text, tmp_path):
    columns = {}
    for many in (1, 3):
        out = tmp_path / str(many)
        done = call(albert, "--text", text, "--twins", many, "--out", out, "--json")
        assert done.exit_code == 0, done.exception
        told = json.loads(done.stdout)
        assert told["twins"]["count"] == many
        page = (out / "report.html").read_text()
        assert ("range of untrained cosine" in page) == (many > 1)
        assert (f"means over {many} seeds with their range" in page) == (many > 1)
        assert "one seed of the twin" in page if many == 1 else "untrained twins" in page
        columns[many] = told["control"]["mean_cosine"]
    assert columns[1] == columns[3]  # the first twin is the same
    refused = call(albert, "--text", text, "--twins", 0).exception
    assert isinstance(refused, ValueError) and "\n" not in str(refused)
    assert str(refused).startswith("twins must be") and "got 0" in str(refused)
    with pytest.raises(ValueError, match="twins must be"):
        inspect(albert, [IDS], twins=0)
    done = call(albert, "--text", text, "--no-control", "--json")
    assert json.loads(done.stdout)["twins"] is None
