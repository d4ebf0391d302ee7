"""The page of a sweep: its answer, a figure for each observable, its cells, failures and spec."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from metastable.core.figure import Figure, Lines
from metastable.core.result import VERDICTS, Result
from metastable.core.verdict import Comparison, Verdict
from metastable.report.drawing import draw
from metastable.report.figures.sweep import figures_of_sweep, panels, sides, with_extent
from metastable.report.page import Area, Cards, Folded, Noted, Picture, Section, Table, page, show
from metastable.report.picture import laid_out
from metastable.sweep.layout import labels
from metastable.sweep.observables import ERROR, JUDGED
from metastable.sweep.own import SOURCE
from metastable.sweep.plan import plan_sweep
from metastable.sweep.rows import observable_of, slack_of
from metastable.sweep.spec import Sweep, experiment_with
from metastable.sweep.status import answers, leading, means, open_sweep, status

MOST_CELLS = 400  # that can be clicked; a page with more would weigh megabytes
TARGET = 0.018  # half the side of the area of a point, in widths of its picture


@dataclasses.dataclass(frozen=True)
class Cell:
    """A place of the diagram: its name on the page, its values by axis, means, and its spec."""

    name: str
    at: Mapping[str, Any]
    values: Mapping[str, str]
    spec: str

    @property
    def where(self) -> str:
        return ", ".join(f"{dim} = {show(value)}" for dim, value in self.at.items())

    @property
    def title(self) -> str:
        return f"{self.where}: " + "; ".join(f"{k} {v}" for k, v in self.values.items())


def write_sweep(result: Result) -> Path:
    """Write the page and the figures of a kept sweep; return the page's path."""
    assert result.folder is not None
    return report_sweep(result.folder)


def report_sweep(folder: str | Path) -> Path:
    """Write `report.html` and `figures/` into a store; cells that are not done stay blank."""
    folder = Path(folder)
    data, state = open_sweep(folder), status(folder)
    sweep, mean = Sweep.model_validate(data.attrs["sweep"]), means(data)
    facts: dict[str, Any] = {k: state[k] for k in ("cells", "done", "failed", "left")}
    facts |= {f"axis {axis}": span for axis, span in state["axes"].items()}
    facts |= {"samples in a cell": sweep.samples, "seed": sweep.seed}
    rows = [[cell, why["outcome"], why["message"]] for cell, why in state["failures"].items()]
    kept = folder / VERDICTS
    read = json.loads(kept.read_text("utf-8"))["rows"] if kept.is_file() else []
    verdicts = Comparison(tuple(Verdict(**row) for row in read), "none")
    of_theory = [row for row in verdicts.rows if row.source != SOURCE]
    judged = {name: row for row in of_theory if (name := observable_of(row)) in sweep.observables}
    figures = figures_of_sweep(data, sweep, {name: row.verdict for name, row in judged.items()})
    for name, row in judged.items():
        figures[name] = dataclasses.replace(figures[name], caption=_judged(figures[name], row))
    spreads = [Picture(figure) for name, figure in figures.items() if name not in sweep.observables]
    first, *more = map(_unbroken, answers(data, verdicts))
    few = data["done"].isel(repetition=0).size <= MOST_CELLS
    cells = list(_cells(sweep, mean)) if few else []
    return page(
        folder / "report.html",
        sweep.name or folder.resolve().name,
        verdicts=verdicts.rows,
        opening=leading(data)
        if len(data["done"].values.ravel()) > data.sizes["repetition"]
        else "",
        sentence=first,
        more=" ".join(more),
        facts=facts,
        figures=figures,
        areas={name: _areas(figures[name], mean[name], cells) for name in sweep.observables},
        sections=[
            Section(
                "Errors", [Folded("Standard errors, cell by cell", spreads)] if spreads else []
            ),
            Section("Cells", _listed(cells)),
            Section("Observables", [_extremes(data, mean)]),
            Section("Failed cells", [Table(["cell", "outcome", "why"], rows)] if rows else []),
        ],
        provenance={"sweep.toml": sweep.to_toml()},
    )


def _unbroken(text: str) -> str:
    """A number stays on one line with what it is of, and with its error."""
    return re.sub(r" ([=±]) ", "\u00a0\\1\u00a0", text)


def _judged(figure: Figure, row: Verdict) -> str:
    """The caption of a figure with the verdict on its observable."""
    slack = f"; {slack} are allowed beside chance" if (slack := slack_of(row)) else ""
    said = f": expected {show(row.expected)}, observed {show(row.observed)} "
    said += f"({row.tolerance}{slack})"
    what = row.claim.rpartition(" (")[0]
    why = f" ({row.reason})" if row.expected is None else said
    return f"{figure.caption} Theory, {what}: {row.verdict}{why}."


def _cells(sweep: Sweep, mean: xarray.Dataset) -> Iterator[Cell]:
    plan = plan_sweep(sweep)
    axes = [labels(values) for values in plan.values]
    for number, index in enumerate(product(*(range(len(axis)) for axis in axes)), start=1):
        at = {dim: axis[k] for dim, axis, k in zip(plan.dims, axes, index, strict=True)}
        here, values = mean.sel(at), {}
        for name in sweep.observables:
            value, error = (here[one].values.ravel() for one in (name, name + ERROR))
            if name + JUDGED in here:
                runs = round(float(here[name + JUDGED]))
                values[name] = f"{round(runs * value[-1])} of {runs} runs" if runs else "–"
                continue
            off = f" ± {error[-1]:.2g}" if np.isfinite(error[-1]) else ""
            last = " at the end" if value.size > 1 else ""
            values[name] = f"{value[-1]:.4g}{off}{last}" if np.isfinite(value[-1]) else "–"
        text = experiment_with(sweep.base, plan.cell((*index, 0)).overrides).to_toml()
        # Seeds are those of repetitions, and a name is the sweep's.
        lines = [line for line in text.splitlines() if not line.startswith(("seed =", "name ="))]
        spec = "\n".join(lines)
        yield Cell(f"cell-{number}", at, values, spec)


def _listed(cells: list[Cell]) -> list[Any]:
    """The table of cells, each a link to its card, and the cards."""
    if not cells:
        return []
    rows = []
    for cell in cells:
        first, *rest = cell.at.values()
        rows.append([Noted(first, "", f"#{cell.name}"), *rest, *cell.values.values()])
    table = Table([*cells[0].at, *cells[0].values], rows, f"Values of {len(cells)} cells")
    said = lambda cell: "\n".join([*(f"{k}: {v}" for k, v in cell.values.items()), "", cell.spec])
    cards = {cell.name: (cell.where, said(cell)) for cell in cells}
    return ["A cell of a picture, or its row here, leads to its values and its spec.",
            table, Cards(cards)]  # fmt: skip


def _areas(figure: Figure, values: xarray.DataArray, cells: list[Cell]) -> list[Area]:
    """Where each cell lies in the drawn figure: a box of a map, or the point of a line."""
    if not cells or (isinstance(figure, Lines) and "time" in values.dims):
        return []
    values, picture = with_extent(values), draw(figure)
    size = np.array(laid_out(picture), float)
    place = lambda ax, x, y: ax.transData.transform((x, y)) / size
    areas = []
    for cell in cells:
        if isinstance(figure, Lines):
            x = next((d for d in ("beta",) if d in values.dims), str(values.dims[-1]))
            height = float(values.sel({dim: cell.at[str(dim)] for dim in values.dims}))
            if not np.isfinite(height):
                continue
            across, up = place(picture.axes[0], cell.at[x], height)
            tall = TARGET * size[0] / size[1]
            low, high = (
                np.array([across - TARGET, up - tall]),
                np.array([across + TARGET, up + tall]),
            )
        else:
            x, y, third = sides(values)
            shown = panels(values, third)
            if third and cell.at[third[0]] not in shown:
                continue
            if any(cell.at[dim] != values[dim].values[0] for dim in third[1:]):
                continue
            ax = picture.axes[shown.index(cell.at[third[0]]) if third else 0]
            part: Any = figure if not third else figure.frames[0]  # pyright: ignore
            (left, right), (bottom, top) = (
                _span(dim, values, edges, cell.at)
                for dim, edges in ((x, part.x_edges), (y, part.y_edges))
            )
            low, high = place(ax, left, bottom), place(ax, right, top)
        low, high = np.clip(low, 0, 1), np.clip(high, 0, 1)
        box = float(low[0]), float(1 - high[1]), float(high[0] - low[0]), float(high[1] - low[1])
        areas.append(Area(*box, cell.name, cell.title))
    return areas


def _span(dim: str, values: Any, edges: Any, at: Mapping[str, Any]) -> tuple[float, float]:
    """Both borders of a cell along an axis; all of the times belong to it."""
    if dim not in at:
        return float(edges[0]), float(edges[-1])
    k = int(np.flatnonzero(values[dim].values == at[dim])[0])
    return float(edges[k]), float(edges[k + 1])


def _extremes(data: xarray.Dataset, mean: xarray.Dataset) -> Table:
    """Each observable at its lowest and highest mean, with standard errors."""
    rows = []
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
