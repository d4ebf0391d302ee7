"""Pages of flows: a picture, verdicts, what was asked and predicted, figures, provenance."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from metastable.comparison import predict
from metastable.comparison.citations import readable
from metastable.comparison.run import trajectory_of
from metastable.core.result import Result
from metastable.report import page
from metastable.report.figures import figures_of
from metastable.sweep.observables import read_own


def write_run(result: Result) -> Path:
    """Write `report.html` and `figures/` into the folder of a flow; return the page's path."""
    assert result.folder is not None
    return write_runs([result], result.folder / "report.html")


def write_runs(results: Sequence[Result], path: str | Path, title: str = "") -> Path:
    """Write one page about several flows (title: their names), and the figures of each."""
    sections, first = zip(*map(_describe, results), strict=True)
    many = len(results) > 1
    if not many:
        sections = [page.Section("More of this run", sections[0].blocks)]
    lead: list[page.Block] = [f"{r.name}: {r.sentence}" if many else r.sentence for r in results]
    lead += [picture for picture in first if picture is not None]
    for result in results:
        if result.verdicts.rows:
            name = result.name if many else ""
            lead.append(page.verdict_table(result.verdicts.rows, name, result.verdicts.clock))
    title = title or ", ".join(result.name for result in results)
    cited = page.sources_of([row for result in results for row in result.verdicts.rows])
    return page.write_page(path, title, *sections, *cited, lead=lead)


def _describe(result: Result) -> tuple[page.Section, page.Stored | None]:
    """The section about one flow, and the picture to open with; all figures are written too."""
    run = trajectory_of(result)
    assert result.folder is not None
    own = {
        about: value if isinstance(value, str) else f"{float(value):.6g}"
        for about, value in read_own(run).values()
        if isinstance(value, str) or not value.ndim
    }
    known = _facts(result.spec.model_dump(), result.manifest)
    facts = page.Facts(known | own, "Settings and facts")
    blocks: list[page.Block] = []
    figures = [*page.save_figures(figures_of(run), result.folder / "figures").values()]
    blocks += [*figures[1:], facts]
    start = run.frames[0]
    if run.field is not None and getattr(start, "on_sphere", False):
        expected = predict(run.field, start.dim, getattr(start, "count", None)).to_table()
        rows = [{"quantity": k, "value": readable(v)} for k, v in expected.items() if v != "–"]
        caption = f"What theory predicts, times and rates in the {run.clock} clock"
        blocks += [page.rows_table(rows, caption)] if rows else []
    history = json.dumps(result.manifest, indent=2, ensure_ascii=False)
    texts = {"spec.toml": result.spec.to_toml(), "manifest.json": history}
    blocks += [page.listing(name, text) for name, text in texts.items()]
    return page.Section(result.name, blocks), figures[0] if figures else None


def _facts(spec: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    result = manifest["result"]
    fields = spec["field"] if isinstance(spec["field"], list | tuple) else [spec["field"]]
    horizon = "the last cluster"
    if result["horizon"] != "end":
        horizon = f"{result['horizon']:g} ({result['clock']} clock)"
    ends = result["energy_first"], result["energy_last"]
    facts = {
        "start": spec["measure"]["kind"],
        "tokens": result["tokens"],
        "dimension": result["dim"],
        "field": " + ".join(field["kind"] for field in fields),
        "β": sorted(_betas(fields)) or None,
        "seed": result["seed"],
        "horizon": horizon,
        "outcome": result["message"],
        "clusters at the end": result["clusters"][-1][1],
        "energy": None if None in ends else f"{ends[0]:.6g} → {ends[1]:.6g}",
        "energy monotone": result["energy_monotone"],
    }
    facts |= {name: result[name] for name in ("steps", "evaluations", "sum", "stepper")}
    named = {"largest norm drift": "max_norm_drift", "seconds of computing": "seconds"}
    for name, key in named.items():
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
