"""Running a sweep: feed cells to an executor, keep what comes back, lose nothing."""

from __future__ import annotations

import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from metastable.core.outcome import Outcome
from metastable.core.provenance import git_state
from metastable.core.result import DATA, Result, read_result, write_result
from metastable.core.verdict import Comparison
from metastable.sweep.cells import BATCH, Computed, compute, moves_together
from metastable.sweep.claims import CLAIMS, compare_sweep
from metastable.sweep.estimate import estimate
from metastable.sweep.executors import LostScheduler, cluster, in_process, processes
from metastable.sweep.own import OVERALL, with_own_claims
from metastable.sweep.plan import Cell, plan_sweep
from metastable.sweep.spec import Sweep, experiment_with
from metastable.sweep.status import answer, open_sweep
from metastable.sweep.store import LOG, Store
from metastable.sweep.watch import Watch

FLUSH = 0.5  # seconds between two writings of the marks
CLUSTER_WINDOW = 256  # tasks that a cluster holds at once


@dataclass(frozen=True)
class Summary:
    """What one command did: cells = done + failed + skipped + left.

    `skipped` were there before (done, or failed and not retried), `left` remain after an
    interrupt or a spent budget. Once none is left, `verdicts` hold the diagram against theory.
    """

    cells: int
    done: int
    failed: int
    skipped: int
    left: int
    seconds: float
    cells_per_second: float
    store: str
    interrupted: bool = False
    verdicts: Comparison | None = None

    def to_dict(self) -> dict[str, Any]:
        judged = self.verdicts.to_dict() if self.verdicts and self.verdicts.rows else None
        return asdict(replace(self, verdicts=None)) | {"verdicts": judged}


def run_sweep(
    sweep: Sweep,
    folder: str | Path,
    *,
    workers: int = 0,
    scheduler: str | None = None,
    add: bool = False,
    retry_failed: bool = False,
    progress: bool | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Summary:
    """Compute every cell that the store does not have yet.

    In this process, in `workers` processes, or on the dask cluster at `scheduler`; the bits are
    the same. A cell that fails is recorded with its outcome, and tried again with `retry_failed`.
    Ctrl-C, or a budget of seconds, ends the command with everything finished so far kept. `say`
    hears what the sweep has to tell before it starts. Where rows of agreement are counted, the
    claims that are registered are kept beside them, each by its name.
    """
    if workers < 0 or (workers and scheduler):
        raise ValueError(
            f"workers must be >= 0, and 0 with a scheduler; got {workers}: choose one of the two."
        )
    began, started = time.perf_counter(), datetime.now(UTC)
    with Store(Path(folder), with_own_claims(sweep), add=add) as store:
        if store.repaired:
            say(f"{store.repaired} cells marked done were damaged and are computed again")
        if retry_failed:
            store.forget(map(tuple, zip(*(store.outcome > 1).nonzero(), strict=True)))
        missing = int((~store.done & (store.outcome < 2)).sum())
        foreseen = estimate(store.plan, missing, workers)
        _check_room(store, foreseen.disk)
        say(str(foreseen))
        # The code may change between sessions: where it stood belongs to each of them.
        whose = {"host": socket.gethostname(), "command": sys.argv[1:], "git": git_state()}
        store.note(event="start", missing=missing, **whose)
        with Watch(store, missing, progress) as watch:
            feed = _Feed(store, watch)
            if scheduler is not None:
                feed.run(partial(cluster, scheduler), CLUSTER_WINDOW)
            elif workers:
                feed.run(partial(processes, workers), 2 * workers)
            else:
                feed.run(in_process, 1)
        seconds = time.perf_counter() - began
        finished = feed.done + feed.failed
        own = bool(OVERALL) or any(one.is_claim for one in store.plan.observables)
        judged = missing == finished and (own or not CLAIMS.keys().isdisjoint(sweep.observables))
        summary = Summary(
            cells=store.plan.size,
            done=feed.done,
            failed=feed.failed,
            skipped=store.plan.size - missing,
            left=missing - finished,
            seconds=seconds,
            cells_per_second=finished / seconds,
            store=str(folder),
            interrupted=feed.interrupted,
            verdicts=compare_sweep(open_sweep(store.folder)) if judged else None,
        )
        store.note(event="end", **summary.to_dict())
        write_result(_result(store, summary), store.folder, started, skip=(DATA, LOG))
    return summary


def _result(store: Store, summary: Summary) -> Result:
    """What is sealed beside the cells, which have checksums of their own."""
    told = ("store", "interrupted", "verdicts")
    facts = {k: v for k, v in summary.to_dict().items() if k not in told}
    facts |= {"axes": list(store.plan.dims), "observables": list(store.plan.sweep.observables)}
    count = f"{int(store.done.sum())} of {store.plan.size} cells are done"
    outcome = Outcome("done", f"{count}.")
    if summary.left:
        outcome = Outcome("interrupted", f"{count}: run the same command again to go on.")
    verdicts = summary.verdicts or Comparison((), store.plan.clock)
    sentence = answer(open_sweep(store.folder), verdicts)
    return Result(store.plan.sweep, outcome, facts, verdicts, sentence=sentence)


def prepare_sweep(spec: Sweep) -> Callable[[Path, bool | None], Result]:
    """Refuse what cannot run; the function that computes missing cells in a folder it claims."""
    from metastable.core.folder import open_folder

    plan_sweep(spec)

    def work(folder: Path, progress: bool | None) -> Result:
        run_sweep(spec, folder, progress=progress)
        return read_result(folder, spec, open_folder(folder, ""))

    return work


def _check_room(store: Store, need: int) -> None:
    limit, free = store.plan.sweep.budget.bytes, shutil.disk_usage(store.folder).free
    left = need * float((~store.done).mean())
    if limit is not None and need > limit:
        raise ValueError(
            f"budget.bytes must hold the store, about {need} bytes; got {limit}: raise it, or ask "
            "for fewer cells, frames or observables."
        )
    if left > free:
        raise ValueError(
            f"--out needs about {left:.0f} bytes more and its disk has {free}: make room, or ask "
            "for fewer cells, frames or observables."
        )


class _Feed:
    """Tasks out, results in."""

    def __init__(self, store: Store, watch: Watch):
        self.store, self.watch, self.budget = store, watch, store.plan.sweep.budget.seconds
        self.tasks, self.again = _tasks(store), list[list[Cell]]()
        self.running: dict[Future[list[Computed]], list[Cell]] = {}
        self.done = self.failed = 0
        self.began = self.flushed = time.perf_counter()
        self.interrupted = False

    def run(self, executor: Callable[[], AbstractContextManager[Executor]], window: int) -> None:
        try:
            while True:
                try:
                    with executor() as pool:
                        self._pump(pool, window)
                    return
                except BrokenProcessPool:
                    self._blame()
        finally:
            self.store.flush()

    def _pump(self, pool: Executor, window: int) -> None:
        try:
            while self._submit(pool, window):
                self._collect()
        except KeyboardInterrupt:
            self.interrupted = True
            # What has begun is finished and kept; a second Ctrl-C drops it.
            self.running = {f: task for f, task in self.running.items() if not f.cancel()}
            while self.running:
                self._collect()

    def _submit(self, pool: Executor, window: int) -> bool:
        """Keep the executor busy; False when there is nothing left to wait for."""
        spent = time.perf_counter() - self.began
        # After a crash its suspects go one by one, so that only the guilty one is blamed.
        room = (1 if self.again else window) - len(self.running)
        for _ in range(room if self.budget is None or spent < self.budget else 0):
            task = self.again.pop() if self.again else next(self.tasks, None)
            if task is None:
                break
            self.running[pool.submit(compute, self.store.plan.recipe, task)] = task
        return bool(self.running)

    def _collect(self) -> None:
        finished, _ = wait(self.running, 1.0, FIRST_COMPLETED)
        for future in finished:
            try:
                results = future.result()
            except CancelledError:
                raise LostScheduler(
                    "the scheduler is gone; every cell marked done is whole: run the same command "
                    "again, with a new scheduler or without one"
                ) from None
            except Exception as error:
                if type(error).__name__ != "KilledWorker":
                    raise
                # dask has tried this task on several workers, and lost them all.
                results = [_killed(cell) for cell in self.running[future]]
            del self.running[future]
            for result in results:
                self._keep(result)
        if time.perf_counter() - self.flushed > FLUSH:
            self.store.flush()
            self.flushed = time.perf_counter()
        self.watch.update(self.done + self.failed)

    def _keep(self, result: Computed) -> None:
        self.store.keep(result.index, result.outcome, result.values)
        fine = result.outcome.name == "done"
        self.done, self.failed = self.done + fine, self.failed + (not fine)

    def _blame(self) -> None:
        """A worker died: its lone task failed; several are suspects, tried again cell by cell."""
        suspects = [cell for task in self.running.values() for cell in task]
        self.running.clear()
        if len(suspects) == 1:
            self._keep(_killed(suspects[0]))
        else:
            self.again += [[cell] for cell in suspects]


def _killed(cell: Cell) -> Computed:
    message = "The worker died: is there enough memory? Then run again with --retry-failed."
    return Computed(cell.index, Outcome("error", message), {})


def _tasks(store: Store) -> Iterator[list[Cell]]:
    """Missing cells in lists that share compiled code, as long as they are small."""
    plan, task, group, most = store.plan, list[Cell](), None, 1
    for index in plan.indices():
        if store.done[index] or store.outcome[index] > 1:
            continue
        cell = plan.cell(index)
        if task and (len(task) == most or plan.group(index) != group):
            yield task
            task = []
        if plan.group(index) != group:
            group = plan.group(index)
            small = moves_together(plan.recipe, experiment_with(plan.sweep.base, cell.overrides))
            most = BATCH if small else 1
        task.append(cell)
    if task:
        yield task
