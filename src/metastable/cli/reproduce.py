"""The published figures, tables and theorems, each with a verdict."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from metastable.cli.options import Debug, Json

__all__ = ["reproduce"]


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Entries, a document such as 004, or all."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Say which entries there are.")] = False,
    fast: Annotated[
        bool, typer.Option("--fast", help="Smaller sizes: minutes, not hours.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of the report; what it has is kept.")] = Path(
        "reproduced"
    ),
    workers: Annotated[int, typer.Option(help="Processes side by side. [one per core]")] = 0,
    again: Annotated[bool, typer.Option("--again", help="Do finished entries again.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Make figures, tables and theorems of the source documents again, each with a verdict.

    Stopped at any moment, the same command finishes what is missing. Exit code 1 when an entry
    fails, or comes out other than we know it does (some documents are known to be wrong).
    """
    if list_ or not names:
        return _list(as_json)
    from metastable.reproduce.run import reproduce as run

    say = lambda line: print(line, file=sys.stderr)
    found = run(names, out, fast=fast, workers=workers, again=again, say=say)
    if as_json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        _tell(found)
    if found["interrupted"]:
        raise typer.Exit(130)
    if found["surprises"]:
        raise typer.Exit(1)


def _list(as_json: bool) -> None:
    from metastable.spec.reproduction import DOCUMENTS, catalogue

    entries = catalogue()
    if as_json:
        listed = [
            {
                "name": name,
                **entry.model_dump(include={"seed", "places", "title", "claim", "known"}),
            }
            for name, entry in entries.items()
        ]
        print(json.dumps({"entries": listed, "documents": DOCUMENTS}, ensure_ascii=False))
        return
    for seed, title in DOCUMENTS.items():
        print(f"{seed}  {title}")
        for name, entry in entries.items():
            if entry.seed == seed:
                print(f"  {name:32} {entry.title} ({', '.join(entry.places)})")


def _tell(found: dict[str, Any]) -> None:
    counts = ("agree", "disagree", "not_applicable", "failed")
    told = ", ".join(f"{found[name]} {name.replace('_', ' ')}" for name in counts if found[name])
    print(f"{told} in {found['seconds']:.0f} s; {found['resumed']} were done before")
    for one in found["entries"]:
        if not one["as_known"]:
            print(f"  {one['name']}: {one['verdict']}, known to {one['known']}")
    if found["left"]:
        print(f"{found['left']} are left: run the same command again")
    if found["report"]:
        print(f"page {found['report']}")
