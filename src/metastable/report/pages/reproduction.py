"""The report of a reproduction: a table of verdicts, then a section per entry."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from metastable.comparison.citing import claims_citing
from metastable.core.figure import Figure, Film
from metastable.core.result import Result
from metastable.report import page
from metastable.report.gif import write_film
from metastable.report.svg import save_figure

CAPTIONS = "captions.json"  # in figures/: caption of each picture, in order

Record = Mapping[str, Any]


def write_reproduction(result: Result) -> Path:
    """Write `report.html` and `figures/` into the folder of an entry; return the page's path."""
    folder = result.folder
    assert folder is not None
    captions, entry, drawn = {}, result.facts["name"], folder / "figures"
    figures: dict[str, Figure] = {}
    for name, figure in result.figures.items():
        if isinstance(figure, Film):
            short = name.removesuffix("-film")
            captions[write_film(figure, drawn / f"{entry}-{short}.gif").name] = short
        else:
            file = save_figure(figure, drawn, f"{entry}-{name}")[0].name
            captions[file], figures[file] = figure.caption, figure
    if captions:
        (drawn / CAPTIONS).write_text(json.dumps(captions), encoding="utf-8")
    rows = [dataclasses.asdict(row) for row in result.verdicts.rows]
    section = _section({**result.facts, "rows": rows}, folder)
    # The first picture and the verdicts stand with the answer, the rest in the section.
    first: list[Any] = [b for b in section.blocks if isinstance(b, page.Stored)][:1]
    judged = [block for block in section.blocks if isinstance(block, page.Table)]
    rest = [block for block in section.blocks if block not in (*first, *judged)]
    if first and (opens := figures.get(first[0].file.name)) is not None:
        first = [dataclasses.replace(first[0], figure=opens)]
    lead = [result.sentence, *first, *judged]
    place, title = folder / "report.html", section.title
    told = [page.Section("What was claimed and done", rest), *page.sources_of(rows)]
    told += _cited_by_claims(result.facts.get("key", ""))
    return page.write_page(place, title, *told, lead=lead)


def report_reproductions(records: Sequence[Record], folder: Path) -> Path:
    """Bind finished entries, each in a folder of its own, into `folder/index.html`."""
    verdicts = [record["verdict"] for record in records]
    facts: dict[str, Any] = {"entries": len(records)}
    facts |= {name: verdicts.count(name) for name in ("agree", "disagree", "not applicable")}
    facts |= {"failed": verdicts.count("failed")} if "failed" in verdicts else {}
    facts["minutes of work"] = round(sum(record["seconds"] for record in records) / 60, 1)
    facts["sizes"] = "reduced (--fast)" if any(record["fast"] for record in records) else "full"
    rows: dict[str, list[dict[str, Any]]] = {}
    for number, record in enumerate(records, start=1):
        rows.setdefault(record["document"], []).append(_row(record, number))
    known = sum(record["known"] == record["verdict"] == "disagree" for record in records)
    others = f", {known} disagree as is known" if known else ""
    sentence = f"{facts['agree']} of {facts['entries']} entries agree with what was published"
    sentence += f"{others}."
    tables = [page.rows_table(each, document) for document, each in rows.items()]
    sections = [_section(record, folder / record["folder"]) for record in records]
    sections += page.sources_of([row for record in records for row in record["rows"]])
    opened = [dataclasses.replace(table, open=True) for table in tables]
    told = page.Facts(facts, "Counts")
    lead, title = [sentence, *opened, told], "What was published, made again"
    return page.write_page(folder / "index.html", title, *sections, lead=lead)


def _cited_by_claims(key: str) -> list[page.Section]:
    """The claims that `compare` holds against runs and that cite the source of an entry."""
    claims = claims_citing(key) if key else []
    rows = page.rows_table([{"claim of compare": claim} for claim in claims])
    return [page.Section("Claims about runs with the same source", [rows])] if claims else []


def _row(record: Record, number: int) -> dict[str, Any]:
    known = record["known"] == record["verdict"] == "disagree"
    return {
        "entry": page.Noted(record["title"], ", ".join(record["places"]), f"#section-{number}"),
        "verdict": record["verdict"],
        "expected": record["expected"],
        "observed": page.Noted(record["observed"], "known; the reason is below" if known else ""),
        "seconds": round(record["seconds"], 1),
    }


def _section(record: Record, folder: Path) -> page.Section:
    blocks: list[page.Block] = [f"Claimed ({', '.join(record['places'])}): {record['claim']}"]
    if record["correction"]:
        blocks.append(f"Corrected: {record['correction']}")
    blocks.append(f"Done: {record['method']}")
    if record["changes"]:
        changes = ", ".join(f"{name} = {value}" for name, value in record["changes"].items())
        blocks.append(f"Settings changed: {changes}.")
    if record["rows"]:
        blocks.append(page.verdict_table(record["rows"]))
    drawn = folder / "figures"
    captions = json.loads((drawn / CAPTIONS).read_text("utf-8")) if drawn.is_dir() else {}
    blocks += [page.Stored(drawn / name, caption) for name, caption in captions.items()]
    blocks += [*record["notes"], f"{record['command']}: {record['seconds']:.1f} s."]
    return page.Section(record["title"], blocks)
