"""Pages of finished runs, with what theory predicts and the verdicts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from metastable.comparison import compare, predict
from metastable.comparison.citations import readable
from metastable.report.figures import figures_of
from metastable.report.page import (
    Block,
    Facts,
    Section,
    count_verdicts,
    listing,
    rows_table,
    save_figures,
    verdict_table,
    write_page,
)
from metastable.results import load_run

__all__ = ["report_folders", "report_run", "report_runs"]

Rows = Sequence[Any]


def report_folders(folders: Sequence[Path], path: Path, title: str | None = None) -> Path:
    """Compare the runs kept in these folders with theory and write one page about them."""
    verdicts, predictions = {}, {}
    for folder in folders:
        _, run, _ = load_run(folder)
        assert run.field is not None
        verdicts[folder] = compare(run).rows
        if getattr(run.frames[0], "on_sphere", False):
            start = run.frames[0]
            expected = predict(run.field, start.dim, getattr(start, "count", None)).to_table()
            predictions[folder] = {k: readable(v) for k, v in expected.items() if v != "–"}
    return report_runs(list(folders), path, title, verdicts, predictions)


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
    rows = {Path(folder): list(each) for folder, each in (verdicts or {}).items()}
    expected = {Path(folder): values for folder, values in (predictions or {}).items()}
    sections, lead = [], []
    for folder in map(Path, folders):
        section, clock = _describe(folder, expected.get(folder, {}))
        sections.append(section)
        if rows.get(folder):
            name = section.title if len(folders) > 1 else ""
            lead.append(verdict_table(rows[folder], name, clock))
    title = title or ", ".join(section.title for section in sections)
    every = [row for each in rows.values() for row in each]
    if every:
        lead.insert(0, f"Theory and what was observed: {count_verdicts(every)}.")
    return write_page(path, title, *sections, lead=lead)


def _describe(folder: Path, predictions: Mapping[str, Any]) -> tuple[Section, str]:
    """The section about a run, and whose clock its times are in."""
    experiment, run, manifest = load_run(folder)
    blocks: list[Block] = [Facts(_facts(experiment.model_dump(), manifest))]
    rows = [{"quantity": k, "value": v} for k, v in predictions.items() if v is not None]
    if rows:
        caption = f"What theory predicts, times and rates in the {run.clock} clock"
        blocks.append(rows_table(rows, caption))
    blocks += save_figures(figures_of(run), folder / "figures").values()
    blocks.append(listing("spec.toml", experiment.to_toml()))
    blocks.append(listing("manifest.json", json.dumps(manifest, indent=2, ensure_ascii=False)))
    return Section(experiment.name or folder.resolve().name, blocks), run.clock


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
