"""The page of a sweep: its cells, a figure for each observable, failures and spec."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from metastable.core.result import VERDICTS, Result
from metastable.core.verdict import AGREE, DISAGREE
from metastable.report.figures.sweep import figures_of_sweep
from metastable.report.page import Section, Table, page
from metastable.sweep.observables import ERROR
from metastable.sweep.spec import Sweep
from metastable.sweep.status import means, open_sweep, status


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
    kept = folder / VERDICTS
    verdicts = json.loads(kept.read_text("utf-8"))["rows"] if kept.is_file() else []
    said = [row["verdict"] for row in verdicts]
    told = f"; theory: {said.count(AGREE)} agree, {said.count(DISAGREE)} disagree" if said else ""
    failed = [Table(["cell", "outcome", "why"], rows)] if rows else []
    return page(
        folder / "report.html",
        sweep.name or folder.resolve().name,
        verdicts=verdicts,
        sentence=f"{state['done']} of {state['cells']} cells are done, {state['failed']} failed"
        f"{told}.",
        facts=facts,
        figures=figures_of_sweep(data, sweep),
        sections=[Section("Observables", [_extremes(data)]), Section("Failed cells", failed)],
        provenance={"sweep.toml": sweep.to_toml()},
    )


def _extremes(data: xarray.Dataset) -> Table:
    """Each observable at its lowest and highest mean, with standard errors."""
    mean, rows = means(data), []
    for name in data.attrs["sweep"]["observables"]:
        values, errors = mean[name].values.ravel(), mean[name + ERROR].values.ravel()
        order = np.argsort(values)[: np.isfinite(values).sum()]  # NaN come last
        if not order.size:
            continue
        ends = [f"{values[k]:.4g} ± {errors[k]:.2g}".removesuffix(" ± nan") for k in order[[0, -1]]]
        largest = None if np.isnan(errors).all() else float(np.nanmax(errors))
        rows.append([name, data[name].attrs["long_name"], *ends, largest])
    about = "observable what lowest highest".split()
    return Table([*about, "largest standard error"], rows, "Means over samples and repetitions")
