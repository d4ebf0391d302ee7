"""The page of a sweep: its cells, a figure for each observable, failures and spec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metastable.core.result import Result
from metastable.report.figures.sweep import figures_of_sweep
from metastable.report.page import Section, Table, page
from metastable.sweep.spec import Sweep
from metastable.sweep.status import open_sweep, status


def write_sweep(result: Result) -> Path:
    """Write the page and the figures of a kept sweep; return the page's path."""
    assert result.folder is not None
    return report_sweep(result.folder)


def report_sweep(folder: str | Path) -> Path:
    """Write `report.html` and `figures/` into a store; cells that are not done stay blank."""
    folder = Path(folder)
    data, state = open_sweep(folder), status(folder)
    sweep = Sweep.model_validate(data.attrs["sweep"])
    facts: dict[str, Any] = {k: state[k] for k in ("cells", "done", "failed", "left")}
    facts |= {f"axis {axis}": span for axis, span in state["axes"].items()}
    facts |= {"samples in a cell": sweep.samples, "seed": sweep.seed}
    rows = [[cell, why["outcome"], why["message"]] for cell, why in state["failures"].items()]
    failed = [Table(["cell", "outcome", "why"], rows)] if rows else []
    return page(
        folder / "report.html",
        sweep.name or folder.resolve().name,
        sentence=f"{state['done']} of {state['cells']} cells are done, {state['failed']} failed.",
        facts=facts,
        figures=figures_of_sweep(data, sweep),
        sections=[Section("Failed cells", failed)],
        provenance={"sweep.toml": sweep.to_toml()},
    )
