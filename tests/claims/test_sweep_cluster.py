"""A dask cluster: its workers and its scheduler may die; no cell is lost or changed."""

import json
import os
import subprocess
import sys
import time

import pytest

from metastable.sweep import execute
from metastable.sweep.executors import LostScheduler
from metastable.sweep.spec import Sweep
from tests.sweep.stores import SMALL, contents

pytest.importorskip("distributed")
pytestmark = pytest.mark.claim


@pytest.fixture
def cluster(tmp_path):
    """A scheduler and two workers in processes of their own: (address, processes)."""
    started = []

    def start(program, *words):
        command = [sys.executable, "-m", f"distributed.cli.{program}", "--no-dashboard"]
        log = open(tmp_path / f"{program}{len(started)}.log", "w")
        with log:
            started.append(subprocess.Popen([*command, *words], stdout=log, stderr=log))

    file = tmp_path / "scheduler.json"
    start("dask_scheduler", "--port", "0", "--host", "127.0.0.1", "--scheduler-file", str(file))
    _until(lambda: file.exists() and file.stat().st_size > 0)
    for _ in range(2):
        start(
            "dask_worker", "--scheduler-file", str(file), "--nthreads", "1", "--no-nanny",
            "--local-directory", str(tmp_path / "work"),
        )  # fmt: skip
    yield json.loads(file.read_text())["address"], started
    for process in started:
        process.kill()
        process.wait()


def _until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_losing_workers_and_the_scheduler_loses_no_cell(cluster, tmp_path, monkeypatch):
    """A worker dies: absorbed. The scheduler dies: one line, and the next command finishes."""
    address, (scheduler, first, _) = cluster
    (tmp_path / "spec.toml").write_text(SMALL.format(count=40, repetitions=2))
    sweep = Sweep.load(tmp_path / "spec.toml")
    execute.run_sweep(sweep, tmp_path / "serial")
    monkeypatch.setattr(execute, "CLUSTER_WINDOW", 4)
    kept, kills = [], {3: first, 7: scheduler}

    class Watch(execute.Watch):
        def update(self, finished):
            for task in [k for k in kills if finished >= 16 * k]:
                kept.append(finished)
                os.kill(kills.pop(task).pid, 9)

    monkeypatch.setattr(execute, "Watch", Watch)
    with pytest.raises(LostScheduler, match="run the same command again"):
        execute.run_sweep(sweep, tmp_path / "s", scheduler=address)
    assert len(kept) == 2
    resumed = execute.run_sweep(sweep, tmp_path / "s")
    assert resumed.skipped >= kept[1] and resumed.done + resumed.skipped == 160
    assert contents(tmp_path / "s") == contents(tmp_path / "serial")
