"""Damaged, shared and full folders: refused in one line or mended, never believed."""

import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
import xarray

import metastable as ms
from metastable.core.checkpoint import Checkpoint
from metastable.core.folder import LOCK, MANIFEST, Lock, claimed, open_folder, seal
from metastable.core.provenance import write_manifest
from metastable.flows.spec import Experiment
from tests.fuzz.damages import KINDS, RUN, call, damage, files_of, make_audit, make_learn, make_run


@pytest.fixture(
    scope="module", params=[make_run, make_learn, make_audit], ids=["run", "learn", "audit"]
)
def case(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("kept")).folder


def test_every_damaged_file_is_named_and_none_is_believed(case, tmp_path):
    """Every file, every kind of damage; what has a checksum must be refused by its name."""
    random = np.random.default_rng(0)
    folder = tmp_path / "copy"
    for file in files_of(case.folder):
        own = file.parts[0] != MANIFEST
        for kind in KINDS if own else ():
            shutil.copytree(case.folder, folder)
            damage(folder / file, kind, random)
            answer, numbers = case.open(folder)
            assert answer.code == 2 and answer.refused, (file, kind, answer)
            assert str(file) in answer.err and numbers is None
            shutil.rmtree(folder)


def test_a_flipped_bit_in_the_manifest_is_noticed(case, tmp_path):
    random = np.random.default_rng(1)
    text = (case.folder / MANIFEST).read_bytes()
    (tmp_path / "spec.toml").write_text("")
    for kind in ["empty", "halve"] + ["flip"] * 60:
        (tmp_path / MANIFEST).write_bytes(text)
        damage(tmp_path / MANIFEST, kind, random)
        with pytest.raises(ValueError, match=r"manifest.json is damaged") as refused:
            open_folder(tmp_path, "")
        assert "\n" not in str(refused.value)


def test_a_manifest_that_reads_the_same_but_is_another_is_noticed(kept, tmp_path):
    """A flipped bit can turn 1e-9 into 1E-9, which JSON reads alike."""
    text = (kept / MANIFEST).read_text()
    (tmp_path / MANIFEST).write_text(text.replace("\n  ", "\n\t ", 1))
    with pytest.raises(ValueError, match="its own checksum differs"):
        open_folder(tmp_path, "")


def test_files_beside_a_result_and_its_pages_may_change(kept, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(kept, folder)
    (folder / "notes.txt").write_text("mine")
    (folder / "report.html").write_text("old")
    shutil.rmtree(folder / "figures")
    open_folder(folder, "")
    (folder / "data.zarr" / "trajectory" / "time" / "c" / "1").write_text("a chunk more")
    with pytest.raises(ValueError, match="time/c/1 does not belong"):
        open_folder(folder, "")


def test_a_folder_of_an_older_version_says_that_it_was_not_checked(kept, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(kept, folder)
    manifest = json.loads((folder / MANIFEST).read_text())
    for key in ("format", "manifest_sha256"):
        del manifest[key]
    (folder / MANIFEST).write_text(json.dumps(manifest))
    answer = call("compare", folder, "--json")
    assert answer.code == 0 and "not checked" in answer.err
    assert "not checked" in json.loads(answer.out)["unchecked"]
    assert json.loads(call("compare", kept, "--json").out)["unchecked"] is None


@pytest.mark.parametrize("text", ["{}", "[]", "null", "1", '{"outcome": {}}', "[" * 100_000])
def test_a_manifest_that_is_not_ours_is_one_line(kept, tmp_path, text):
    folder = tmp_path / "copy"
    shutil.copytree(kept, folder)
    (folder / MANIFEST).write_text(text)
    for words in ([*RUN, folder], ["compare", folder], ["report", folder]):
        answer = call(*words)
        assert answer.code == 2 and answer.refused and "manifest.json is damaged" in answer.err


def test_odd_json_in_the_files_of_audits_and_sweeps_is_one_line(tmp_path):
    texts = [
        ("validation.json", "{}"),
        ("validation.json", "[1]"),
        ("data.zarr/zarr.json", '{"attributes":[]}'),
    ]
    for name, text in texts:
        folder = tmp_path / f"{name.split('/')[0]}{len(text)}"
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
        answer = call("report", folder)
        assert answer.code == 2 and answer.refused, answer
        if name.startswith("data.zarr"):
            assert call("sweep", "status", folder).refused


STATE = {"frames": np.arange(12.0).reshape(2, 3, 2), "done": np.asarray(3), "empty": np.empty(0)}
FRESH = {name: np.zeros(1) for name in STATE}


def test_a_damaged_checkpoint_is_refused_or_reads_the_same(tmp_path):
    """Bits of dates and the like in a zip file mean nothing; all others are covered by a CRC."""
    whole, file = tmp_path / "whole.npz", tmp_path / "state.npz"
    Checkpoint(whole, "this run").save(STATE)
    random = np.random.default_rng(2)
    refused = 0
    for kind in ["empty", "halve"] + ["flip"] * 200:
        shutil.copy(whole, file)
        damage(file, kind, random)
        try:
            read = Checkpoint(file, "this run").load(FRESH)
        except ValueError as error:
            assert f"checkpoint {file} is damaged" in str(error) and "remove it" in str(error)
            refused += 1
        else:
            assert kind == "flip"
            assert all(read[name].tobytes() == STATE[name].tobytes() for name in STATE)
    assert refused > 50
    file.write_bytes(b"junk")
    with pytest.raises(ValueError, match="is damaged"):
        Checkpoint(file, "this run").load(FRESH)
    with pytest.raises(ValueError, match="is damaged"):
        Checkpoint(whole, "this run").load(FRESH | {"more": np.zeros(1)})


@pytest.mark.parametrize("data", [b"", b"junk"])
def test_a_damaged_checkpoint_is_no_interruption(kept, tmp_path, data):
    """An empty file was an EOFError, which the parser of the command line takes for Ctrl-C."""
    (tmp_path / "spec.toml").write_text((kept / "spec.toml").read_text())
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "flow.npz").write_bytes(data)
    answer = call(*RUN, tmp_path)
    assert answer.code == 2 and answer.refused and "remove it to start over" in answer.err
    (tmp_path / "unfinished" / "flow.npz").unlink()
    assert call(*RUN, tmp_path).code == 0
    first, second = (ms.Trajectory.load(f / "data.zarr" / "trajectory") for f in (kept, tmp_path))
    np.testing.assert_array_equal(first.points, second.points)


def test_a_damaged_store_without_checksums_is_one_error(kept, tmp_path):
    random = np.random.default_rng(3)
    whole, store = kept / "data.zarr" / "trajectory", tmp_path / "store"
    refused = 0
    for file in files_of(whole):
        for kind in KINDS:
            shutil.copytree(whole, store)
            damage(store / file, kind, random)
            try:
                ms.Trajectory.load(store)
            except ValueError as error:
                assert str(store) in str(error) and "damaged" in str(error)
                refused += 1
            shutil.rmtree(store)
    assert refused > 15


def test_a_stored_trajectory_opens_without_a_warning(kept):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert set(xarray.open_datatree(kept / "data.zarr")["trajectory"].dims) >= {
            "time",
            "token",
        }


def test_a_folder_in_use_is_refused_by_name_of_its_holder(tmp_path):
    out = tmp_path / "out"
    with Lock(out, "run"):
        answer = call(*RUN, out)
        assert answer.code == 2 and answer.refused
        assert (
            "being written by another run" in answer.err and f"process {os.getpid()}" in answer.err
        )
        assert os.listdir(out) == [LOCK]
    assert os.listdir(out) == []


HOLD = """
import sys, time
from pathlib import Path
from metastable.core.folder import Lock
lock = Lock(Path(sys.argv[1]), "run")
print("held", flush=True)
time.sleep(600)
"""


def test_the_lock_of_a_killed_process_blocks_nobody(tmp_path):
    words = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match=f"process {holder.pid} on"):
            Lock(tmp_path, "run")
        holder.send_signal(signal.SIGKILL)
    assert os.listdir(tmp_path) == [LOCK]
    Lock(tmp_path, "run").release()
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_names_the_file_what_is_kept_and_the_remedy(kept, tmp_path):
    """The checkpoint goes to a device that answers every write with "no space left"."""
    (tmp_path / "spec.toml").write_text((kept / "spec.toml").read_text())
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "flow.npz.part").symlink_to("/dev/full")
    answer = call(*RUN, tmp_path)
    assert answer.code == 1 and answer.refused
    for words in ("flow.npz cannot be written", "kept", "make room and run the same command"):
        assert words in answer.err
    assert set(os.listdir(tmp_path)) == {"spec.toml", "unfinished"}
    assert call(*RUN, tmp_path).code == 0


def test_frames_that_find_no_room_leave_the_checkpoint(tmp_path, monkeypatch):
    def full(self, path, **_):
        path.mkdir()
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(xarray.DataTree, "to_zarr", full)
        answer = call(*RUN, tmp_path / "out")
    assert answer.code == 1 and answer.refused and "data.zarr cannot be written" in answer.err
    assert set(os.listdir(tmp_path / "out")) == {"spec.toml", "unfinished"}
    assert call(*RUN, tmp_path / "out").code == 0


LATE = {
    "a geodesic step without noise": ["flow.stepper.kind=geodesic"],
    "layers with noise": ["flow.stepper.kind=layers", "--noise", "9"],
    "equal steps with noise": ["flow.stepper={kind='fixed', step=0.1}", "--noise", "9"],
    "harmonics of tokens": ["flow.stepper.kind=resolution"],
    "hardmax up to a time": ["flow.stepper.kind=hardmax"],
    "mergers with noise": ["flow.stepper.kind=merging", "--noise", "9"],
    "frames beyond all bounds": ["flow.frames=20000000"],
}


@pytest.mark.parametrize("late", LATE.values(), ids=LATE.keys())
def test_a_refusal_leaves_nothing_so_that_a_corrected_spec_can_run(late, tmp_path):
    small = ["run", "--tokens", "5", "--horizon", "0.5", "--out", tmp_path / "new" / "out"]
    answer = call(*small, "--set", *late)
    assert answer.code == 2 and answer.refused, answer
    assert os.listdir(tmp_path) == []


def test_too_many_frames_are_refused_with_a_remedy():
    answer = call("run", "--tokens", 4, "--horizon", 0.5, "--set", "flow.frames=20000000")
    assert "flow.frames must be at most 100000; got 20000000" in answer.err
    answer = call("run", "--tokens", 10**7, "--dim", 8, "--set", "flow.frames=100000")
    assert answer.code == 2 and "this machine has" in answer.err


def test_work_that_fails_before_anything_is_computed_leaves_nothing(tmp_path):
    """Also in a folder that was there, and with the empty folders a lesson makes for itself."""
    for folder in (tmp_path / "deep" / "new", tmp_path / "old"):
        (tmp_path / "old").mkdir(exist_ok=True)
        with pytest.raises(ValueError, match="no good"):
            with claimed(folder, Experiment()):
                (folder / "more").mkdir()
                raise ValueError("no good")
        assert os.listdir(tmp_path) == ["old"] and os.listdir(tmp_path / "old") == []
    with pytest.raises(KeyboardInterrupt):
        with claimed(folder, Experiment()) as unfinished:
            (unfinished / "state").write_text("half")
            raise KeyboardInterrupt
    assert set(os.listdir(folder)) == {"spec.toml", "unfinished"}


def test_a_process_killed_while_it_claimed_a_folder_blocks_nobody(tmp_path):
    for name in (LOCK, "spec.toml.part"):
        (tmp_path / name).write_text("half")
    with claimed(tmp_path, Experiment()) as unfinished:
        assert (tmp_path / "spec.toml").read_text() == Experiment().to_toml()
        (unfinished / "state").write_text("1")
    assert set(os.listdir(tmp_path)) == {"spec.toml", "unfinished"}


def test_a_manifest_stays_small_and_says_what_it_left_out(tmp_path):
    from datetime import UTC, datetime

    series = [[float(k), 1] for k in range(8001)]
    result = {"clusters": series, "short": [1, 2]}
    write_manifest(tmp_path, {}, "", datetime.now(UTC), ms.Outcome.done(), result, {})
    assert (tmp_path / MANIFEST).stat().st_size < 30_000
    manifest = open_folder(tmp_path, "")
    kept = manifest["result"]["clusters"]
    assert len(kept) <= 201 and (kept[0], kept[-1]) == (series[0], series[-1])
    assert manifest["thinned"] == {"clusters": 8001} and manifest["result"]["short"] == [1, 2]


def test_checkpoints_have_no_checksum_in_the_manifest(tmp_path):
    """They change when an interrupted run goes on; its manifest must not contradict them."""
    (tmp_path / "state.npz").write_bytes(b"1")
    content = {"spec": {}, "outcome": {"name": "interrupted"}, "result": {}, "started": ""}
    seal(tmp_path, content, ["*.npz"])
    (tmp_path / "state.npz").write_bytes(b"2")
    assert open_folder(tmp_path, "")["files_sha256"] == {}


def test_one_byte_changed_after_the_seal_is_noticed(tmp_path):
    """Of the same length, in a file and in a file of a folder; the checksums are hashlib's."""
    (tmp_path / "data").mkdir()
    files = {tmp_path / "data" / "part": b"1.0", tmp_path / "table.csv": b"2.0"}
    for file, data in files.items():
        file.write_bytes(data)
    seal(tmp_path, {"spec": {}, "outcome": {"name": "done"}, "result": {}, "started": ""})
    inside, beside = (hashlib.sha256(data).hexdigest() for data in files.values())
    wanted = {"data": {"part": inside}, "table.csv": beside}
    assert open_folder(tmp_path, "")["files_sha256"] == wanted
    for file, data in files.items():
        file.write_bytes(b"9" + data[1:])
        with pytest.raises(ValueError, match=f"{file.name} is damaged"):
            open_folder(tmp_path, "")
        file.write_bytes(data)
    open_folder(tmp_path, "")
