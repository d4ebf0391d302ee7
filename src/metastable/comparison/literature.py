"""The entries of `reproductions/` that test a paper, read without importing or running them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from metastable.comparison.citations import bibliography
from metastable.core.reproductions import PACKAGE, home

__all__ = ["Backing", "Paper", "cited_keys", "papers"]

_ENTRY = re.compile(r"^ENTRY = (Entry\(\n.*?^\))", re.M | re.S)


class Backing(NamedTuple):
    """An entry that tests what a paper says."""

    name: str
    title: str
    claim: str
    limits: str
    known: str
    file: str
    command: str


class Paper(NamedTuple):
    """A cited paper: its title, its address (empty without an arXiv number), what tests it."""

    key: str
    title: str
    address: str
    entries: tuple[Backing, ...]


def cited_keys(sources: Iterable[str]) -> list[str]:
    """Keys of the bibliography that texts such as the sources of verdicts begin with or contain.

    >>> cited_keys(["geshkovski2024dynamic, Theorem 1; derived", "derived"])
    ['geshkovski2024dynamic']
    """
    texts = " ".join(sources)
    return sorted((key for key in bibliography() if key in texts), key=texts.index)


def papers(sources: Iterable[str]) -> list[Paper]:
    """The papers that texts cite, in the order of their first mention.

    An entry tests a paper when its source is that paper or when its file names the paper's key.
    """
    found = []
    for key in cited_keys(sources):
        given = dict(re.findall(r"(\w+)\s*=\s*\{(.*)\}", bibliography()[key]))
        address = f"https://arxiv.org/abs/{given['eprint']}" if "eprint" in given else ""
        title = re.sub(r"[{}\\]", "", given["title"])
        found.append(Paper(key, title, address, _backing(key)))
    return found


@cache
def _texts() -> Mapping[Path, tuple[str, str]]:
    """The text of every entry's file, and the key of its source."""
    texts = {}
    for folder in sorted(path.parent for path in home().glob("*/__init__.py")):
        about = (folder / "__init__.py").read_text(encoding="utf-8")
        key = re.search(r'^KEY = "(\w+)"', about, re.M)
        for file in sorted(folder.glob("[!_]*.py")):
            texts[file] = (file.read_text(encoding="utf-8"), key[1] if key else "")
    return texts


@cache
def _backing(key: str) -> tuple[Backing, ...]:
    own = [file for file, (_, source) in _texts().items() if source == key]
    naming = [f for f, (text, source) in _texts().items() if key in text and source != key]
    given = [(file, _literal(_texts()[file][0])) for file in (*own, *naming)]
    return tuple(_described(file, entry) for file, entry in given if entry)


def _literal(text: str) -> dict[str, Any]:
    """The keyword arguments of `ENTRY`; nothing where it cannot be read."""
    found = _ENTRY.search(text)
    try:
        call: Any = ast.parse(found[1], mode="eval").body if found else None
        return {each.arg: ast.literal_eval(each.value) for each in call.keywords} if call else {}
    except (SyntaxError, ValueError):
        return {}


def _described(file: Path, entry: Mapping[str, Any]) -> Backing:
    text = lambda name: str(entry.get(name, ""))
    return Backing(
        name=file.stem,
        title=text("title"),
        claim=text("claim"),
        limits=text("limits"),
        known=text("known") or "agree",
        file=f"{PACKAGE}/{file.parent.name}/{file.name}",
        command=f"metastable reproduce {file.stem} --fast",
    )
