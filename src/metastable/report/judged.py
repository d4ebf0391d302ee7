"""Pages of finished runs, with what theory foretold and the verdicts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from metastable.comparison import compare, predict
from metastable.comparison.citations import readable
from metastable.report.runs import report_runs
from metastable.results import load_run

__all__ = ["report_folders"]


def report_folders(folders: Sequence[Path], path: Path, title: str | None = None) -> Path:
    """Judge the runs kept in these folders and write one page about them."""
    verdicts, predictions = {}, {}
    for folder in folders:
        _, run, _ = load_run(folder)
        assert run.field is not None
        verdicts[folder] = [
            dataclasses.asdict(row) | {"source": readable(row.source)} for row in compare(run).rows
        ]
        if getattr(run.frames[0], "on_sphere", False):
            start = run.frames[0]
            foretold = predict(run.field, start.dim, getattr(start, "count", None)).to_table()
            predictions[folder] = {k: readable(v) for k, v in foretold.items() if v != "–"}
    return report_runs(list(folders), path, title, verdicts, predictions)
