"""All claims of the atlas as data: the verdict of each, and what it has to do with the others."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from metastable import fields
from metastable.reproduce.catalogue import catalogue, files
from metastable.reproduce.entry import Entry
from metastable.reproduce.perform import kept

__all__ = ["Claim", "contradictions", "field_kinds", "gather"]

Claim = Mapping[str, Any]
OPEN = "open_questions"  # the source whose entries nobody has settled


def gather(out: Path) -> list[Claim]:
    """Every entry with its verdict: that of its work in `out` if it is there, else the known one.

    `followed` and `refuted` name the entries that imply or contradict this one; `page` is its page
    below `out`, if it was run there; `ran` says whether it was.
    """
    entries, places = catalogue(), files()
    followed, refuted = (_reversed(entries, name) for name in ("implies", "contradicts"))
    return [
        {
            **entry.model_dump(exclude={"settings", "fast", "changes"}),
            **_found(entry, out),
            "followed": followed.get(name, []),
            "refuted": refuted.get(name, []),
            "kinds": field_kinds(places[name]),
            "command": f"metastable reproduce {name} --fast",
            "open": entry.source == OPEN,
        }
        for name, entry in entries.items()
    ]


def contradictions(claims: Sequence[Claim]) -> list[tuple[Claim, Claim, str]]:
    """Pairs that cannot both be true, and the command whose verdicts decide between them."""
    named = {claim["name"]: claim for claim in claims}
    pairs: dict[frozenset[str], tuple[Claim, Claim, str]] = {}
    for claim in claims:
        for other in claim["contradicts"]:
            if other in named:
                command = f"metastable reproduce {claim['name']} {other} --fast"
                pairs.setdefault(frozenset((claim["name"], other)), (claim, named[other], command))
    return list(pairs.values())


def field_kinds(file: Path) -> list[str]:
    """The kinds of fields an entry uses, by the names its code takes from the library.

    >>> field_kinds(files()["noise_threshold"])
    ['Noise', 'SelfAttention']
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and f"{node.module}".startswith("metastable.fields"):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute) and re.search(
            r"\b(ms|fields)$", ast.unparse(node.value)
        ):
            names.add(node.attr)
    return sorted(names & set(dir(fields)))


def _found(entry: Entry, out: Path) -> dict[str, Any]:
    for fast in (False, True):
        record = kept(entry, out / entry.label(fast), fast)
        if record is not None:
            page = f"{entry.label(fast)}/report.html"
            return {"verdict": record["verdict"], "ran": True, "page": page}
    return {"verdict": entry.known, "ran": False, "page": ""}


def _reversed(entries: Mapping[str, Entry], field: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, entry in entries.items():
        for other in getattr(entry, field):
            found.setdefault(other, []).append(name)
    return found
