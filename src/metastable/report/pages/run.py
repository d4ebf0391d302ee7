"""Pages of flows: the verdicts, what was asked, what theory foretold, figures, provenance."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from metastable.comparison import predict
from metastable.comparison.citations import readable
from metastable.comparison.run import trajectory_of
from metastable.core.result import Result
from metastable.flows import Trajectory
from metastable.report.figures import figures_of
from metastable.report.page import (
    Block,
    Facts,
    Listing,
    Noted,
    Picture,
    Section,
    Table,
    rows_table,
    write_page,
)
from metastable.report.svg import save_figure

__all__ = ["write_run", "write_runs"]

LONGEST_LISTING = 50_000  # characters


def write_run(result: Result) -> Path:
    """Write `report.html` and `figures/` into the folder of a flow; return the page's path."""
    assert result.folder is not None
    return write_runs([result], result.folder / "report.html")


def write_runs(results: Sequence[Result], path: str | Path, title: str = "") -> Path:
    """Write one page about several flows, and the figures of each into its folder.

    All verdicts stand at the top, above the first run. The default title is the runs' names.
    """
    sections, lead = [], []
    for result in results:
        sections.append(_describe(result))
        rows = [
            dataclasses.asdict(row) | {"source": readable(row.source)}
            for row in result.verdicts.rows
        ]
        if rows:
            name = sections[-1].title if len(results) > 1 else ""
            lead.append(_verdicts(rows, name, result.verdicts.clock))
    title = title or ", ".join(section.title for section in sections)
    return write_page(path, title, *sections, lead=lead)


def _describe(result: Result) -> Section:
    """The section about one flow; its figures are written too."""
    run = trajectory_of(result)
    assert result.folder is not None
    blocks: list[Block] = [Facts(_facts(result.spec.model_dump(), result.manifest))]
    foretold = _predictions(run)
    if foretold:
        blocks.append(rows_table(foretold, f"What theory predicts, {_clocked(run.clock)}"))
    for name, figure in figures_of(run).items():
        save_figure(figure, result.folder / "figures", name)
        blocks.append(Picture(figure))
    history = json.dumps(result.manifest, indent=2, ensure_ascii=False)
    blocks.append(Listing("Spec (TOML)", _begin(result.spec.to_toml(), "spec.toml"), open=True))
    blocks.append(Listing("Manifest (JSON)", _begin(history, "manifest.json")))
    return Section(result.name, blocks)


def _predictions(run: Trajectory) -> list[dict[str, str]]:
    """Rows of what theory says of the start, where it says something."""
    start = run.frames[0]
    if run.field is None or not getattr(start, "on_sphere", False):
        return []
    foretold = predict(run.field, start.dim, getattr(start, "count", None)).to_table()
    return [{"quantity": k, "value": readable(v)} for k, v in foretold.items() if v != "–"]


def _clocked(clock: str) -> str:
    return f"times and rates in the {clock} clock"


def _verdicts(rows: Sequence[Mapping[str, Any]], run: str, clock: str) -> Table:
    """Verdicts first, reason and source as notes to the claim; the caption counts them."""
    table = []
    for row in rows:
        told = dict(row)
        notes = [told.pop("reason", None), told.pop("source", None)]
        claim = Noted(told.pop("claim", None), " · ".join(note for note in notes if note))
        table.append({"verdict": told.pop("verdict"), "claim": claim} | told)
    tally = Counter(str(row["verdict"]) for row in rows)
    counted = ", ".join(f"{count} {verdict}" for verdict, count in tally.items())
    return rows_table(table, f"Verdicts{f' on {run}' if run else ''}: {counted}; {_clocked(clock)}")


def _begin(text: str, file: str) -> str:
    """A spec can hold every token, and a manifest repeats it: a page shows the beginning."""
    rest = len(text) - LONGEST_LISTING
    return text if rest <= 0 else f"{text[:LONGEST_LISTING]}\n… {rest} characters more in {file}"


def _facts(spec: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    result = manifest["result"]
    fields = spec["field"] if isinstance(spec["field"], list | tuple) else [spec["field"]]
    clock = f"({result['clock']} clock)"
    ends = result["energy_first"], result["energy_last"]
    facts = {
        "start": spec["measure"]["kind"],
        "tokens": result["tokens"],
        "dimension": result["dim"],
        "field": " + ".join(field["kind"] for field in fields),
        "β": sorted(_betas(fields)) or None,
        "seed": result["seed"],
        "horizon": "the last cluster"
        if result["horizon"] == "end"
        else f"{result['horizon']:g} {clock}",
        "outcome": result["message"],
        "clusters at the end": result["clusters"][-1][1],
        "energy": None if None in ends else f"{ends[0]:.6g} → {ends[1]:.6g}",
        "energy monotone": result["energy_monotone"],
    }
    facts |= {name: result[name] for name in ("steps", "evaluations", "sum", "stepper")}
    for name, key in (
        ("largest norm drift", "max_norm_drift"),
        ("seconds of computing", "seconds"),
    ):
        facts[name] = None if result[key] is None else f"{result[key]:.3g}"
    started = datetime.fromisoformat(manifest["started"])
    facts["started"] = started.strftime("%Y-%m-%d %H:%M:%S %Z")
    facts["files"] = manifest.get("unchecked")
    return {name: value for name, value in facts.items() if value is not None}


def _betas(node: Any) -> set[float]:
    """Every inverse temperature in a spec, however deep."""
    if isinstance(node, Mapping):
        own = {node["beta"]} if "beta" in node else set()
        return own.union(*map(_betas, node.values()))
    if isinstance(node, list | tuple):
        return set().union(*map(_betas, node))
    return set()
