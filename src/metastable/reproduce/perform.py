"""Perform one entry and keep its rows, figures, moving pictures and time in a folder."""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
import time
from pathlib import Path
from typing import Any

import numpy as np

from metastable import __version__
from metastable.reproduce.catalogue import function_of, sources
from metastable.reproduce.entry import Entry

__all__ = ["describe", "kept", "perform"]

RECORD = "entry.json"
FRAMES = {True: 24, False: 80}  # of a moving picture, fast or not


def perform(entry: Entry, folder: Path, fast: bool = False) -> dict[str, Any]:
    """Do the work of one entry and keep it in `folder`; the record is written last."""
    from metastable.report.drawing import write_film
    from metastable.report.svg import save_figure

    started = time.perf_counter()
    finding = function_of(entry)(**entry.arguments(fast))
    name, files = entry.name, []
    for short, figure in finding.figures.items():
        _, raster = save_figure(figure, folder, f"{name}-{short}")
        files.append({"file": raster.name, "caption": figure.caption})
    movies = []
    for short, film in finding.movies.items():
        write_film(film(FRAMES[fast]), folder / f"{name}-{short}.gif")
        movies.append({"file": f"{name}-{short}.gif", "caption": short})
    first = finding.rows[0]
    record = {
        **describe(entry, fast),
        "expected": first.expected,
        "observed": first.observed,
        "verdict": finding.verdict,
        "as_known": finding.as_known(entry.known),
        "seconds": round(time.perf_counter() - started, 2),
        "figure": files[0]["file"] if files else None,
        "rows": [dataclasses.asdict(row) for row in finding.rows],
        "figures": files,
        "movies": movies,
        "notes": list(finding.notes),
        "fast": fast,
        "digest": entry.digest(fast),
        "version": __version__,
    }
    record = _plain(record)
    part = folder / f"{RECORD}.part"
    folder.mkdir(parents=True, exist_ok=True)
    part.write_text(json.dumps(record, indent=1, ensure_ascii=False), encoding="utf-8")
    part.replace(folder / RECORD)
    return record


def describe(entry: Entry, fast: bool) -> dict[str, Any]:
    """What is known of an entry before it is done: its data, folder and command."""
    words = ["metastable", "reproduce", entry.name, *(["--fast"] if fast else [])]
    for key, value in entry.changes.items():
        words += ["--set", f"{key}={json.dumps(value, ensure_ascii=False)}"]
    return {
        **entry.model_dump(exclude={"settings", "fast"}),
        "document": sources()[entry.source],
        "settings": entry.arguments(fast),
        "folder": entry.label(fast),
        "command": shlex.join(words),
    }


def kept(entry: Entry, folder: Path, fast: bool) -> dict[str, Any] | None:
    """The record of the same work done before by the same version, if it is there."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    same = record.get("digest") == entry.digest(fast) and record.get("version") == __version__
    return record if same else None


def _plain(value: Any) -> Any:
    """Plain JSON values: NumPy's scalars and arrays unpacked, what is not finite as None."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)
