"""A dask cluster gives the same bytes as this process."""

import pytest

from metastable.sweep import execute, executors
from tests.sweep.stores import contents, small

ONE_SHAPE = small(axes={"field.beta": [1.0, 2.0]})
distributed = pytest.importorskip("distributed")


def test_dask_gives_the_same_bytes(tmp_path):
    execute.run_sweep(ONE_SHAPE, tmp_path / "serial")
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    )
    with cluster:
        address = cluster.scheduler_address
        summary = execute.run_sweep(ONE_SHAPE, tmp_path / "dask", scheduler=address)
    assert summary.done == 4
    assert contents(tmp_path / "dask") == contents(tmp_path / "serial")


def test_a_scheduler_that_is_not_there_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "PATIENCE", 1)
    with pytest.raises(ValueError, match="address of a running dask scheduler"):
        execute.run_sweep(small(), tmp_path / "s", scheduler="tcp://127.0.0.1:1")
