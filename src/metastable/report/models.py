"""The page and the terminal's table of an inspected transformer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from metastable.core.figure import Figure
    from metastable.models.inspection import Inspection

__all__ = ["figures_of_inspection", "print_inspection", "report_inspection"]

MOST_HEADS = 40  # rows of the table of heads


def report_inspection(found: Inspection, folder: str | Path) -> Path:
    """Write page, `figures/`, `inspection.json`, `trajectory.zarr` into a folder; return the page.

    The folder must be new or empty. The explorer plays the trajectory.
    """
    from metastable.core.progress import Bar
    from metastable.report.page import Facts, Listing, Picture, Section, Table, write_page
    from metastable.report.svg import save_figure

    folder = Path(folder)
    figures = figures_of_inspection(found)
    with Bar("figures") as bar:
        for number, (name, figure) in enumerate(figures.items(), 1):
            save_figure(figure, folder / "figures", name)
            bar.update(number / len(figures))
    summary = json.dumps(found.to_dict(str(folder)), ensure_ascii=False)
    (folder / "inspection.json").write_text(summary + "\n", encoding="utf-8")
    found.run.save(folder / "trajectory.zarr")
    told = found.run.statistics

    def section(title: str, names: str, *more: Any) -> Section | None:
        pictures = [Picture(figures[name]) for name in names.split() if name in figures]
        return Section(title, [*pictures, *more]) if pictures or more else None

    table = Table(
        *_table(found),
        caption="State by state: mean cosine, share of pairs above 0.9 and 0.99, clusters of "
        "cosine > 0.99, effective rank, distance from consensus; and the untrained mean and count",
    )
    heads, fits = _heads(found), _fits(found)
    sections = [
        section("Cosines through the layers", "histograms cosines"),
        section("Clusters", "clusters", _plateaus(found)),
        section("Words on the sphere", "words"),
        section("Rank, collapse and the first token", "ranks", str(found.first).capitalize() + "."),
        section("Energy", "energies"),
        section("Layers compared", "alignment"),
        section("Many prompts", "study"),
        section("Where tokens look", "maps"),
        section("Weights as theory sees them", "heads", *heads, *fits),
        section("Words as vectors", "pull", *_analogies(found)),
        Section("Numbers", [table, Listing("Text", " ".join(told["words"]))]),
    ]
    return write_page(
        folder / "report.html",
        f"{told['model']} through its layers",
        *[one for one in sections if one is not None],
        lead=[Facts(_facts(found))],
    )


def figures_of_inspection(found: Inspection) -> dict[str, Figure]:
    """Figures by name; labels are captions."""
    from metastable.report.figures import layers, words

    run = found.run
    last = len(run.times) - 1
    trained = min(int(np.searchsorted(run.times, run.statistics["layers"])), last)
    shown = sorted({0, trained // 2 if trained == last else trained, last})
    figures: dict[str, Figure] = {
        "histograms": layers.plot_cosine_histograms(run, found.control),
        "cosines": layers.plot_cosines(found),
        "clusters": layers.plot_cluster_counts(found),
        "words": words.plot_words(run, shown),
        "ranks": layers.plot_ranks(found),
        "energies": layers.plot_energies(found),
        "alignment": layers.plot_alignment(found),
    }
    if found.study is not None:
        figures["study"] = layers.plot_study(found.study)
    if found.maps is not None:
        figures["maps"] = words.plot_attention(found.maps, found.map_words, len(found.maps) // 2)
    if found.heads:
        figures["heads"] = words.plot_heads(found.heads)
    if found.pull is not None:
        figures["pull"] = words.plot_pull(found.pull)
    return figures


def print_inspection(found: Inspection, out: Path | None) -> None:
    """Choices, the table of states (of many, some), and what was found."""
    from rich.console import Console
    from rich.table import Table

    from metastable.models.depthwise import choose_states

    console = Console()
    say = lambda text: console.print(text, highlight=False, soft_wrap=True, markup=False)
    for name, value in _facts(found).items():
        say(f"{name:<14} {value}")
    table = Table(box=None, pad_edge=False)
    columns, rows = _table(found)
    shown = [k for k, column in enumerate(columns) if column not in ("merged", "split")]
    for k in shown:
        table.add_column(columns[k], justify="right")
    for row in (rows[state] for state in choose_states(found.table.times, 33)):
        table.add_row(*(_short(row[k]) for k in shown))
    console.print(table)
    say(str(found.first))
    say(f"clock: {found.clock}")
    if out is not None:
        say(f"report: {out / 'report.html'}")


def _facts(found: Inspection) -> dict[str, Any]:
    from metastable.models.capture import choices

    told, table = found.run.statistics, found.table
    tied = "tied: one layer applied again and again" if told["tied"] else "each its own weights"
    facts = {
        "model": told["model"],
        "architecture": f"{told['architecture']}, {told['layers']} layers, {tied}",
        "depth": f"{found.run.times[-1]:g} layers",
        "outcome": found.run.outcome.message,
    }
    facts |= choices(found.run)
    drops = ", ".join(f"{count} at β = {beta}" for beta, count in table.energy_violations.items())
    facts["energy fell"] = f"{drops}, of {len(table.times) - 1} layers"
    facts["clusters"] = f"{table.clusters[0]} → {table.clusters[-1]} (cosine > 0.99)"
    if found.control_table is not None:
        facts["untrained"] = f"{found.control_table.clusters[-1]} clusters at the end"
    return facts


def _table(found: Inspection) -> tuple[list[str], list[list[Any]]]:
    table, control = found.table, found.control_table
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


def _plateaus(found: Inspection) -> str:
    shown = "; ".join(
        f"{one.value:g} clusters from layer {one.start:g} to {one.end:g}"
        for one in found.table.plateaus
    )
    return f"Plateaus of the count (a quarter of a unit of log depth or more): {shown or 'none'}."


def _heads(found: Inspection) -> list[Any]:
    from metastable.report.page import rows_table

    if not found.heads:
        return []
    rows = [head.to_row() for head in found.heads]
    proved = sum(not row["limit"].startswith("none") for row in rows)
    some = f", the first {MOST_HEADS} shown" if len(rows) > MOST_HEADS else ""
    caption = (
        f"{len(rows)} heads{some}; B = s·sym(QᵀK). A limit theorem of pure attention covers "
        f"{proved} of them, each alone and without norms."
    )
    return [rows_table(rows[:MOST_HEADS], caption)]


def _fits(found: Inspection) -> list[Any]:
    from metastable.report.page import rows_table

    if not found.fits:
        return []
    rows = [
        {
            "layer": layer,
            "matrix": name,
            "law": type(fit.fitted).__name__,
            "distance": float(fit.fitted_distance),
            "outliers": len(fit.outliers),
        }
        for layer, name, fit in found.fits[:MOST_HEADS]
    ]
    caption = "Spectra beside random matrices: Kolmogorov distance at the scale that fits best"
    return [rows_table(rows, caption)]


def _analogies(found: Inspection) -> list[Any]:
    from metastable.report.page import Table

    if not found.analogies:
        return []
    rows = [
        [question, ", ".join(f"{word} {cosine:.2f}" for word, cosine in answers)]
        for question, answers in found.analogies.items()
    ]
    return [Table(["question", "nearest words of the embedding table"], rows, "Analogies")]


def _short(value: Any) -> str:
    if value is None:
        return "–"
    if not isinstance(value, float) or value.is_integer():
        return f"{value:g}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
