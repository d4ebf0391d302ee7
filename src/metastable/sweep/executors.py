"""Who computes: this process, processes of this machine, a dask cluster, or jobs of Slurm."""

from __future__ import annotations

import logging
import multiprocessing
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from metastable.core.interrupts import interruptible
from metastable.core.registry import PLUGINS, load_plugin

PATIENCE = 10  # seconds until a scheduler has answered
SLURM = "slurm:"  # an address that begins so asks for jobs


class LostScheduler(RuntimeError):
    """The dask scheduler went away; what it had not delivered is computed by the next command."""


class _InProcess(Executor):
    """Each task in a thread that is waited for: Ctrl-C is heard while a compiled call runs."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(interruptible(fn, *args, **kwargs))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            future.set_exception(error)
        return future


@contextmanager
def in_process() -> Iterator[Executor]:
    yield _InProcess()


@contextmanager
def processes(count: int) -> Iterator[Executor]:
    """Fresh processes: JAX does not survive a fork."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, context, initializer=_begin, initargs=(list(PLUGINS),))
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    pool.shutdown()


def _begin(plugins: list[str]) -> None:
    """Know what the main process knows, and leave Ctrl-C, which reaches all, to that one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for path in plugins:
        load_plugin(path)


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """The workers behind a dask scheduler, which need this package and nothing of our disk.

    `address` is that of a running scheduler, or "slurm:N": N jobs of Slurm with a scheduler here.
    """
    if PLUGINS:
        raise ValueError("--scheduler cannot send --plugin to its workers: use --workers instead.")
    try:
        from distributed import Client
    except ImportError:
        raise ValueError(
            "--scheduler needs dask.distributed, which is not installed: "
            "install the extra [cluster], as README says."
        ) from None
    # A scheduler that goes away is told in one line by us, not in tracebacks by its client.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    if address.startswith(SLURM):
        with _slurm(address) as jobs, Client(jobs, set_as_default=False) as client:
            yield client.get_executor(pure=False)
        return
    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except OSError as error:
        raise ValueError(
            f"--scheduler must be the address of a running dask scheduler, such as "
            f"tcp://10.0.0.1:8786, or slurm:JOBS; got {address} ({error})."
        ) from None
    try:
        yield client.get_executor(pure=False)
    finally:
        client.close(timeout=2)


@contextmanager
def _slurm(address: str) -> Iterator[Any]:
    """A dask scheduler in this process, and as many jobs of Slurm as `address` asks for.

    Partition, account, wall time, cores and memory of a job come from dask's settings
    (`jobqueue.slurm`, files or DASK_JOBQUEUE__SLURM__… in the environment). Jobs that end are
    submitted again until the sweep is done, and all are cancelled after it.
    """
    count = address.removeprefix(SLURM)
    if not count.isdecimal() or int(count) < 1:
        raise ValueError(f"--scheduler slurm:JOBS needs a number of jobs >= 1; got {address}.")
    try:
        from dask import config
        from dask_jobqueue.slurm import SLURMCluster
    except ImportError:
        raise ValueError(
            "--scheduler slurm:JOBS needs dask-jobqueue, which is not installed: "
            "install the extra [cluster], as README says."
        ) from None
    if shutil.which("sbatch") is None:
        raise ValueError(
            "--scheduler slurm:JOBS needs the command sbatch, which is not here: run the sweep on "
            "a login node of the cluster, or use --workers."
        )
    set_by_user = config.get("jobqueue.slurm")
    cores = int(set_by_user["cores"] or 1)
    jobs = SLURMCluster(
        cores=cores,
        processes=set_by_user["processes"] or cores,
        memory=set_by_user["memory"] or f"{2 * cores}GB",
        scheduler_options={"dashboard_address": ":0"},
    )
    try:
        # Slurm refuses a job without a word to us once dask submits it, and we would wait forever.
        script = jobs.job_script()
        test = subprocess.run(
            ["sbatch", "--test-only"], input=script, capture_output=True, text=True, check=False
        )
        if test.returncode:
            why = " ".join(test.stderr.split())
            raise ValueError(f"--scheduler {address}: Slurm refuses the job ({why}).")
        jobs.adapt(minimum_jobs=int(count), maximum_jobs=int(count))
        yield jobs
    finally:
        jobs.close(timeout=PATIENCE)
