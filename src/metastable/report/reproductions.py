"""The report of a reproduction: a table of verdicts, then one section per entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from metastable.comparison.citations import readable
from metastable.report.page import (
    Block,
    Facts,
    Movie,
    Noted,
    Section,
    Stored,
    Table,
    rows_table,
    write_page,
)

__all__ = ["report_reproductions"]

Record = Mapping[str, Any]


def report_reproductions(records: Sequence[Record], folder: Path) -> Path:
    """Bind finished entries, each in a folder of its own, into `folder/index.html`."""
    count = lambda verdict: sum(one["verdict"] == verdict for one in records)
    facts = {
        "entries": len(records),
        "agree": count("agree"),
        "disagree": count("disagree"),
        "not applicable": count("not applicable"),
        "failed": count("failed"),
        "minutes of work": round(sum(one["seconds"] for one in records) / 60, 1),
        "sizes": "reduced (--fast)" if any(one["fast"] for one in records) else "full",
    }
    if not facts["failed"]:
        del facts["failed"]
    lead: list[Block] = [Facts(facts)]
    for document in dict.fromkeys(one["document"] for one in records):
        rows = [
            _row(one, number)
            for number, one in enumerate(records, start=1)
            if one["document"] == document
        ]
        lead.append(rows_table(rows, document))
    sections = [_section(one, folder / one["folder"]) for one in records]
    return write_page(folder / "index.html", "What was published, made again", *sections, lead=lead)


def _row(one: Record, number: int) -> dict[str, Any]:
    known = one["known"] == one["verdict"] == "disagree"
    return {
        "entry": Noted(one["title"], ", ".join(one["places"]), f"#section-{number}"),
        "verdict": one["verdict"],
        "expected": one["expected"],
        "observed": Noted(one["observed"], "known; the reason is below" if known else ""),
        "seconds": round(one["seconds"], 1),
    }


def _section(one: Record, folder: Path) -> Section:
    blocks: list[Block] = [f"Claimed ({', '.join(one['places'])}): {one['claim']}"]
    if one["correction"]:
        blocks.append(f"Corrected: {one['correction']}")
    blocks.append(f"Done: {one['method']}")
    if one["changes"]:
        blocks.append(
            "Settings changed: " + ", ".join(f"{k} = {v}" for k, v in one["changes"].items()) + "."
        )
    if one["rows"]:
        blocks.append(_verdicts(one["rows"]))
    blocks += [
        Stored((folder / each["file"]).with_suffix(".svg"), each["caption"])
        for each in one["figures"]
    ]
    blocks += [Movie(folder / each["file"], each["caption"]) for each in one["movies"]]
    blocks += one["notes"]
    blocks.append(f"{one['command']}: {one['seconds']:.1f} s.")
    return Section(one["title"], blocks)


def _verdicts(rows: Sequence[Record]) -> Table:
    return rows_table(
        {
            "claim": Noted(row["claim"], readable(row["source"])),
            "expected": row["expected"],
            "observed": row["observed"],
            "tolerance": row["tolerance"] or None,
            "verdict": row["verdict"],
            "reason": row["reason"] or None,
        }
        for row in rows
    )
