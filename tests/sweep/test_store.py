"""The store against everything that can happen to it, short of killing its writer."""

import errno
import json
import os
import warnings

import numpy as np
import pytest
import xarray
import zarr

from metastable.core.outcome import Outcome
from metastable.sweep import execute, layout
from metastable.sweep.plan import plan_sweep
from metastable.sweep.status import open_sweep, status
from metastable.sweep.store import Store
from tests.sweep.driver import numbers, pretend
from tests.sweep.stores import contents, small


@pytest.fixture
def quick(monkeypatch):
    """Cells that cost nothing; the list of those that were computed."""
    computed = []

    def record(recipe, cells):
        computed.extend(cell.index for cell in cells)
        return pretend(recipe, cells)

    monkeypatch.setattr(execute, "compute", record)
    return computed


def test_plain_xarray_reads_it_while_it_is_written(tmp_path):
    sweep = small()
    with Store(tmp_path / "s", sweep) as store, warnings.catch_warnings():
        warnings.simplefilter("error")
        cell = store.plan.cell((1, 0, 1))
        values = numbers(store.plan.recipe, cell)
        store.keep(cell.index, Outcome.done(), values)
        store.flush()
        data = xarray.open_zarr(tmp_path / "s" / "data.zarr", chunks=None)
        assert data["done"].values.sum() == 1
        assert dict(data.sizes) == {"beta": 5, "tokens": 2, "repetition": 2, "time": 3}
        here = data.sel(beta=1.625, tokens=4, repetition=1)
        np.testing.assert_array_equal(here["similarity"], values["similarity"])
        assert float(here["last_clusters"]) == values["last_clusters"]
        assert np.isnan(data["similarity"].values).sum() == 3 * 19
        assert data["time"].attrs["clock"] == "SA"


def test_metadata_is_what_zarr_itself_would_write(tmp_path):
    with Store(tmp_path / "s", small()) as store:
        for name in ("similarity", "last_clusters", "done", "outcome", "beta", "repetition"):
            ours = json.loads((tmp_path / "s" / "data.zarr" / name / "zarr.json").read_text())
            array = zarr.open_array(tmp_path / "s" / "data.zarr" / name, mode="r")
            theirs = json.loads(json.dumps(array.metadata.to_dict()))
            theirs.pop("storage_transformers", None)
            assert ours == theirs
        assert store.plan.shape == (5, 2, 2)


def test_words_and_cases_become_coordinates(tmp_path):
    axes = {"field.causal": [False, True], "case": {"a": {}, "b": {"field.beta": 2.0}}}
    Store(tmp_path / "s", small(axes=axes)).close()
    data = xarray.open_zarr(tmp_path / "s" / "data.zarr", chunks=None)
    assert data["causal"].values.tolist() == ["false", "true"]
    assert data["case"].values.tolist() == ["a", "b"]


def test_the_same_command_does_nothing_twice(tmp_path, quick):
    first = execute.run_sweep(small(), tmp_path / "s")
    before = contents(tmp_path / "s")
    again = execute.run_sweep(small(), tmp_path / "s")
    assert (first.done, first.skipped) == (20, 0) and (again.done, again.skipped) == (0, 20)
    assert contents(tmp_path / "s") == before and len(quick) == 20


def test_another_spec_is_refused_with_the_difference(tmp_path, quick):
    execute.run_sweep(small(), tmp_path / "s")
    before = contents(tmp_path / "s")
    changed = small(base={"measure": {"tokens": 4}, "flow": {"horizon": 3.0, "frames": 3}})
    with pytest.raises(ValueError, match=r"base.flow.horizon: 2.0 in the store, 3.0 now"):
        execute.run_sweep(changed, tmp_path / "s")
    with pytest.raises(ValueError, match=r"--add may extend axes and repetitions only"):
        execute.run_sweep(changed, tmp_path / "s", add=True)
    assert contents(tmp_path / "s") == before


def test_added_values_leave_the_old_cells_alone(tmp_path, quick):
    execute.run_sweep(small(), tmp_path / "s")
    quick.clear()
    grown = execute.run_sweep(small(count=9, repetitions=3), tmp_path / "s", add=True)
    assert (grown.cells, grown.done, grown.skipped) == (54, 34, 20) and len(quick) == 34
    execute.run_sweep(small(count=9, repetitions=3), tmp_path / "fresh")
    added, fresh = open_sweep(tmp_path / "s"), open_sweep(tmp_path / "fresh")
    xarray.testing.assert_equal(added, fresh)


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("similarity/c.2.1.0.0", lambda data: data[:-5]),
        ("similarity/c.2.1.0.0", lambda data: b""),
        ("last_clusters/c.2.1.0", lambda data: bytes([data[0] ^ 1]) + data[1:]),
        ("last_clusters/c.2.1.0", None),
        ("done/c.0.0.0", lambda data: data[:100]),
        ("outcome/c.0.0.0", lambda data: data[:10] + b"\\xff" + data[11:]),
        ("similarity/zarr.json", lambda data: data[:40]),
        ("zarr.json", lambda data: data[: len(data) // 2]),
        ("zarr.json", None),
        ("spec.toml", lambda data: b"= ="),
        ("beta/c.0", lambda data: data[:50]),
        ("beta/zarr.json", None),
    ],
)
def test_damage_is_found_and_mended(tmp_path, quick, file, damage):
    execute.run_sweep(small(), tmp_path / "s")
    whole = contents(tmp_path / "s")
    quick.clear()
    path = tmp_path / "s" / ("" if file == "spec.toml" else "data.zarr") / file
    path.unlink() if damage is None else path.write_bytes(damage(path.read_bytes()))
    (tmp_path / "s" / ".part").write_bytes(b"left by a killed writer")
    execute.run_sweep(small(), tmp_path / "s")
    assert contents(tmp_path / "s") == whole
    expected = {"similarity/c": 1, "last_clusters/c": 1, "done/c": 20, "outcome/c": 20}
    assert len(quick) == expected.get(file.split(".")[0], 0)


def test_a_damaged_chunk_is_an_error_for_plain_readers_not_a_number(tmp_path, quick):
    execute.run_sweep(small(), tmp_path / "s")
    path = tmp_path / "s" / "data.zarr/similarity/c.0.0.0.0"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(ValueError, match="checksum"):
        xarray.open_zarr(tmp_path / "s" / "data.zarr", chunks=None)["similarity"].values.sum()


def test_a_store_without_any_spec_left_is_refused(tmp_path, quick):
    execute.run_sweep(small(), tmp_path / "s")
    for name in ("data.zarr/zarr.json", "spec.toml"):
        (tmp_path / "s" / name).write_text("?")
    with pytest.raises(ValueError, match=r"no readable data.zarr/zarr.json or spec.toml"):
        execute.run_sweep(small(), tmp_path / "s")


def test_two_sweeps_at_once_are_refused(tmp_path):
    with Store(tmp_path / "s", small()):
        with pytest.raises(ValueError, match="being written by another sweep"):
            Store(tmp_path / "s", small())
    Store(tmp_path / "s", small()).close()


def test_foreign_folders_are_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(ValueError, match="holds something else"):
        Store(tmp_path, small())
    with pytest.raises(ValueError, match="is a file"):
        Store(tmp_path / "mine.txt", small())
    assert os.listdir(tmp_path) == ["mine.txt"]


def test_a_full_disk_stops_the_sweep_and_marks_nothing_false(tmp_path, quick, monkeypatch):
    reference = execute.run_sweep(small(), tmp_path / "whole")
    writes, real = iter(range(10**9)), os.replace

    def full(source, target):
        if next(writes) > 30:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="run the same command again"):
        execute.run_sweep(small(), tmp_path / "s")
    monkeypatch.setattr(os, "replace", real)
    state = status(tmp_path / "s")
    assert state["done"] < 20
    data, true = open_sweep(tmp_path / "s"), open_sweep(tmp_path / "whole")
    for name in ("similarity", "last_clusters"):
        xarray.testing.assert_equal(data[name].where(data["done"]), true[name].where(data["done"]))
    assert execute.run_sweep(small(), tmp_path / "s").done == reference.done - state["done"]
    assert contents(tmp_path / "s") == contents(tmp_path / "whole")


def test_marks_are_written_in_blocks_that_do_not_move_when_axes_grow():
    plan = plan_sweep(small())
    assert layout.chunk_of(len(plan.shape)) == 40
    assert [index for index, _ in layout.block_slices((41, 2, 1))] == [(0, 0, 0), (1, 0, 0)]


@pytest.mark.parametrize(
    "root",
    ['{"attributes": []}', '{"attributes": {"sweep": 3}}', "{}", "[]", "null", "not json"],
)
def test_a_root_that_is_not_ours_is_refused_in_a_line_and_restored(tmp_path, quick, root):
    store = tmp_path / "s"
    execute.run_sweep(small(), store)
    whole = contents(store)
    (store / "data.zarr/zarr.json").write_text(root)
    for read in (status, open_sweep):
        with pytest.raises(ValueError, match=r"STORE must hold the metadata.*damaged: run") as why:
            read(store)
        assert "\n" not in str(why.value)
    (store / "failures.json").write_text("[]")
    assert execute.run_sweep(small(), store).skipped == 20
    (store / "failures.json").unlink(missing_ok=True)
    kept = contents(store)
    begun = lambda files: json.loads(files.pop("data.zarr/zarr.json"))["attributes"].pop("sweep")
    assert begun(whole) == begun(kept) and whole == kept
    assert status(store)["done"] == 20


def test_a_missing_file_is_refused_by_readers_and_mended_by_the_same_sweep(tmp_path, quick):
    """Zarr reads a chunk that is not there as NaN: a hole where a number was."""
    execute.run_sweep(small(), tmp_path / "s")
    whole = contents(tmp_path / "s")
    for name in ("similarity/c.1.0.1.0", "last_clusters/c.0.1.0", "beta/c.0", "repetition/c.0"):
        (tmp_path / "s" / "data.zarr" / name).unlink()
        with pytest.raises(ValueError, match=r"files are missing.*run the same sweep again"):
            open_sweep(tmp_path / "s")
        execute.run_sweep(small(), tmp_path / "s")
        assert contents(tmp_path / "s") == whole
