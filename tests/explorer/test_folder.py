"""The chosen folder: what is found in it, and that nothing outside is."""

import dataclasses
import math
import shutil
from datetime import UTC, datetime

import numpy as np
import pytest

import metastable as ms
from metastable import kinds
from metastable.comparison.run import trajectory_of
from metastable.core.result import Result, write_result
from metastable.explorer.folder import Folder
from metastable.explorer.limits import Limits, Refused, read_experiment
from metastable.explorer.packet import read_recording, unpack
from metastable.models.spec import Inspect
from metastable.sweep.execute import run_sweep
from metastable.sweep.plan import plan_sweep
from metastable.sweep.spec import Sweep
from metastable.sweep.store import kept_sweep
from tests.explorer.serving import Inside, until

LAYERS = {"kind": "layers", "step": 0.5}
SPEC = {
    "measure": {"tokens": 12, "dim": 3},
    "field": {"beta": 2.0},
    "flow": {"horizon": 4.0, "frames": 9, "stepper": LAYERS},
}


@pytest.fixture(scope="module")
def chosen(tmp_path_factory):
    root = tmp_path_factory.mktemp("chosen")
    kept = kinds.run(
        read_experiment(SPEC, Limits()), root / "deep" / "run", progress=False, page=False
    )
    run = trajectory_of(kept)
    sweep = Sweep(
        axes={"field.beta": [3.0, 1.0, 2.0], "measure.tokens": [6, 4]},
        observables=("last_clusters", "similarity"),
        repetitions=2,
        base={"measure": {"dim": 2}, "flow": {"horizon": 2.0, "frames": 3, "stepper": LAYERS}},
    )
    run_sweep(sweep, root / "map", workers=0, say=lambda line: None)
    # What `inspect` leaves: directions layer by layer, with the words of the text.
    model = root / "model"
    model.mkdir()
    words = [f"word{k}" for k in range(12)]
    spec = Inspect(model="none", text="none")
    (model / "spec.toml").write_text(spec.to_toml())
    layers = dataclasses.replace(run, statistics={"words": words}).to_dataset()
    result = Result(spec, run.outcome, {}, data={"trajectory": layers})
    write_result(result, model, datetime.now(UTC))
    (root.parent / "secret").mkdir(exist_ok=True)
    (root / "link").symlink_to(root.parent / "secret")
    return root


def test_runs_sweeps_and_models_are_found_by_relative_name(chosen):
    assert Folder(chosen).list() == {"runs": ["deep/run"], "sweeps": ["map"], "models": ["model"]}


@pytest.mark.parametrize(
    "name",
    ["../secret", "/etc", "link", "deep/../../secret", "", ".", "no such", "a\0b", "x" * 5000],
)
def test_nothing_outside_is_opened(chosen, name):
    for open_it in (Folder(chosen).recording, Folder(chosen).sweep):
        with pytest.raises(Refused):
            open_it(name)


def test_links_inside_a_result_that_lead_outside_are_refused(chosen, tmp_path):
    folder = chosen / "linked"
    folder.mkdir()
    (folder / "manifest.json").write_text('{"kind": "flow"}')
    (folder / "spec.toml").symlink_to("/etc/hostname")
    with pytest.raises(Refused, match="leads outside"):
        Folder(chosen).recording("linked")
    (folder / "spec.toml").unlink()
    (folder / "manifest.json").unlink()
    folder.rmdir()


def test_a_damaged_run_is_refused_in_a_sentence(chosen, tmp_path):
    shutil.copytree(chosen / "deep" / "run", tmp_path / "run")
    (tmp_path / "run" / "data.zarr" / "zarr.json").write_text("{}")
    with pytest.raises(Refused, match="cannot be read"):
        Folder(tmp_path).recording("run")


def test_a_stored_run_becomes_a_recording(chosen, tmp_path):
    file = tmp_path / "run.msr"
    file.write_bytes(Folder(chosen).recording("deep/run"))
    packets = [unpack(packet) for packet in read_recording(file)]
    (head, _), *frames, (end, _) = packets
    assert head["kind"] == "head" and head["view"] == "sphere" and end["kind"] == "end"
    assert head["spec"]["field"]["beta"] == 2.0
    assert head["prediction"]["dominant"] == ms.predict(ms.SelfAttention(2.0), 3).dominant_mode
    times = [header["time"] for header, _ in frames]
    np.testing.assert_allclose(times, np.arange(9) * 0.5)
    run = trajectory_of(kinds.open(chosen / "deep" / "run"))
    np.testing.assert_allclose(frames[-1][1]["positions"], run.frames[-1].points, atol=1e-6)


def test_layers_of_a_model_come_with_their_words(chosen, tmp_path):
    file = tmp_path / "model.msr"
    file.write_bytes(Folder(chosen).recording("model"))
    (head, _), *frames, _ = [unpack(packet) for packet in read_recording(file)]
    assert head["words"][3] == "word3" and head["axis_label"] == "layer"
    for _, arrays in frames[:-1]:
        norms = np.linalg.norm(arrays["positions"], axis=1)
        np.testing.assert_allclose(norms, 1, atol=1e-6)


def test_maps_of_a_sweep_and_the_experiment_behind_a_cell(chosen):
    found = Folder(chosen).sweep("map")
    assert [axis["key"] for axis in found["axes"]] == ["beta", "tokens"]
    assert found["axes"][0]["values"] == [1.0, 2.0, 3.0]  # sorted, though asked for as 3, 1, 2
    for observable in found["observables"].values():
        assert len(observable["values"]) == 6
        assert all(v is None or math.isfinite(v) for v in observable["values"])
    for index, (beta, tokens) in enumerate((b, n) for b in (1.0, 2.0, 3.0) for n in (4, 6)):
        spec = Folder(chosen).cell("map", index)
        assert (spec["field"]["beta"], spec["measure"]["tokens"]) == (beta, tokens)
        # The seed of the cell, of 63 bits, goes to the page as digits and comes back as it was.
        plan = plan_sweep(kept_sweep(chosen / "map"))
        place = [plan.values[0].index(beta), plan.values[1].index(tokens), 0]
        seed = plan.cell(tuple(place)).seed
        experiment = read_experiment(spec, Limits())
        assert experiment.measure.seed == experiment.flow.seed == seed
        assert isinstance(spec["measure"]["seed"], str)
    with pytest.raises(Refused, match="below 6"):
        Folder(chosen).cell("map", 6)


def test_the_server_answers_with_what_lies_in_the_folder(chosen):
    server = Inside(chosen, runs=1)
    try:
        with server.http() as http:
            assert http.get("/api/folder").json() == Folder(chosen).list()
            assert http.get("/api/sweep/map").json() == Folder(chosen).sweep("map")
            assert http.get("/api/sweep/map/cell/3").json()["spec"] == Folder(chosen).cell("map", 3)
            assert http.get("/api/recording/model").content == Folder(chosen).recording("model")
            for path in ("recording/link", "recording/map", "sweep/model", "sweep/map/cell/6"):
                answer = http.get(f"/api/{path}")
                assert answer.status_code == 400 and answer.json()["error"], path
            until(lambda: not list(server.desk.kept.root.iterdir()))  # no recording stays behind
    finally:
        server.stop()
