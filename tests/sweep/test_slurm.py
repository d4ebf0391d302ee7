"""A sweep on a real Slurm: killed with its jobs and run again, it has the bytes of one process."""

import json
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from metastable.sweep import execute
from metastable.sweep.spec import Sweep
from metastable.sweep.status import status
from tests.sweep import slurm
from tests.sweep.stores import contents

pytest.importorskip("dask_jobqueue")
WHY_NOT = slurm.missing()

# One compiled shape, and too many tokens for one call of several cells: a task is a cell.
SPEC = """
observables = ["similarity", "last_clusters"]
[axes]
field.beta = { from = 0.5, to = 6.0, count = 40 }
[base.measure]
tokens = 400
dim = 3
[base.flow]
horizon = 4.0
frames = 3
"""


@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
def test_a_sweep_on_slurm_killed_and_resumed_has_the_bytes_of_one_process(tmp_path):
    """First the command is killed and its jobs are cancelled, then the jobs alone."""
    spec, store = tmp_path / "spec.toml", tmp_path / "store"
    spec.write_text(SPEC)
    with slurm.running(tmp_path / "slurm") as environment:
        settings = {"INTERFACE": "lo", "LOG_DIRECTORY": str(tmp_path / "logs"), "QUEUE": "main"}
        environment |= {f"DASK_JOBQUEUE__SLURM__{name}": value for name, value in settings.items()}
        environment["DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT"] = "1s"
        cancel = lambda: slurm.command(environment, "scancel", "--user=root")

        with _sweep(spec, store, environment, tmp_path / "first.log") as first:
            slurm.until(lambda: _done(store) >= 3 or first.poll() is not None)
            first.send_signal(signal.SIGKILL)
            assert first.wait() == -signal.SIGKILL, (tmp_path / "first.log").read_text()
        cancel()
        kept = _done(store)
        assert 3 <= kept < 40

        with _sweep(spec, store, environment, tmp_path / "second.log") as second:
            slurm.until(lambda: _done(store) > kept or second.poll() is not None)
            cancel()
            assert second.wait(90) == 0, (tmp_path / "second.log").read_text()
        # Jobs are cancelled when the sweep is done, not left to their wall time.
        slurm.until(lambda: not slurm.command(environment, "squeue", "--noheader").strip())
    summary = json.loads((tmp_path / "second.log").read_text().splitlines()[-1])
    assert summary["skipped"] >= kept and summary["done"] + summary["skipped"] == 40
    execute.run_sweep(Sweep.load(spec), tmp_path / "serial")
    assert contents(store) == contents(tmp_path / "serial")


@contextmanager
def _sweep(spec, store, environment, log):
    words = ["sweep", str(spec), "--out", str(store), "--scheduler", "slurm:2", "--json"]
    with open(log, "wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "metastable", *words], env=environment, stdout=file, stderr=file
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _done(store) -> int:
    try:
        return status(store)["done"]
    except (ValueError, OSError):
        return 0  # the store is being made


@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
@pytest.mark.parametrize("wrong", [{"queue": "nowhere"}, {"memory": "100TB"}], ids=str)
def test_a_job_that_slurm_refuses_is_an_error_of_one_line(wrong, tmp_path, monkeypatch):
    sweep = Sweep.model_validate({"observables": ["similarity"], "axes": {"field.beta": [1.0]}})
    with slurm.running(tmp_path / "slurm") as environment:
        monkeypatch.setenv("SLURM_CONF", environment["SLURM_CONF"])
        from dask import config

        asked = {f"jobqueue.slurm.{k}": v for k, v in ({"interface": "lo"} | wrong).items()}
        with config.set(asked), pytest.raises(ValueError, match=r"Slurm refuses the job"):
            execute.run_sweep(sweep, tmp_path / "store", scheduler="slurm:1")


@pytest.mark.parametrize("address", ["slurm:", "slurm:0", "slurm:-1", "slurm:two"])
def test_jobs_must_be_a_number(address, tmp_path):
    sweep = Sweep.model_validate({"observables": ["similarity"], "axes": {"field.beta": [1.0]}})
    with pytest.raises(ValueError, match="number of jobs"):
        execute.run_sweep(sweep, tmp_path / "store", scheduler=address)


def test_a_machine_without_slurm_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    sweep = Sweep.model_validate({"observables": ["similarity"], "axes": {"field.beta": [1.0]}})
    with pytest.raises(ValueError, match="sbatch"):
        execute.run_sweep(sweep, tmp_path / "store", scheduler="slurm:1")
