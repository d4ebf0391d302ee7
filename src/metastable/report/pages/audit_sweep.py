"""The page of a sweep of audits: findings, limits of the overlap and errors, side by side."""

from __future__ import annotations

import csv
import json
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from metastable.audit.audit import ITEMS, read_facts
from metastable.audit.collect import read_rows
from metastable.audit.evidence import REPRODUCES, error_score, questions
from metastable.audit.verdict import NO_EVIDENCE
from metastable.core.figure import Figure
from metastable.core.folder import SPEC
from metastable.core.progress import Bar
from metastable.report.figures import audit as figures_of
from metastable.report.figures.audit import Rows
from metastable.report.page import Noted, Picture, Section, page, rows_table

FINDINGS = ("trained_on", "reproduces")


def report_many(folder: Path, paths: Sequence[Path]) -> Path:
    runs = []
    with Bar("reading") as bar:
        for number, path in enumerate(paths, 1):
            runs.append({"run": path.relative_to(folder).as_posix()} | _read_run(path))
            bar.update(number / len(paths))
    figures: dict[str, Figure] = {"overlap": figures_of.plot_overlaps(runs)}
    written = [run for run in runs if run["generator"]]
    if written:
        figures = {"panels": figures_of.plot_audit_panels(written), **figures}
    table = [_run_row(run) for run in runs]
    write_csv(folder / "runs.csv", table)
    (folder / "runs.json").write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
    facts: dict[str, Any] = {"audits": len(runs)}
    nothing = [run["summary"] for run in runs if run["overlap"] == 0]
    for name in FINDINGS:
        counts = Counter(run["summary"][name]["finding"] for run in runs)
        facts[name.replace("_", " ")] = ", ".join(f"{n} {word}" for word, n in counts.items())
        if nothing:
            silent = sum(each[name]["finding"] == NO_EVIDENCE for each in nothing)
            facts[f"{name.replace('_', ' ')}, overlap 0"] = f"none in {silent} of {len(nothing)}"
    covered = sum(run["estimate"]["low"] <= run["overlap"] for run in runs)
    facts["lower limit of the overlap holds"] = f"{covered} of {len(runs)}"
    shown = {"Model and overlap": "panels", "Lower limit of the overlap": "overlap"}
    shown = {title: figures[name] for title, name in shown.items() if name in figures}
    sections = [Section(title, [Picture(figure)]) for title, figure in shown.items()]
    sections.append(Section("Audits", [rows_table(map(_brief, table))]))
    names = {"trained_on": "trained on", "reproduces": "reproduces"}
    found = (sum(run["summary"][n]["finding"] == names[n] for run in runs) for n in FINDINGS)
    counted = ", ".join(f"{k} {name}" for k, name in zip(found, names.values(), strict=True))
    return page(
        folder / "report.html",
        "Audits compared",
        sentence=f"{len(runs)} audits: {counted}.",
        facts=facts,
        figures=figures,
        sections=sections,
    )


def _read_run(path: Path) -> dict[str, Any]:
    """One audit of a sweep: its place in the sweep, its facts and the rows of one generator."""
    config = tomllib.loads((path / SPEC).read_text("utf-8"))
    summary, rows = read_facts(path), read_rows(path / ITEMS)
    asked = next((question for question in questions(rows) if question.family == REPRODUCES), None)
    generator = asked and asked.generator
    return {
        "size": config.get("model", {}).get("size", "given"),
        "overlap": float(config.get("split", {}).get("overlap", 0.0)),
        "seed": config.get("seed", 0),
        "generator": generator,
        "score": error_score(rows),
        "rows": [row for row in rows if row["generator"] == generator],
        "estimate": summary["overlap"],
        "summary": summary,
    }


def _run_row(run: Mapping[str, Any]) -> dict[str, Any]:
    summary = run["summary"]
    row = {"run": run["run"], "model": run["size"], "overlap": run["overlap"], "seed": run["seed"]}
    for name in FINDINGS:
        told = summary[name]
        row |= {name: told["finding"], f"{name}_p": told["p_value"]}
        row |= {f"{name}_reason": told["reason"], f"{name}_by": told["decided_by"]}
    row |= {"overlap_low": run["estimate"]["low"], "blind_auc": summary["blind_auc"]}
    keys = {"error": "reconstruction_error", "exact": "exact_rate", "near": "near_rate"}
    for name, key in keys.items():
        row |= {f"{name}_{group}": mean for group, mean in summary[key].items()}
    return row


def _brief(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row that fits a page; the whole is in runs.csv."""
    short = lambda key: None if row[key] is None else float(f"{row[key]:.3g}")
    brief = {name: row[name] for name in ("overlap", "model", "seed")}
    for name in FINDINGS:
        p = short(f"{name}_p")
        brief[name.replace("_", " ")] = Noted(row[name], "" if p is None else f"p = {p:g}")
    brief["overlap at least"] = short("overlap_low")
    means = {"near-verbatim: members": "near_members", "protected": "near_protected"}
    return brief | {
        name: short(key) for name, key in (means | {"controls": "near_control"}).items()
    }


def write_csv(path: Path, rows: Rows) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
