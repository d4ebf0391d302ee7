"""Check an entry: is it complete, does it come out as known, and does it notice a planted error."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from metastable import __version__
from metastable.comparison.citations import bibliography
from metastable.core.progress import Bar
from metastable.core.spec import fingerprint
from metastable.core.verdict import NOT_APPLICABLE
from metastable.reproduce.catalogue import files, function_in, read_text
from metastable.reproduce.contributed import Contributed, find_contributed
from metastable.reproduce.finding import Finding
from metastable.reproduce.planting import Plant, planted, read_plant
from metastable.reproduce.suspects import used_names, watched

SLOW = 10.0  # seconds of one core, under --fast
PATIENCE = 45.0  # seconds of looking for an error that flips
CHECKS = "checks"  # in the folder of a report: one record an entry

Say = Callable[[str], None]
Record = dict[str, Any]


def check(asked: Sequence[str], out: Path, say: Say = lambda line: None) -> Record:
    """Check files, entries by name, sources or "all"; what has not changed is not done again."""
    found = [each for one in asked for each in find_contributed(one)]
    records: list[Record] = []
    interrupted = False
    with Bar("checking") as bar:
        try:
            for contributed in found:
                records.append(_kept_or_checked(contributed, out / CHECKS))
                bar.update(len(records) / len(found))
                say(line_of(records[-1]))
        except KeyboardInterrupt:
            interrupted = True
    failed = [record["name"] for record in records if not record["ok"]]
    left = len(found) - len(records)
    return {"entries": records, "failed": failed, "left": left, "interrupted": interrupted}


def line_of(record: Record) -> str:
    """One line about an entry.

    >>> line_of({"ok": True, "name": "wendel", "seconds": 0.5, "problems": [], "warnings": [],
    ...          "planted": "share * 1.3", "flipped": ["the share"], "proposed": False})
    'ok      wendel (0.5 s): share * 1.3 flips: the share'
    """
    told = [*record["problems"], *record["warnings"]]
    if record["flipped"]:
        proposed = "write in planted: " * record["proposed"]
        told.insert(0, f"{proposed}{record['planted']} flips: {'; '.join(record['flipped'])}")
    mark = "ok" if record["ok"] else "not ok"
    return f"{mark:6}  {record['name']} ({record['seconds']:.1f} s): {'. '.join(told)}"


def check_one(contributed: Contributed) -> Record:
    """Run an entry fast, right and with an error: `problems` make it invalid, `warnings` do not."""
    record: Record = {
        "name": contributed.name, "source": contributed.source, "problems": [], "warnings": [],
        "verdict": None, "as_known": None, "seconds": 0.0, "planted": "", "flipped": [],
        "proposed": False, "tried": [], "rows": [],
    }  # fmt: skip
    try:
        entry, module = contributed.entry, contributed.module
        function = function_in(module, entry)
        if not inspect.getdoc(function):
            record["problems"].append(f"{entry.name}() must have a docstring")
        work = lambda: getattr(module, entry.name)(**entry.arguments(fast=True))
        started, names = time.process_time(), used_names(contributed.file)
        with watched(module, names) as calls:
            found = work()
        record["seconds"] = round(time.process_time() - started, 2)
    except Exception as error:
        record["problems"].append(_raised(error))
        return record
    record |= {"verdict": found.verdict, "as_known": found.as_known(entry.known)}
    record["rows"] = [[row.claim, row.verdict] for row in found.rows]
    if not record["as_known"]:
        record["problems"].append(f"comes out {found.verdict}, known to {entry.known}")
    if record["seconds"] > SLOW:
        record["warnings"].append(f"takes {record['seconds']:.0f} s with --fast: aim at 5")
    suspects = calls.suspects(names)
    record |= {"planted": entry.planted, "proposed": not entry.planted}
    if entry.planted:
        try:
            suspects = [read_plant(entry.planted)]
        except ValueError as error:
            record["problems"].append(str(error).rstrip("."))
            return record
    patience = time.process_time() + PATIENCE
    for plant in suspects:
        if record["tried"] and time.process_time() > patience:
            break
        wrong, said = _with_error(module, plant, work)
        record["tried"].append(f"{plant}: {said}")
        if wrong is not None and not wrong.as_known(entry.known):
            record |= {"planted": str(plant), "flipped": flipped(found, wrong)}
            break
    if not record["flipped"] and found.rows[0].verdict == NOT_APPLICABLE:
        record["warnings"].append(f"cannot be told here: {found.rows[0].reason}")
    elif not record["flipped"]:
        tried = record["tried"]
        nothing = f"none of {len(tried)} errors that were tried flips a row"
        record["problems"].append(f"planted {tried[0]}" if entry.planted else nothing)
    return record


def missing(contributed: Contributed) -> list[str]:
    """What an entry leaves out, or says of entries that do not exist."""
    try:
        entry, others = contributed.entry, set(files())
    except ValueError:
        return []  # told where it is checked
    needed = ("subject", "limits", "planted")
    problems = [f"{name} must be filled in" for name in needed if not getattr(entry, name)]
    for field in ("implies", "contradicts"):
        unknown = sorted(set(getattr(entry, field)) - others - {entry.name})
        problems += [f"{field} must name entries; {name} is none" for name in unknown]
    if entry.name in others and not contributed.inside:
        problems.append(f"names of entries must differ; {entry.name} is one already")
    about = contributed.file.parent / "__init__.py"
    if not about.is_file() or not read_text(about, "TITLE"):
        problems.append(f"{entry.source}/__init__.py must assign TITLE")
    elif read_text(about, "KEY") not in bibliography():
        problems.append(f"{entry.source}/__init__.py must assign KEY, a key of references.bib")
    return problems


def flipped(right: Finding, wrong: Finding) -> list[str]:
    """Claims of the rows whose verdict an error changed."""
    pairs = zip(right.rows, wrong.rows, strict=False)
    return [good.claim for good, bad in pairs if good.verdict != bad.verdict]


def _with_error(module: Any, plant: Plant, work: Callable[[], Finding]) -> tuple[Any, str]:
    """What comes out with an error planted, and in words; None where it raises."""
    try:
        with planted(module, plant):
            wrong = work()
    except Exception as error:
        return None, _raised(error)
    return wrong, f"leaves {wrong.verdict}"


def _raised(error: Exception) -> str:
    kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
    return f"raises {kind}{' '.join(str(error).split())}"[:300]


def _kept_or_checked(contributed: Contributed, folder: Path) -> Record:
    """The record of the same file checked before by the same version, or a new one."""
    place = folder / f"{contributed.source}-{contributed.name}.json"
    work = {"file": contributed.text(), "version": __version__, "inside": contributed.inside}
    digest, record = fingerprint(work), None
    with suppress(OSError, ValueError):
        kept = json.loads(place.read_text(encoding="utf-8"))
        record = kept["record"] if kept["digest"] == digest else None
    if record is None:
        record = check_one(contributed)
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"digest": digest, "record": record}, ensure_ascii=False, indent=1)
        place.write_text(text + "\n", encoding="utf-8")
    problems = [*missing(contributed), *record["problems"]]  # others may have come since
    return record | {"problems": problems, "ok": not problems}
