"""Perform many entries side by side, resumably, and bind them into one report."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from metastable.core.errors import did_you_mean
from metastable.core.progress import Bar
from metastable.core.result import plain
from metastable.core.verdict import AGREE, DISAGREE, NOT_APPLICABLE
from metastable.reproduce.catalogue import catalogue
from metastable.reproduce.entry import Entry
from metastable.reproduce.perform import describe_entry, kept, perform

FAILED = "failed"


def choose(names: Sequence[str], changes: Mapping[str, Any] | None = None) -> list[Entry]:
    """The entries asked for by name, by source or as "all"; `changes` are for exactly one."""
    entries, see = catalogue(), "see `metastable reproduce --list`."
    if changes:
        if len(names) != 1 or names[0] not in entries:
            message = f"NAME must be exactly one entry with --set; got {', '.join(names)}: {see}"
            raise ValueError(message)
        return [entries[names[0]].changed(changes)]
    chosen: dict[str, Entry] = {}
    for asked in names:
        matching = {name: e for name, e in entries.items() if asked in (name, e.source, "all")}
        if not matching:
            allowed = "an entry, a source such as ponti2025 or all"
            near = f"{did_you_mean(asked, entries)} ".lstrip()
            raise ValueError(f"NAME must be {allowed}; got {asked!r}: {near}{see}")
        chosen |= matching
    return list(chosen.values())


def reproduce(
    names: Sequence[str], out: Path, *, changes: Mapping[str, Any] | None = None,
    fast: bool = False, workers: int = 0, again: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:  # fmt: skip
    """Do all these entries and bind them into `out/index.html`.

    Entries done before with the same settings and version are taken from their folders, unless
    `again`. One that raises is recorded as failed and the others go on. Ctrl-C keeps what is done.
    With `changes` to the settings of one entry, its work is kept in a folder of its own.
    """
    from metastable.report.pages.reproduction import report_reproductions

    if out.exists() and not out.is_dir():
        raise ValueError(f"--out must be a folder; {out} is a file: choose another name.")
    entries = {entry.label(fast): entry for entry in choose(names, changes)}
    started = time.perf_counter()
    before = {} if again else {label: kept(e, out / label, fast) for label, e in entries.items()}
    done = {label: record for label, record in before.items() if record is not None}
    resumed = len(done)
    left = {label: entry for label, entry in entries.items() if label not in done}
    interrupted = False
    with Bar("reproducing") as bar:
        try:
            for label, record in _perform_all(left, out, fast, workers):
                done[label] = record
                bar.update(len(done) / len(entries))
                say(f"{record['verdict']:>14}  {label}  ({record['seconds']:.1f} s)")
        except KeyboardInterrupt:
            interrupted = True
    records = [done[label] for label in entries if label in done]
    page = report_reproductions(records, out) if records else None
    verdicts = [record["verdict"] for record in records]
    counted = {"agree": AGREE, "disagree": DISAGREE, "not_applicable": NOT_APPLICABLE}
    counted["failed"] = FAILED
    return {
        "entries": records,
        **{name: verdicts.count(verdict) for name, verdict in counted.items()},
        "surprises": [record["name"] for record in records if not record["as_known"]],
        "resumed": resumed,
        "left": len(entries) - len(records),
        "interrupted": interrupted,
        "seconds": round(time.perf_counter() - started, 1),
        "report": page and str(page),
    }


def _perform_all(
    entries: Mapping[str, Entry], out: Path, fast: bool, workers: int
) -> Iterable[tuple[str, dict[str, Any]]]:
    workers = min(workers or os.cpu_count() or 1, len(entries), 8)
    if workers <= 1:
        for label, entry in entries.items():
            yield label, _safely(entry, out / label, fast)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_ignore_interrupts)
    try:
        submit = lambda label: pool.submit(_safely, entries[label], out / label, fast)
        waiting: dict[Future, str] = {submit(label): label for label in entries}
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


def _ignore_interrupts() -> None:
    """Ctrl-C is for the parent, which ends its workers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _safely(entry: Entry, folder: Path, fast: bool) -> dict[str, Any]:
    """The record of an entry; that of a failure, with its message, if it raises."""
    started = time.perf_counter()
    try:
        return perform(entry, folder, fast)
    except Exception as error:
        message = f"{type(error).__name__}: {' '.join(str(error).split())}"
        seconds = round(time.perf_counter() - started, 2)
        result = {"expected": None, "observed": message, "verdict": FAILED, "as_known": False}
        result |= {"seconds": seconds, "figure": None, "rows": [], "notes": [message], "fast": fast}
        return plain({**describe_entry(entry, fast), **result})
