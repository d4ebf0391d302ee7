"""Who computes: this process, processes of this machine, or a dask cluster."""

from __future__ import annotations

import logging
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from metastable.core.interrupts import interruptible
from metastable.core.registry import PLUGINS, load_plugin

PATIENCE = 10  # seconds until a scheduler has answered


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
    """The workers behind a dask scheduler, which need this package and nothing of our disk."""
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
    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except OSError as error:
        raise ValueError(
            f"--scheduler must be the address of a running dask scheduler, such as "
            f"tcp://10.0.0.1:8786; got {address} ({error})."
        ) from None
    try:
        yield client.get_executor(pure=False)
    finally:
        client.close(timeout=2)
