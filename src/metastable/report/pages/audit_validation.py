"""The page of a validation: how often audits of models whose training is known err."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from metastable.audit.error_rates import TABLE, describe_rates
from metastable.report.figures.audit import plot_power
from metastable.report.page import Section, Table, page


def report_validation(folder: Path) -> Path:
    """Write the page and the figure of power beside a table of error rates."""
    file = folder / TABLE
    try:
        table = json.loads(file.read_text("utf-8"))
        summary = describe_rates(table)[0]
        figure = plot_power(table["power_by"])
        false, power = ([_rates(row) for row in table[name]] for name in ("false", "power"))
        covered = [
            [row["interval"], row["draws"], f"{row['covered']['rate']:.1%}"]
            for row in table["coverage"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError):
        message = f"{file} is damaged (numbers are missing): run `metastable audit validate` again."
        raise ValueError(message) from None
    columns = ["audits", "found", "at most (95 %)", "trained on", "reproduces", "cannot tell"]
    return page(
        folder / "report.html",
        "How often does the audit err?",
        sentence=f"Of {summary.split(';')[0]}, {sum(r['audits'] for r in table['false'])} audits "
        "had nothing to find.",
        figures={"power": figure},
        sections=[
            Section("False findings", [Table(["control", "level", *columns], false)]),
            Section("True findings", [Table(["times as often", "overlap", *columns], power)]),
            Section(
                "Intervals of 95 % that hold the truth",
                [Table(["interval", "draws", "hold it"], covered)],
            ),
        ],
        provenance={TABLE: file.read_text("utf-8")},
    )


def _rates(row: dict[str, Any]) -> list[Any]:
    head = [row[key] for key in ("case", "level", "repetitions", "overlap") if key in row]
    counts = [row[key] for key in ("trained_on", "reproduces", "cannot_tell")]
    limit = f"{row['found_rate']['limit_clustered']:.1%}"
    return [*head, row["audits"], row["found"], limit, *counts]
