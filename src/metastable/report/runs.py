"""Pages of finished runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

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
from metastable.results import load_run

__all__ = ["report_run", "report_runs"]

LONGEST_LISTING = 50_000  # characters
Rows = Iterable[Mapping[str, Any]]


def report_run(
    folder: str | Path, verdicts: Rows = (), predictions: Mapping[str, Any] | None = None
) -> Path:
    """Write `report.html` and `figures/` into the folder of a run; return the page's path.

    `verdicts` are rows such as {"claim": …, "expected": …, "observed": …, "verdict": "agree"},
    `predictions` are values by name; tables of nothing are left out. Written anew each time.
    """
    folder = Path(folder)
    path = folder / "report.html"
    return report_runs([folder], path, None, {folder: verdicts}, {folder: predictions or {}})


def report_runs(
    folders: Sequence[str | Path],
    path: str | Path,
    title: str | None = None,
    verdicts: Mapping[Any, Rows] | None = None,
    predictions: Mapping[Any, Mapping[str, Any]] | None = None,
) -> Path:
    """Write one page about several runs, and the figures of each into its folder.

    `verdicts` and `predictions` give those of each folder. All verdicts stand at the top, above
    the first run. The default title is the runs' names.
    """
    judged = {Path(folder): list(rows) for folder, rows in (verdicts or {}).items()}
    foretold = {Path(folder): values for folder, values in (predictions or {}).items()}
    sections, lead = [], []
    for folder in map(Path, folders):
        section, clock = _describe(folder, foretold.get(folder, {}))
        sections.append(section)
        if judged.get(folder):
            name = section.title if len(folders) > 1 else ""
            lead.append(_judge(judged[folder], name, clock))
    title = title or ", ".join(section.title for section in sections)
    return write_page(path, title, *sections, lead=lead)


def _describe(folder: Path, predictions: Mapping[str, Any]) -> tuple[Section, str]:
    """The section about a run, and whose clock its times are in."""
    experiment, run, manifest = load_run(folder)
    blocks: list[Block] = [Facts(_facts(experiment.model_dump(), manifest))]
    foretold = [{"quantity": k, "value": v} for k, v in predictions.items() if v is not None]
    if foretold:
        blocks.append(rows_table(foretold, f"What theory predicts, {_clocked(run.clock)}"))
    for name, figure in figures_of(run).items():
        save_figure(figure, folder / "figures", name)
        blocks.append(Picture(figure))
    spec, history = experiment.to_toml(), json.dumps(manifest, indent=2, ensure_ascii=False)
    blocks.append(Listing("Spec (TOML)", _begin(spec, "spec.toml"), open=True))
    blocks.append(Listing("Manifest (JSON)", _begin(history, "manifest.json")))
    return Section(experiment.name or folder.resolve().name, blocks), run.clock


def _clocked(clock: str) -> str:
    return f"times and rates in the {clock} clock"


def _judge(rows: list[Mapping[str, Any]], run: str, clock: str) -> Table:
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
