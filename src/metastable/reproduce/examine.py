"""One entry examined: run as it is, then with the error it names planted."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

from metastable.comparison.citations import bibliography
from metastable.core.result import shown
from metastable.core.verdict import NOT_APPLICABLE
from metastable.reproduce.catalogue import files, function_in, read_text
from metastable.reproduce.contributed import Contributed
from metastable.reproduce.finding import Finding
from metastable.reproduce.planting import Plant, planted, read_plant
from metastable.reproduce.suspects import used_names, watched

__all__ = ["Record", "examine", "flipped", "missing"]

SLOW = 10.0  # seconds of one core, under --fast
PATIENCE = 45.0  # seconds of looking for an error that flips

Record = dict[str, Any]


def examine(contributed: Contributed) -> Record:
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
        with watched(module, [] if entry.planted else names) as calls:
            found = work()
        record["seconds"] = round(time.process_time() - started, 2)
    except Exception as error:
        record["problems"].append(_raised(error))
        return record
    record |= {"verdict": found.verdict, "as_known": found.as_known(entry.known)}
    record["rows"] = [[row.claim, row.verdict] for row in found.rows]
    if not record["as_known"]:
        row = found.rows[0]
        told = f" ({row.claim}: expected {shown(row.expected)}, observed {shown(row.observed)})"
        record["problems"].append(f"comes out {found.verdict}, known to {entry.known}{told}")
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
        nothing = f"none of {len(tried)} errors that were tried flips a row: {'; '.join(tried[:4])}"
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
    if not contributed.inside and not about.is_file():
        return problems  # a conjecture of one's own has no source
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
