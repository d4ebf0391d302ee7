"""The page of a sweep: its cells, a figure for each observable, failures and spec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metastable.report.figures.sweep import figures_of_sweep
from metastable.report.page import Facts, Listing, Picture, Section, Table, write_page
from metastable.report.svg import save_figure
from metastable.sweep.spec import Sweep
from metastable.sweep.status import open_sweep, status

__all__ = ["report_sweep"]


def report_sweep(folder: str | Path) -> Path:
    """Write `report.html` and `figures/` into a store; return the page's path.

    Cells that are not done yet are left blank, so a running sweep can be looked at.
    """
    folder = Path(folder)
    data, state = open_sweep(folder), status(folder)
    sweep = Sweep.model_validate(data.attrs["sweep"])
    facts: dict[str, Any] = {k: state[k] for k in ("cells", "done", "failed", "left")}
    facts |= {f"axis {axis}": span for axis, span in state["axes"].items()}
    facts |= {"samples in a cell": sweep.samples, "seed": sweep.seed}
    blocks: list[Any] = [Facts(facts)]
    for name, figure in figures_of_sweep(data, sweep).items():
        save_figure(figure, folder / "figures", name)
        blocks.append(Picture(figure))
    if state["failures"]:
        rows = [[cell, why["outcome"], why["message"]] for cell, why in state["failures"].items()]
        blocks.append(Table(["cell", "outcome", "why"], rows, "Failed cells"))
    blocks.append(Listing("Spec (TOML)", sweep.to_toml(), open=True))
    title = sweep.name or folder.resolve().name
    return write_page(folder / "report.html", title, Section(title, blocks))
