"""The published figures, tables and theorems, each with a verdict."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from metastable.cli.options import Debug, Json, leave, read_setting


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Entries, a source such as ponti2025, or all."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Say which entries there are.")] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Check entries, or files of entries: NAME may be FILE.py."),
    ] = False,
    map_: Annotated[bool, typer.Option("--map", help="Write map.html: all claims, searchable.")] = (
        False
    ),
    fast: Annotated[
        bool, typer.Option("--fast", help="Smaller sizes: minutes, not hours.")
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Another setting of one entry: draws=99."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the report; what it has is kept.")] = Path(
        "reproduced"
    ),
    workers: Annotated[int, typer.Option(help="Processes side by side. [one per core]")] = 0,
    again: Annotated[bool, typer.Option("--again", help="Do finished entries again.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Make published figures, tables and theorems again, each with a verdict.

    Stopped at any moment, the same command finishes what is missing. Exit code 1 when an entry
    fails, or comes out other than we know it does (some sources are known to be wrong). An entry
    changed by --set is kept in a folder of its own.

    With --check an entry is run at its smaller sizes, then with the error it names planted, which
    must change its verdict; exit code 1 when it does not, or when the entry is incomplete. Where no
    error is named, one that changes the verdict is looked for.
    """
    if check:
        return _check(names or [], out, as_json)
    if map_:
        return _map(out, as_json)
    if list_ or not names:
        return _list(as_json)
    from metastable.reproduce.run import reproduce as run

    say = lambda line: print(line, file=sys.stderr)
    changes = dict(read_setting(text) for text in set_ or [])
    summary = run(names, out, changes=changes, fast=fast, workers=workers, again=again, say=say)
    if as_json:
        print(json.dumps(summary, ensure_ascii=False))
    else:
        _print_summary(summary)
    leave(interrupted=summary["interrupted"], failed=summary["surprises"])


def _check(names: list[str], out: Path, as_json: bool) -> None:
    from metastable.reproduce.check import check

    say = lambda line: print(line, file=sys.stderr if as_json else sys.stdout, flush=True)
    summary = check(names, out, say)
    if as_json:
        print(json.dumps(summary, ensure_ascii=False))
    elif summary["left"]:
        print(f"{summary['left']} are left: run the same command again")
    leave(interrupted=summary["interrupted"], failed=bool(summary["failed"]))


def _map(out: Path, as_json: bool) -> None:
    from metastable.reproduce.atlas import write_map

    place, facts = write_map(out)
    if as_json:
        print(json.dumps({"page": str(place), **facts}, ensure_ascii=False))
    else:
        print(f"{facts['claims']} claims of {facts['sources']} sources; page {place}")


def _list(as_json: bool) -> None:
    from metastable.reproduce.catalogue import catalogue, sources

    entries, titles = catalogue(), sources()
    if as_json:
        keys = {"name", "source", "places", "title", "claim", "known", "settings"}
        listed = [entry.model_dump(include=keys) for entry in entries.values()]
        print(json.dumps({"entries": listed, "sources": titles}, ensure_ascii=False))
        return
    for source, title in titles.items():
        print(f"{source}  {title}")
        for name, entry in entries.items():
            if entry.source == source:
                print(f"  {name:32} {entry.title} ({', '.join(entry.places)})")


def _print_summary(summary: dict[str, Any]) -> None:
    entries = summary["entries"]
    known = sum(e["as_known"] and e["verdict"] == "disagree" for e in entries)
    others = [f"{known} disagree as is known"] if known else []
    others += [f"{summary['failed']} failed"] if summary["failed"] else []
    said = [f"{summary['agree']} of {len(entries)} entries agree with what was published", *others]
    print(f"{', '.join(said)}.")
    print(f"{summary['seconds']:.0f} s; {summary['resumed']} were done before")
    for entry in summary["entries"]:
        if not entry["as_known"]:
            print(f"  {entry['name']}: {entry['verdict']}, known to {entry['known']}")
    if summary["left"]:
        print(f"{summary['left']} are left: run the same command again")
    if summary["report"]:
        print(f"page {summary['report']}")
