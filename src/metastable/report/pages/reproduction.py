"""The report of a reproduction: a table of verdicts, then record section per entry."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from metastable.core.figure import Film
from metastable.core.result import Result
from metastable.report.drawing import write_film
from metastable.report.page import (
    Block,
    Facts,
    Movie,
    Noted,
    Section,
    Stored,
    rows_table,
    verdict_table,
    write_page,
)
from metastable.report.svg import save_figure

CAPTIONS = "captions.json"  # in figures/: caption of each picture, in order

Record = Mapping[str, Any]


def write_reproduction(result: Result) -> Path:
    """Write `report.html` and `figures/` into the folder of an entry; return the page's path."""
    folder = result.folder
    assert folder is not None
    captions, entry = {}, result.facts["name"]
    for name, figure in result.figures.items():
        if isinstance(figure, Film):
            short = name.removesuffix("-film")
            write_film(figure, folder / "figures" / f"{entry}-{short}.gif")
            captions[f"{entry}-{short}.gif"] = short
        else:
            vector, _ = save_figure(figure, folder / "figures", f"{entry}-{name}")
            captions[vector.name] = figure.caption
    if captions:
        (folder / "figures" / CAPTIONS).write_text(json.dumps(captions), encoding="utf-8")
    rows = [dataclasses.asdict(row) for row in result.verdicts.rows]
    section = _section({**result.facts, "rows": rows}, folder)
    return write_page(folder / "report.html", section.title, section, lead=[result.sentence])


def report_reproductions(records: Sequence[Record], folder: Path) -> Path:
    """Bind finished entries, each in a folder of its own, into `folder/index.html`."""
    count = lambda verdict: sum(record["verdict"] == verdict for record in records)
    facts = {
        "entries": len(records),
        "agree": count("agree"),
        "disagree": count("disagree"),
        "not applicable": count("not applicable"),
        "failed": count("failed"),
        "minutes of work": round(sum(record["seconds"] for record in records) / 60, 1),
        "sizes": "reduced (--fast)" if any(record["fast"] for record in records) else "full",
    }
    if not facts["failed"]:
        del facts["failed"]
    rows: dict[str, list[dict[str, Any]]] = {}
    for number, record in enumerate(records, start=1):
        rows.setdefault(record["document"], []).append(_row(record, number))
    sentence = f"{facts['agree']} of {facts['entries']} entries agree with what was published."
    tables = [rows_table(each, document) for document, each in rows.items()]
    sections = [_section(record, folder / record["folder"]) for record in records]
    title = "What was published, made again"
    return write_page(
        folder / "index.html", title, *sections, lead=[sentence, Facts(facts), *tables]
    )


def _row(record: Record, number: int) -> dict[str, Any]:
    known = record["known"] == record["verdict"] == "disagree"
    return {
        "entry": Noted(record["title"], ", ".join(record["places"]), f"#section-{number}"),
        "verdict": record["verdict"],
        "expected": record["expected"],
        "observed": Noted(record["observed"], "known; the reason is below" if known else ""),
        "seconds": round(record["seconds"], 1),
    }


def _section(record: Record, folder: Path) -> Section:
    blocks: list[Block] = [f"Claimed ({', '.join(record['places'])}): {record['claim']}"]
    if record["correction"]:
        blocks.append(f"Corrected: {record['correction']}")
    blocks.append(f"Done: {record['method']}")
    if record["changes"]:
        blocks.append(
            "Settings changed: "
            + ", ".join(f"{k} = {v}" for k, v in record["changes"].items())
            + "."
        )
    if record["rows"]:
        blocks.append(verdict_table(record["rows"]))
    drawn = folder / "figures"
    captions = json.loads((drawn / CAPTIONS).read_text("utf-8")) if drawn.is_dir() else {}
    for name, caption in captions.items():
        film = (drawn / name).suffix == ".gif"
        blocks.append(Movie(drawn / name, caption) if film else Stored(drawn / name, caption))
    blocks += record["notes"]
    blocks.append(f"{record['command']}: {record['seconds']:.1f} s.")
    return Section(record["title"], blocks)
