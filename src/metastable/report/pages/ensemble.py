"""The page of an ensemble: the answer, what the starts end in, claims, and how it was asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from metastable.core.result import Result
from metastable.report.figures.ensemble import figures_of_ensemble
from metastable.report.page import Section, page, rows_table


def write_ensemble(result: Result) -> Path:
    """Write `report.html` and `figures/` into the folder of an ensemble; return the page's path."""
    assert result.folder is not None
    figures = figures_of_ensemble(result)
    tables = {name: fact for name, fact in result.facts.items() if isinstance(fact, Mapping)}
    facts = {name: fact for name, fact in result.facts.items() if name not in tables}
    listed = [
        rows_table(
            [{"value": str(value), "how often": told} for value, told in table.items()], name
        )
        if "mean" not in table
        else rows_table([dict(table)], f"{name}: mean, and its 95 % interval")
        for name, table in tables.items()
    ]
    return page(
        result.folder / "report.html",
        result.name,
        sentence=result.sentence,
        opening=next(iter(figures), ""),
        verdicts=result.verdicts.rows,
        facts=facts | {"outcome": str(result.outcome)},
        figures=figures,
        sections=[Section("In numbers", listed)],
        provenance={
            "spec.toml": result.spec.to_toml(),
            "manifest.json": json.dumps(result.manifest, indent=2, ensure_ascii=False),
        },
    )
