"""The map of claims and the table of planted errors, as pages of the documentation.

`gallery.py` writes them: `python docs/gallery.py map DIR`, `python docs/gallery.py planted DIR`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from metastable.report.page import show
from metastable.reproduce.catalogue import files, sources
from metastable.reproduce.check import CHECKS
from metastable.reproduce.claims import contradictions, gather
from metastable.reproduce.entry import Subject

PAGES = Path(__file__).parent / "reproductions"
PLANTED = PAGES / "planted.md"


def write_map_page(folder: Path) -> None:
    """All claims by subject, what decides between those that contradict, and what is open."""
    claims = gather(folder)
    count = lambda some, verdict: sum(one["verdict"] == verdict for one in some)
    ran = sum(one["ran"] for one in claims)
    lines = [
        "# Map of the field",
        "",
        f"Of {len(claims)} claims from {len(sources())} sources {count(claims, 'agree')} "
        f"hold and {count(claims, 'disagree')} do not hold as stated; verdicts of runs: {ran}, the "
        'others as known. <a href="../_static/map.html">The same as one page to search</a>, which '
        "`metastable reproduce --map` writes from your own runs. `metastable reproduce ENTRY "
        "--fast` runs one. [How to read and extend it]"
        "(../atlas.md).",
    ]
    pairs = contradictions(claims)
    if pairs:
        lines += ["", "## Where claims contradict each other", ""]
        lines += ["| one claim | the other | the run that decides |", "|---|---|---|"]
        lines += [f"| {_told(one)} | {_told(other)} | `{run}` |" for one, other, run in pairs]
    opened = [one for one in claims if one["open"]]
    if opened:
        lines += ["", "## What is open", "", "| question | verdict | not tested |", "|---|---|---|"]
        lines += [
            f"| {_linked(one)} | {one['verdict']} | {cell(one['limits'])} |" for one in opened
        ]
    for subject in (*get_args(Subject), None):
        own = [one for one in claims if one["subject"] == subject]
        if own:
            title = (subject or "other").replace("_", " ")
            lines += ["", f"## {title[0].upper()}{title[1:]}", ""]
            lines += ["| claim | entry | source | verdict | rests on |", "|---|---|---|---|---|"]
            lines += [
                f"| {_linked(one)} | `{one['name']}` "
                f"| {cell(one['source'])}, {cell(', '.join(one['places']))} "
                f"| {one['verdict']} | {one['basis']} |"
                for one in own
            ]
    (PAGES / "map.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_planted(folder: Path) -> None:
    """Which error every entry notices, and by which row, from the records of `--check all`."""
    every = [json.loads(file.read_text("utf-8"))["record"] for file in _checks(folder)]
    noticed = sum(bool(one["flipped"]) for one in every)
    lines = [
        "# Planted errors",
        "",
        "A verdict that cannot fail says nothing. So every entry names an error, and "
        "`metastable reproduce --check all` plants each: an argument of what the entry calls, or "
        f"what comes back, is changed. {noticed} of {len(every)} entries notice it; the others "
        "need weights that are not installed, or are listed without a row. The last column counts "
        "seconds of one core, without the error.",
        "",
        "| entry | error | row that changes its verdict | seconds |",
        "|---|---|---|---|",
    ]
    for one in every:
        rows = "; ".join(one["flipped"][:1]) + (
            f" (and {len(one['flipped']) - 1} more)" if len(one["flipped"]) > 1 else ""
        )
        told = cell(rows) if rows else "none: " + cell("; ".join(one["warnings"]) or "not noticed")
        lines.append(
            f"| {cell(one['name'])} ({cell(one['source'])}) | `{one['planted'] or '–'}` "
            f"| {told} | {one['seconds']:.1f} |"
        )
    PLANTED.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _checks(folder: Path) -> list[Path]:
    """The records of entries that still exist, in the order of sources and names."""
    known = [f"{file.parent.name}-{name}.json" for name, file in files().items()]
    return [folder / CHECKS / name for name in known if (folder / CHECKS / name).is_file()]


def _linked(one: Mapping[str, Any]) -> str:
    return f"[{cell(one['title'])}]({one['source']}.md)"


def _told(one: Mapping[str, Any]) -> str:
    return f"{_linked(one)} ({cell(one['source'])}): {one['verdict']}"


def cell(value: object) -> str:
    """A value as the cell of a table."""
    return (
        show(value).replace("|", "\\|").replace("\n", " ").replace("*", "\\*").replace("_", "\\_")
    )
