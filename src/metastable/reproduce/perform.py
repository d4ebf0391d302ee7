"""One entry from its spec to its folder: rows, figures, moving pictures, time taken."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from metastable import __version__
from metastable.reproduce.finding import Finding
from metastable.spec.reproduction import DOCUMENTS, Reproduction

__all__ = ["describe", "function_of", "kept", "perform"]

RECORD = "entry.json"
FRAMES = {True: 24, False: 80}  # of a moving picture, fast or not


def function_of(name: str, entry: Reproduction) -> Callable[..., Finding]:
    """The function that does the work; its arguments are the entry's settings."""
    module = import_module(f"metastable.reproduce.{entry.made_by}")
    function = getattr(module, name, None)
    if function is None:
        raise ValueError(
            f"{name}.toml: made_by must name a module with {name}(); {entry.made_by} has none."
        )
    try:
        inspect.signature(function).bind(**entry.arguments(fast=False))
    except TypeError as error:
        raise ValueError(
            f"{name}.toml: [settings] must be the arguments of {name}(): {error}."
        ) from None
    return function


def perform(name: str, entry: Reproduction, folder: Path, fast: bool = False) -> dict[str, Any]:
    """Do the work of one entry and keep it in `folder`; the record is written last."""
    from metastable.report.svg import save_figure

    started = time.perf_counter()
    found = function_of(name, entry)(**entry.arguments(fast))
    files = []
    for short, figure in found.figures.items():
        _, raster = save_figure(figure, folder, f"{name}-{short}")
        files.append({"file": raster.name, "caption": figure.get_label()})
    movies = []
    for short, write in found.movies.items():
        write(folder / f"{name}-{short}.gif", FRAMES[fast])
        movies.append({"file": f"{name}-{short}.gif", "caption": short})
    first = found.rows[0]
    record = {
        **describe(name, entry),
        "expected": first.expected,
        "observed": first.observed,
        "verdict": found.verdict,
        "as_known": found.as_known(entry.known),
        "seconds": round(time.perf_counter() - started, 2),
        "figure": files[0]["file"] if files else None,
        "rows": [dataclasses.asdict(row) for row in found.rows],
        "figures": files,
        "movies": movies,
        "notes": list(found.notes),
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


def describe(name: str, entry: Reproduction) -> dict[str, Any]:
    """What is known of an entry before it is done."""
    told = entry.model_dump(include={"title", "seed", "places", "claim", "method", "known"})
    document = DOCUMENTS[entry.seed]
    return {"name": name, **told, "document": document, "correction": entry.correction}


def kept(entry: Reproduction, folder: Path, fast: bool) -> dict[str, Any] | None:
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
