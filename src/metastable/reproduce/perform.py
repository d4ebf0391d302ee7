"""Perform one entry and keep its rows, figures and moving pictures as a result."""

from __future__ import annotations

import dataclasses
import json
import shlex
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from metastable import __version__
from metastable.core.folder import MANIFEST, SPEC, claimed, open_folder
from metastable.core.outcome import Outcome
from metastable.core.result import VERDICTS, Result, plain, write_result
from metastable.core.verdict import DISAGREE, Comparison
from metastable.reproduce.catalogue import function_of, key_of, sources
from metastable.reproduce.entry import Entry
from metastable.reproduce.spec import Reproduction

FRAMES = {True: 24, False: 80}  # of a moving picture, fast or not


def prepare_reproduction(spec: Reproduction) -> Callable[[Path | None, bool | None], Result]:
    """Find the entry of a spec; gives the function that does its work."""
    entry = spec.find()
    return lambda unfinished, progress: _result(entry, spec)


def perform(entry: Entry, folder: Path, fast: bool = False) -> dict[str, Any]:
    """Do one entry and keep it in `folder`, replacing older work of it; returns its record."""
    from metastable.report.pages.reproduction import write_reproduction

    spec = Reproduction(entry=entry.name, fast=fast, settings=entry.changes)
    started = datetime.now(UTC)
    if _is_of(folder, entry):
        shutil.rmtree(folder)
    with claimed(folder, spec, "reproduction"):
        result = write_result(_result(entry, spec), folder, started)
        write_reproduction(result)
    return record_of(result)


def record_of(result: Result) -> dict[str, Any]:
    """All facts of an entry, its rows among them."""
    return plain({**result.facts, "rows": [dataclasses.asdict(r) for r in result.verdicts.rows]})


def _result(entry: Entry, spec: Reproduction) -> Result:
    started = time.perf_counter()
    finding = function_of(entry)(**entry.arguments(spec.fast))
    frames = FRAMES[spec.fast]
    films = {f"{name}-film": film(frames) for name, film in finding.movies.items()}
    first, shown = finding.rows[0], next(iter(finding.figures), None)
    facts = {
        **describe_entry(entry, spec.fast),
        "expected": first.expected,
        "observed": first.observed,
        "verdict": finding.verdict,
        "as_known": finding.as_known(entry.known),
        "seconds": round(time.perf_counter() - started, 2),
        "figure": None if shown is None else f"figures/{entry.name}-{shown}.png",
        "notes": list(finding.notes),
        "fast": spec.fast,
        "digest": entry.digest(spec.fast),
        "version": __version__,
    }
    verdicts = Comparison(tuple(finding.rows), "none")
    known = " (as is known)" * (finding.verdict == entry.known == DISAGREE)
    sentence = f"{entry.title}: {verdicts.tally}{known}."
    return Result(
        spec=spec,
        outcome=Outcome("done", f"{entry.title}: {finding.verdict}."),
        facts=facts,
        verdicts=verdicts,
        figures={**finding.figures, **films},
        sentence=sentence,
    )


def describe_entry(entry: Entry, fast: bool) -> dict[str, Any]:
    """What is known of an entry before it is done: its data, folder and command."""
    words = ["metastable", "reproduce", entry.name, *(["--fast"] if fast else [])]
    for key, value in entry.changes.items():
        words += ["--set", f"{key}={json.dumps(value, ensure_ascii=False)}"]
    return {
        **entry.model_dump(exclude={"settings", "fast"}),
        "document": sources()[entry.source],
        "key": key_of(entry.source),
        "settings": entry.arguments(fast),
        "folder": entry.label(fast),
        "command": shlex.join(words),
    }


def kept(entry: Entry, folder: Path, fast: bool) -> dict[str, Any] | None:
    """The record of the same work done before by the same version, if it is there and whole."""
    try:
        record = open_folder(folder, "")["result"]
        record["rows"] = json.loads((folder / VERDICTS).read_text(encoding="utf-8"))["rows"]
    except (OSError, ValueError):
        return None
    same = record.get("digest") == entry.digest(fast) and record.get("version") == __version__
    return record if same and (folder / "report.html").is_file() else None


def _is_of(folder: Path, entry: Entry) -> bool:
    """Whether a folder holds a reproduction of this entry, by its spec or by its manifest."""
    with suppress(ValueError):
        return Reproduction.load(folder / SPEC).entry == entry.name
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return manifest["kind"] == "reproduction" and manifest["spec"]["entry"] == entry.name
    except (OSError, ValueError, LookupError, TypeError):
        return False
