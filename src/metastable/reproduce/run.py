"""Many entries: side by side, resumable, each on its own; one report at the end."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from metastable.comparison.verdict import AGREE, DISAGREE, NOT_APPLICABLE
from metastable.flows.progress import Bar
from metastable.reproduce.perform import describe, kept, perform
from metastable.spec.reproduction import Reproduction, catalogue

__all__ = ["choose", "reproduce"]

FAILED = "failed"


def choose(names: Sequence[str]) -> dict[str, Reproduction]:
    """The entries asked for: names, the beginning of a document's number, or "all"."""
    entries = catalogue()
    if "all" in names:
        return entries
    chosen = {}
    for asked in names:
        found = (
            [asked]
            if asked in entries
            else [
                name
                for name, entry in entries.items()
                if len(asked) >= 3 and entry.seed.startswith(asked)
            ]
        )
        if not found:
            raise ValueError(
                f"NAME must be an entry, a document such as 004 or all; got {asked!r}: "
                "see `metastable reproduce --list`."
            )
        chosen |= {name: entries[name] for name in found}
    return chosen


def reproduce(
    names: Sequence[str],
    out: Path,
    *,
    fast: bool = False,
    workers: int = 0,
    again: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Do all these entries and bind them into `out/index.html`.

    Entries done before with the same settings and version are taken from their folders, unless
    `again`. One that raises is recorded as failed and the others go on. Ctrl-C keeps what is done.
    """
    from metastable.report.reproductions import report_reproductions

    entries = choose(names)
    started = time.perf_counter()
    done: dict[str, dict[str, Any]] = {}
    for name, entry in entries.items():
        record = None if again else kept(entry, out / name, fast)
        if record is not None:
            done[name] = record
    resumed = len(done)
    left = [name for name in entries if name not in done]
    interrupted = False
    with Bar("reproducing") as bar:
        try:
            for name, record in _perform_all(left, entries, out, fast, workers):
                done[name] = record
                bar.update(len(done) / len(entries))
                say(f"{record['verdict']:>14}  {name}  ({record['seconds']:.1f} s)")
        except KeyboardInterrupt:
            interrupted = True
    records = [done[name] for name in entries if name in done]
    count = lambda verdict: sum(record["verdict"] == verdict for record in records)
    page = report_reproductions(records, out) if records else None
    return {
        "entries": records,
        "agree": count(AGREE),
        "disagree": count(DISAGREE),
        "not_applicable": count(NOT_APPLICABLE),
        "failed": count(FAILED),
        "surprises": [one["name"] for one in records if not one["as_known"]],
        "resumed": resumed,
        "left": len(entries) - len(records),
        "interrupted": interrupted,
        "seconds": round(time.perf_counter() - started, 1),
        "report": page and str(page),
    }


def _perform_all(
    names: Sequence[str], entries: dict[str, Reproduction], out: Path, fast: bool, workers: int
) -> Iterable[tuple[str, dict[str, Any]]]:
    workers = min(workers or os.cpu_count() or 1, len(names), 8)
    if workers <= 1:
        for name in names:
            yield name, _safely(name, entries[name], out / name, fast)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_deaf)
    try:
        waiting: dict[Future, str] = {
            pool.submit(_safely, name, entries[name], out / name, fast): name for name in names
        }
        while waiting:
            finished, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in finished:
                yield waiting.pop(future), future.result()
    finally:
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            with contextlib.suppress(OSError):
                process.terminate()


def _deaf() -> None:
    """Ctrl-C is for the parent, which ends its workers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _safely(name: str, entry: Reproduction, folder: Path, fast: bool) -> dict[str, Any]:
    started = time.perf_counter()
    try:
        return perform(name, entry, folder, fast)
    except Exception as error:
        message = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return {
            **describe(name, entry),
            "expected": None,
            "observed": message,
            "verdict": FAILED,
            "as_known": False,
            "seconds": round(time.perf_counter() - started, 2),
            "figure": None,
            "rows": [],
            "figures": [],
            "movies": [],
            "notes": [message],
            "fast": fast,
        }
