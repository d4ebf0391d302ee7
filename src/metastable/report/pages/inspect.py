"""The page and the terminal's table of an inspected transformer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.core.figure import Figure
from metastable.report.figures import layers, words
from metastable.report.page import Block, Listing, Picture, Section, Table, page, rows_table

if TYPE_CHECKING:
    from metastable.models.inspection import Inspection

__all__ = ["figures_of_inspection", "print_inspection", "report_inspection"]

MOST_HEADS = 40  # rows of the table of heads


def report_inspection(result: Inspection, folder: str | Path) -> Path:
    """Write page, `figures/`, `inspection.json`, `trajectory.zarr` into a folder; return the page.

    The folder must be new or empty. The explorer plays the trajectory.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    figures = figures_of_inspection(result)
    summary = json.dumps(result.to_dict(str(folder)), ensure_ascii=False)
    (folder / "inspection.json").write_text(summary + "\n", encoding="utf-8")
    result.run.save(folder / "trajectory.zarr")
    captured = result.run.statistics

    def section(title: str, names: str, *more: Block) -> Section:
        shown = [Picture(figures[name]) for name in names.split() if name in figures]
        return Section(title, [*shown, *more])

    table = Table(
        *_table(result),
        caption="State by state: mean cosine, share of pairs above 0.9 and 0.99, clusters of "
        "cosine > 0.99, effective rank, distance from consensus; and the untrained mean and count",
    )
    first = str(result.first).capitalize() + "."
    facts = _facts(result)
    return page(
        folder / "report.html",
        f"{captured['model']} through its layers",
        sentence=f"Clusters of tokens through {facts['depth']}: {facts['clusters']}. {first}",
        facts=facts,
        figures=figures,
        sections=[
            section("Cosines through the layers", "histograms cosines"),
            section("Clusters", "clusters", _plateaus(result)),
            section("Words on the sphere", "words"),
            section("Rank, collapse and the first token", "ranks", first),
            section("Energy", "energies"),
            section("Layers compared", "alignment"),
            section("Many prompts", "study"),
            section("Where tokens look", "maps"),
            section("Weights as theory sees them", "heads", *_heads(result), *_fits(result)),
            section("Words as vectors", "pull", *_analogies(result)),
            Section("Numbers", [table, Listing("Text", " ".join(captured["words"]))]),
        ],
    )


def figures_of_inspection(result: Inspection) -> dict[str, Figure]:
    """Figures by name; labels are captions."""
    run = result.run
    last = len(run.times) - 1
    trained = min(int(np.searchsorted(run.times, run.statistics["layers"])), last)
    shown = sorted({0, trained // 2 if trained == last else trained, last})
    figures: dict[str, Figure] = {
        "histograms": layers.plot_cosine_histograms(run, result.control),
        "cosines": layers.plot_cosines(result),
        "clusters": layers.plot_cluster_counts(result),
        "words": words.plot_words(run, shown),
        "ranks": layers.plot_ranks(result),
        "energies": layers.plot_energies(result),
        "alignment": layers.plot_alignment(result),
    }
    if result.study is not None:
        figures["study"] = layers.plot_study(result.study)
    if result.maps is not None:
        figures["maps"] = words.plot_attention(result.maps, result.map_words, len(result.maps) // 2)
    if result.heads:
        figures["heads"] = words.plot_heads(result.heads)
    if result.pull is not None:
        figures["pull"] = words.plot_pull(result.pull)
    return figures


def print_inspection(result: Inspection, out: Path | None) -> None:
    """Choices, the table of states (of many, some), and what was seen."""
    from rich.console import Console
    from rich.table import Table

    from metastable.models.depthwise import choose_states

    console = Console()
    say = lambda text: console.print(text, highlight=False, soft_wrap=True, markup=False)
    for name, value in _facts(result).items():
        say(f"{name:<14} {value}")
    table = Table(box=None, pad_edge=False)
    columns, rows = _table(result)
    shown = [k for k, column in enumerate(columns) if column not in ("merged", "split")]
    for k in shown:
        table.add_column(columns[k], justify="right")
    for row in (rows[state] for state in choose_states(result.table.times, 33)):
        table.add_row(*(_short(row[k]) for k in shown))
    console.print(table)
    say(str(result.first))
    say(f"clock: {result.clock}")
    if out is not None:
        say(f"report: {out / 'report.html'}")


def _facts(result: Inspection) -> dict[str, Any]:
    from metastable.models.capture import choices

    captured, table = result.run.statistics, result.table
    tied = "tied: one layer applied again and again" if captured["tied"] else "each its own weights"
    facts = {
        "model": captured["model"],
        "architecture": f"{captured['architecture']}, {captured['layers']} layers, {tied}",
        "depth": f"{result.run.times[-1]:g} layers",
        "outcome": result.run.outcome.message,
    }
    facts |= choices(result.run)
    drops = ", ".join(f"{count} at β = {beta}" for beta, count in table.energy_violations.items())
    facts["energy fell"] = f"{drops}, of {len(table.times) - 1} layers"
    facts["clusters"] = f"{table.clusters[0]} → {table.clusters[-1]} (cosine > 0.99)"
    if result.control_table is not None:
        facts["untrained"] = f"{result.control_table.clusters[-1]} clusters at the end"
    return facts


def _table(result: Inspection) -> tuple[list[str], list[list[Any]]]:
    table, control = result.table, result.control_table
    columns = ["layer", "mean cosine", "≥0.9", "≥0.99", "clusters", "merged", "split"]
    columns += ["effective rank", "distance from consensus"]
    columns += ["untrained cosine", "untrained clusters"] if control is not None else []
    rows = []
    for k, time in enumerate(table.times):
        row = [float(time), float(table.mean_cosine[k]), *(float(m) for m in table.mass[k, :2])]
        row += [int(table.clusters[k]), int(table.merges[k]), int(table.splits[k])]
        row += [float(table.effective_rank[k]), float(table.residual[k])]
        if control is not None and k < len(control.times):
            row += [float(control.mean_cosine[k]), int(control.clusters[k])]
        elif control is not None:
            row += [None, None]
        rows.append(row)
    return columns, rows


def _plateaus(result: Inspection) -> str:
    shown = "; ".join(
        f"{plateau.value:g} clusters from layer {plateau.start:g} to {plateau.end:g}"
        for plateau in result.table.plateaus
    )
    return f"Plateaus of the count (a quarter of a unit of log depth or more): {shown or 'none'}."


def _heads(result: Inspection) -> list[Any]:
    if not result.heads:
        return []
    rows = [head.to_row() for head in result.heads]
    proved = sum(not row["limit"].startswith("none") for row in rows)
    some = f", the first {MOST_HEADS} shown" if len(rows) > MOST_HEADS else ""
    caption = (
        f"{len(rows)} heads{some}; B = s·sym(QᵀK). A limit theorem of pure attention covers "
        f"{proved} of them, each alone and without norms."
    )
    return [rows_table(rows[:MOST_HEADS], caption)]


def _fits(result: Inspection) -> list[Any]:
    if not result.fits:
        return []
    rows = [
        {
            "layer": layer,
            "matrix": name,
            "law": type(fit.fitted).__name__,
            "distance": float(fit.fitted_distance),
            "outliers": len(fit.outliers),
        }
        for layer, name, fit in result.fits[:MOST_HEADS]
    ]
    caption = "Spectra beside random matrices: Kolmogorov distance at the scale that fits best"
    return [rows_table(rows, caption)]


def _analogies(result: Inspection) -> list[Any]:
    if not result.analogies:
        return []
    rows = [
        [question, ", ".join(f"{word} {cosine:.2f}" for word, cosine in answers)]
        for question, answers in result.analogies.items()
    ]
    return [Table(["question", "nearest words of the embedding table"], rows, "Analogies")]


def _short(value: Any) -> str:
    if value is None:
        return "–"
    if not isinstance(value, float) or value.is_integer():
        return f"{value:g}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
