"""The page of an experiment in learning or of a Gaussian study."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from metastable.core.figure import Film
from metastable.core.result import Result
from metastable.report.gif import write_film
from metastable.report.page import Section, page, rows_table


def write_study(result: Result) -> Path:
    """Write `report.html` and `figures/` into the folder of a study; return the page's path."""
    assert result.folder is not None
    films = {name: f for name, f in result.figures.items() if isinstance(f, Film)}
    for name, film in films.items():
        write_film(film, result.folder / "figures" / f"{name.removesuffix('-film')}.gif")
    tables = {name: value for name, value in result.facts.items() if _is_table(value)}
    facts = {name: _shown(v) for name, v in result.facts.items() if name not in tables}
    figures = {name: f for name, f in result.figures.items() if name not in films}
    return page(
        result.folder / "report.html",
        result.name,
        sentence=result.sentence,
        opening=next(iter(figures), ""),
        verdicts=result.verdicts.rows,
        facts=facts | {"outcome": str(result.outcome)},
        figures=figures,
        sections=[
            Section(name, [rows_table(rows, f"{name} ({len(rows)} rows)")])
            for name, rows in tables.items()
        ],
        provenance={
            "spec.toml": result.spec.to_toml(),
            "manifest.json": json.dumps(result.manifest, indent=2, ensure_ascii=False),
        },
    )


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return {name: _shown(item) for name, item in value.items()}
    return value
