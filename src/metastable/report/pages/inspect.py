"""The page and the terminal's table of an inspected transformer."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.core.figure import Figure
from metastable.core.result import Result
from metastable.report.figures import inside, layers, overlay, words
from metastable.report.page import Block, Listing, Picture, Section, Table, page, rows_table

if TYPE_CHECKING:
    from metastable.models.inspection import Inspection
    from metastable.models.inspections import Inspections
    from metastable.models.spec import Inspect

MOST_HEADS = 40  # rows of the table of heads
MOST_STATES = 13  # rows of the terminal's table of states


def result_of_inspection(spec: Inspect, inspection: Inspection | Inspections) -> Result:
    """The result of an inspection, with its tables among the facts and its figures as data."""
    every = inspection.to_dict().items()
    facts: dict[str, Any] = {name: value for name, value in every if name not in ("outcome", "out")}
    shared: dict[str, Any] = {
        "spec": spec,
        "outcome": inspection.run.outcome,
        "data": {"trajectory": inspection.run.to_dataset()},
        "verdicts": inspection.verdicts,
        "sentence": inspection.sentence,
    }
    from metastable.models.inspections import Inspections

    if isinstance(inspection, Inspections):
        return Result(facts=facts, figures=figures_of_many(inspection), **shared)
    columns, rows = _table(inspection)
    facts |= {"choices in words": _facts(inspection), "states": {"columns": columns, "rows": rows}}
    facts |= {"grouped": bool(inspection.groups.gathered.any())}
    facts |= {"first token": str(inspection.first), "fitted clock": str(inspection.clock)}
    heads = [head.to_row() for head in inspection.heads]
    facts["weights"] = {"heads": heads, "fits": _fits(inspection), "count": len(inspection.heads)}
    facts["hypotheses"] = [head.to_row() for head in inspection.hypotheses]
    facts["theorems"] = [theorem.to_row() for theorem in inspection.theorems]
    facts["analogies"] = inspection.analogies
    return Result(facts=facts, figures=figures_of_inspection(inspection), **shared)


def write_inspection(result: Result) -> Path:
    """Write `report.html` and `figures/` into the folder of an inspection; return the page."""
    assert result.folder is not None
    if "models" in result.facts:
        return _write_many(result)
    facts, figures = result.facts, result.figures

    def section(title: str, names: str, *more: Block) -> Section:
        shown = [Picture(figures[name]) for name in names.split() if name in figures]
        return Section(title, [*shown, *more])

    said = re.split(r"(?<=\.) ", result.sentence)
    at = facts["states"]["columns"].index("clusters")
    fewest = min(row[at] for row in facts["states"]["rows"])
    grouped = facts.get("grouped", fewest < facts["tokens"])
    about_sinks = [each for each in said if "attention sink" in each]
    words = json.loads(result.data["trajectory"].attrs["statistics"])["words"]
    caption = "State by state: mean cosine, share of pairs above 0.9 and 0.99, clusters of cosine "
    caption += "> 0.99, effective rank, distance from consensus; and the untrained mean and count"
    twins = (facts.get("twins") or {"count": 1})["count"]
    caption += f", means over {twins} seeds with their range" if twins > 1 else ""
    table = Table(facts["states"]["columns"], facts["states"]["rows"], caption)
    return page(
        result.folder / "report.html",
        f"{_last_part(facts['model'])} through its layers",
        sentence=" ".join(each for each in said if each not in about_sinks),
        opening="groups" if grouped else "cosines",
        verdicts=result.verdicts.rows,
        facts=facts["choices in words"],
        figures=figures,
        sections=[
            section(
                "Cosines through the layers", "histograms cosines" if grouped else "histograms"
            ),
            section(
                "Clusters",
                "clusters" if grouped else "groups clusters",
                _plateaus(facts["plateaus"]),
            ),
            section("Words on the sphere", "words"),
            section("Rank, collapse and the first token", "ranks", f"{facts['first token']}."),
            section("Energy, and what moves it", "energies parts"),
            section("What each part explains", "ladder"),
            section("Layers compared", "alignment"),
            section("Many prompts", "study"),
            section("Where tokens look", "maps sinks", *about_sinks, *_sinks(facts["sinks"])),
            section("Which theorems apply", "hypotheses", *_theorems(facts["theorems"])),
            section("Weights as theory sees them", "heads", *_weights(**facts["weights"])),
            section("Words as vectors", "pull", *_analogies(facts["analogies"])),
            Section("Numbers", [table, Listing("Text", " ".join(words))]),
        ],
        provenance={"spec.toml": result.spec.to_toml()},
    )


def _write_many(result: Result) -> Path:
    """The page of several models, or of one at several β: overlays, a table, all verdicts."""
    assert result.folder is not None
    facts = result.facts
    return page(
        result.folder / "report.html",
        f"{len(facts['models'])} models on the same text",
        sentence=result.sentence,
        opening="overlay",
        figures=result.figures,
        verdicts=result.verdicts.rows,
        sections=[Section("Side by side", [rows_table(facts["table"], "One row a model")])],
        provenance={"spec.toml": result.spec.to_toml()},
    )


def figures_of_many(result: Inspections) -> dict[str, Figure]:
    """Overlays through relative depth; through training where the names are those of steps."""
    figures: dict[str, Figure] = {"overlay": overlay.plot_overlay(result)}
    if (steps := result.steps) is not None:
        figures["training"] = overlay.plot_training(result, steps)
    for number, (name, one) in enumerate(result.each.items()):
        figure = words.plot_groups(one.groups)
        figures[f"groups-{number}"] = dataclasses.replace(
            figure, caption=f"{name}: {figure.caption}"
        )
    return figures


def figures_of_inspection(result: Inspection) -> dict[str, Figure]:
    """Figures by name; labels are captions."""
    run = result.run
    last = len(run.times) - 1
    trained = min(int(np.searchsorted(run.times, run.statistics["layers"])), last)
    shown = sorted({0, trained // 2 if trained == last else trained, last})
    figures: dict[str, Figure] = {
        "groups": words.plot_groups(result.groups),
        "histograms": layers.plot_cosine_histograms(run, result.control),
        "cosines": layers.plot_cosines(result),
        "clusters": layers.plot_cluster_counts(result),
        "words": words.plot_words(run, shown, float(result.groups.thresholds[0])),
        "ranks": layers.plot_ranks(result),
        "energies": layers.plot_energies(result),
        "alignment": layers.plot_alignment(result),
    }
    if result.looser:
        asked, drawn = (float(one.thresholds[0]) for one in (result.strict, result.groups))
        for name in ("groups", "words", "clusters"):
            more = f" Nothing is within cosine {asked:g}: this is {drawn:g}."
            caption = figures[name].caption + more
            figures[name] = dataclasses.replace(figures[name], caption=caption)
    if result.study is not None:
        figures["study"] = layers.plot_study(result.study)
    if result.maps is not None:
        figures["maps"] = words.plot_attention(result.maps, result.map_words, len(result.maps) // 2)
    if result.energy is not None:
        figures["parts"] = inside.plot_energy_parts(result.energy)
    if result.ladder is not None:
        figures["ladder"] = inside.plot_ladder(result.ladder)
    if result.maps is not None:
        figures["sinks"] = inside.plot_sinks(result.maps)
    if result.hypotheses:
        figures["hypotheses"] = inside.plot_hypotheses(result.hypotheses)
    if result.heads:
        figures["heads"] = words.plot_heads(result.heads)
    if result.pull is not None:
        figures["pull"] = words.plot_pull(result.pull)
    return figures


def print_inspection(result: Result) -> None:
    """Choices, the table of states (of many, some), and what was seen."""
    from rich.console import Console

    from metastable.models.depthwise import choose_states
    from metastable.report.text import say, table

    facts = result.facts
    say(result.sentence)
    if "models" in facts:
        _print_many(result)
        return
    for name, value in facts["choices in words"].items():
        say(f"{name:<14} {value}")
    columns, rows = facts["states"]["columns"], facts["states"]["rows"]
    left_out = ("merged", "split", *(name for name in columns if name.startswith("range of ")))
    shown = [k for k, column in enumerate(columns) if column not in left_out]
    states = table(*(columns[k] for k in shown))
    chosen = choose_states(np.asarray(facts["times"]), MOST_STATES)
    for row in (rows[state] for state in chosen):
        states.add_row(*(_short(row[k]) for k in shown))
    Console().print(states)
    if len(chosen) < len(rows):
        say(f"{len(rows) - len(chosen)} states more are in the page and in --json")
    say(f"first token: {facts['first token']}")
    say(f"clock: {facts['fitted clock']}")
    _say_page(result)


def _say_page(result: Result) -> None:
    from metastable.report.text import say

    where = "no page was written: add --out DIR"
    say(where if result.folder is None else f"report: {result.folder / 'report.html'}")


def _print_many(result: Result) -> None:
    from rich.console import Console

    from metastable.report.text import table

    rows = result.facts["table"]
    models = table(*rows[0], left=("model",))
    for row in rows:
        models.add_row(*(v if isinstance(v, str) else _short(v) for v in row.values()))
    Console().print(models)
    _say_page(result)


def _last_part(model: str) -> str:
    """The name of a folder, not the path to it."""
    return model.rstrip("/").rsplit("/", 1)[-1] or model


def _facts(result: Inspection) -> dict[str, Any]:
    from metastable.models.capture import choices
    from metastable.models.inspection import first_to_last

    captured, table = result.run.statistics, result.table
    tied = "tied: one layer applied again and again" if captured["tied"] else "each its own weights"
    architecture = f"{captured['architecture']}, {captured['layers']} layers, {tied}"
    facts = {"model": captured["model"], "architecture": architecture}
    facts |= {"depth": f"{result.run.times[-1]:g} layers", "outcome": result.run.outcome.message}
    facts |= choices(result.run)
    drops = ", ".join(f"{count} at β = {beta}" for beta, count in table.energy_violations.items())
    facts["energy fell"] = f"{drops}, of {len(table.times) - 1} layers"
    facts["clusters"] = (
        f"{table.clusters[0]} → {table.clusters[-1]} (cosine > 0.99, single tokens counted)"
    )
    twins = result.twins
    if twins is not None:
        counted = twins.of_tables("clusters").end(0)
        facts["untrained"] = f"{counted} at the end, counted alike"
        seeds = "one seed" if len(twins) == 1 else f"{len(twins)} seeds: mean (lowest to highest)"
        facts["twins"] = seeds
    low = f"in clusters of two or more at cosine {result.loose.thresholds[0]:g}"
    facts["gathered"] = f"{first_to_last(result.loose)} of the tokens {low}"
    if twins is not None:
        facts["gathered"] += f" (untrained: {twins.gathered})"
    return facts


def _table(result: Inspection) -> tuple[list[str], list[list[Any]]]:
    table, twins = result.table, result.twins
    columns = ["layer", "mean cosine", "≥0.9", "≥0.99", "clusters", "merged", "split"]
    columns += ["effective rank", "distance from consensus"]
    spreads = {}
    if twins is not None:
        spreads["untrained cosine"] = twins.of_tables("mean_cosine"), "{:.3f} to {:.3f}"
        spreads["untrained clusters"] = twins.of_tables("clusters"), "{:.0f} to {:.0f}"
    several = twins is not None and len(twins) > 1
    for name in spreads:
        columns += [name, f"range of {name}"] if several else [name]
    rows = []
    for k, time in enumerate(table.times):
        row = [float(time), float(table.mean_cosine[k]), *(float(m) for m in table.mass[k, :2])]
        row += [int(table.clusters[k]), int(table.merges[k]), int(table.splits[k])]
        row += [float(table.effective_rank[k]), float(table.residual[k])]
        for spread, form in spreads.values():
            row.append(float(spread.mean[k]))
            row += [form.format(spread.low[k], spread.high[k])] if several else []
        rows.append(row)
    return columns, rows


def _plateaus(plateaus: list[list[float]]) -> str:
    words = "{2:g} clusters from layer {0:g} to {1:g}"
    listed = "; ".join(words.format(*plateau) for plateau in plateaus) or "none"
    return f"Plateaus of the count at 0.99 (a quarter of a unit of log depth or more): {listed}."


def _fits(inspection: Inspection) -> list[dict[str, Any]]:
    rows = []
    for layer, name, fit in inspection.fits[:MOST_HEADS]:
        row = {"layer": layer, "matrix": name, "law": type(fit.fitted).__name__}
        rows.append(row | {"distance": float(fit.fitted_distance), "outliers": len(fit.outliers)})
    return rows


def _weights(heads: list[dict[str, Any]], fits: list[dict[str, Any]], count: int) -> list[Any]:
    """Tables of heads and of spectra beside random matrices, where there are any."""
    tables = []
    if heads:
        proved = [row for row in heads if not row["limit"].startswith("none")]
        names = ", ".join(f"{row['layer']}.{row['head']}" for row in proved)
        shown = heads[:MOST_HEADS]
        some = f"{count} heads" if count == len(shown) else f"The first {len(shown)} of {count}"
        caption = f"{some}; β: effective inverse temperature; B = s·sym(QᵀK). A limit theorem of "
        caption += f"pure attention covers {len(proved)} of {len(heads)} heads, each alone and "
        caption += f"without norms{f' (layer.head {names})' if names else ''}."
        tables.append(rows_table(shown, caption))
    if fits:
        caption = "Spectra beside random matrices: Kolmogorov distance at the scale that fits best"
        tables.append(rows_table(fits, caption))
    return tables


def _sinks(sinks: list[dict[str, Any]]) -> list[Any]:
    caption = f"Heads with more than half of their attention on the first token, {len(sinks)} in "
    caption += "all; value: length of what they hear there over the median elsewhere"
    return [rows_table(sinks[:MOST_HEADS], caption)] if sinks else []


def _theorems(rows: list[dict[str, Any]]) -> list[Any]:
    caption = "What theorems ask of a head, and how near the heads come: overlap 1 is equality"
    return [rows_table(rows, caption)] if rows else []


def _analogies(analogies: Mapping[str, Any]) -> list[Any]:
    nearest = lambda answers: ", ".join(f"{word} {cosine:.2f}" for word, cosine in answers)
    rows = [[question, nearest(answers)] for question, answers in analogies.items()]
    table = Table(["question", "nearest words of the embedding table"], rows, "Analogies")
    return [table] if rows else []


def _short(value: Any) -> str:
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
    return "–" if value is None else f"{value:g}"
