"""The page of an audit, or of a sweep of audits, made from the files in its folder."""

from __future__ import annotations

import csv
import json
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from metastable.audit.audit import ITEMS, read_facts
from metastable.audit.collect import read_rows
from metastable.audit.corpus import PIXELS
from metastable.audit.evidence import Question, questions, rank_items
from metastable.audit.validity import in_words
from metastable.core.figure import Figure
from metastable.core.folder import MANIFEST, SPEC
from metastable.core.progress import Bar
from metastable.core.result import Result
from metastable.report.figures import audit as figures_of
from metastable.report.figures.audit import GROUPS, Rows, plot_calibration, score_in_words
from metastable.report.page import Block, Listing, Noted, Picture, Section, Table, page, rows_table

MOST_ITEMS, MOST_CONTROLS = 20, 5  # shown in full; all are in ranked.csv
RUN = 4  # characters in a row that count as matching: shorter ones match by chance
LINE = 100
# Seen on light and dark pages and, by its line, in print.
MARK = Markup('<mark style="color:inherit;background:#0072b244;border-bottom:1px solid #0072b2">')
HELD = {True: "pass", False: "fail", None: "not run"}
MEANING = {
    "replicates": "M shows more of the protected set than of texts it cannot know. It says that "
    "protected items were in what M was trained on, as a set; each item has its own q-value below.",
    "no evidence": "The protected set shows no more than its controls at this budget and level. "
    "That does not say it was not trained on: see the upper end of the overlap's interval.",
    "inconclusive": "A condition failed, so that neither presence nor absence can be concluded. "
    "The condition is named; mend it and run again.",
}


def write_audit(result: Result) -> Path:
    """Write the page and the figures of a kept audit; return the page's path."""
    assert result.folder is not None
    return report_audit(result.folder)


def report_audit(folder: str | Path) -> Path:
    """Write `report.html` and `figures/` into the folder of an audit, of a sweep or of a null.

    Reads the facts of the manifest and `items.csv`; beside the page stand `ranked.csv` (items with
    their q-values), or `runs.csv` and `runs.json` of a sweep. A null is read from `null.json`.
    Derived files are replaced.
    """
    folder = Path(folder)
    if _is_audit(folder):
        return _report_one(folder)
    if (folder / "null.json").is_file():
        return _report_null(folder)
    inside = sorted({path.parent for path in folder.rglob(MANIFEST)})
    runs = [each for each in inside if _is_audit(each)]
    if not runs:
        raise ValueError(
            f"DIR must hold a finished audit ({MANIFEST}, {ITEMS}), or folders that do; got "
            f"{folder}: run `metastable audit run` first."
        )
    return _report_many(folder, runs)


def _report_one(folder: Path) -> Path:
    summary, rows = read_facts(folder), read_rows(folder / ITEMS)
    conditions, asked = summary["conditions"], questions(rows)
    carrier = next(question for question in asked if question.name == _decided_by(summary))
    ranked = rank_items(rows, carrier)
    figures: dict[str, Figure] = {"roc": figures_of.plot_roc(asked, carrier)}
    if asked[0].reconstructs:
        figures["errors"] = figures_of.plot_errors(rows, asked[0].score)
    null = {each["name"]: each["numbers"].get("p_values") for each in conditions}
    null = {name.removeprefix("calibrated over "): p for name, p in null.items() if p}
    if null:
        figures["calibration"] = plot_calibration(null)
    levels = _levels(rows, asked[0])
    if levels:
        figures["images"] = figures_of.plot_images(rank_items(rows, asked[0]), levels)
    kept = "item document group generator budget prompt output target exact q_value hamming edit "
    kept += f"common_run squared_error nll {carrier.score}"
    names = dict.fromkeys(kept.split())
    _write_csv(folder / "ranked.csv", [{name: row.get(name) for name in names} for row in ranked])

    def pictures(name: str) -> list[Block]:
        return [Picture(figures[name])] if name in figures else []

    items: list[Block] = pictures("images") if levels else list_items(rows, asked, ranked)
    cells = [[in_words(each["name"]), HELD[each["held"]], each["told"]] for each in conditions]
    checked = Table(["condition", "verdict", "told"], cells, "Each of these can stop the verdict")
    verdict, reason = str(summary["verdict"]), str(summary["reason"])
    return page(
        folder / "report.html",
        f"Audit: {verdict}",
        sentence=f"{reason[:1].upper()}{reason[1:]}. {MEANING[verdict]}",
        facts=_facts(summary),
        figures=figures,
        sections=[
            Section("Conditions", [checked]),
            Section("What was asked", [_findings(summary), _rates(summary)]),
            Section("Error against budget", [*pictures("errors"), _errors(rows, asked)]),
            Section("True and false positives", pictures("roc")),
            Section("Items, strongest evidence first", [_about_items(ranked, carrier), *items]),
            Section("Null p-values", pictures("calibration") or ["None were collected."]),
        ],
        provenance={name: (folder / name).read_text("utf-8") for name in (SPEC, MANIFEST)},
    )


def _report_many(folder: Path, paths: Sequence[Path]) -> Path:
    runs = []
    with Bar("reading") as bar:
        for number, path in enumerate(paths, 1):
            runs.append({"run": path.relative_to(folder).as_posix()} | _read_run(path))
            bar.update(number / len(paths))
    figures: dict[str, Figure] = {"overlap": figures_of.plot_overlaps(runs)}
    written = [run for run in runs if run["generator"]]
    if written:
        figures = {"panels": figures_of.plot_audit_panels(written), **figures}
    table = [_run_row(run) for run in runs]
    _write_csv(folder / "runs.csv", table)
    (folder / "runs.json").write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
    counts = dict(Counter(run["summary"]["verdict"] for run in runs))
    facts: dict[str, Any] = {"audits": len(runs), "verdicts": counts}
    nothing = [run["summary"]["verdict"] for run in runs if run["overlap"] == 0]
    if nothing:
        silent = nothing.count("no evidence")
        facts["overlap 0"] = f'"no evidence" in {silent} of {len(nothing)}'
    covered = sum(run["estimate"][0] <= run["overlap"] <= run["estimate"][2] for run in runs)
    facts["overlap covered"] = f"{covered} of {len(runs)} intervals"
    shown = {"Model and overlap": "panels", "Estimated overlap": "overlap"}
    shown = {title: figures[name] for title, name in shown.items() if name in figures}
    sections = [Section(title, [Picture(figure)]) for title, figure in shown.items()]
    sections.append(Section("Audits", [rows_table(map(_brief, table))]))
    counted = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
    return page(
        folder / "report.html",
        "Audits compared",
        sentence=f"{len(runs)} audits: {counted}.",
        facts=facts,
        figures=figures,
        sections=sections,
    )


def _report_null(folder: Path) -> Path:
    file = folder / "null.json"
    try:
        null = json.loads(file.read_text("utf-8"))
    except ValueError:
        message = f"{file} is damaged (not JSON): restore it from a copy, or run it again."
        raise ValueError(message) from None
    needed = "replicas resplits replica_p_values resplit_p_values rejections_at_5pct replica_ks_p"
    if not isinstance(null, dict) or not null.keys() >= {*needed.split(), "resplit_ks_p"}:
        message = f"{file} is damaged (numbers are missing): run the same `metastable audit null`"
        raise ValueError(f"{message} again.")
    p_values = {"null models": null["replica_p_values"], "re-splits": null["resplit_p_values"]}
    share = f"{null['rejections_at_5pct']:.1%}"
    facts = {
        "models trained without the protected set": null["replicas"],
        "re-splits": null["resplits"],
        "at or below 0.05": share,
        "KS p, models": null["replica_ks_p"],
        "KS p, re-splits": null["resplit_ks_p"],
    }
    return page(
        folder / "report.html",
        "Where there is nothing to find",
        sentence=f"Of audits with nothing to find, {share} have a p-value of at most 0.05.",
        facts=facts,
        figures={"calibration": plot_calibration(p_values)},
    )


def _read_run(path: Path) -> dict[str, Any]:
    """One audit of a sweep: its place in the sweep, its facts and the rows of one generator."""
    config = tomllib.loads((path / SPEC).read_text("utf-8"))
    summary, rows = read_facts(path), read_rows(path / ITEMS)
    asked = next((question for question in questions(rows) if question.reconstructs), None)
    generator = asked and asked.generator
    return {
        "size": config.get("model", {}).get("size", "given"),
        "overlap": float(config.get("split", {}).get("overlap", 0.0)),
        "seed": config.get("seed", 0),
        "generator": generator,
        "score": asked and asked.score,
        "rows": [row for row in rows if row["generator"] == generator],
        "estimate": summary["overlap_estimate"],
        "summary": summary,
    }


def _run_row(run: Mapping[str, Any]) -> dict[str, Any]:
    summary = run["summary"]
    row = {"run": run["run"], "model": run["size"], "overlap": run["overlap"], "seed": run["seed"]}
    row |= {"found": summary["verdict"], "reason": summary["reason"], "p": summary["p_value"]}
    row |= zip(("low", "estimate", "high"), run["estimate"], strict=True)
    row |= {"auc": summary["auc"], "blind_auc": summary["blind_auc"]}
    for name, key in (("error", "reconstruction_error"), ("exact", "exact_rate")):
        row |= {f"{name}_{group}": mean for group, mean in summary[key].items()}
    return row


def _brief(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row that fits a page; the whole is in runs.csv."""
    short = lambda key: None if row[key] is None else float(f"{row[key]:.3g}")
    brief = {name: row[name] for name in ("overlap", "model", "seed", "found")}
    brief["p"] = short("p")
    brief["estimate"] = Noted(short("estimate"), f"{row['low']:.2f}…{row['high']:.2f}")
    means = {"error: members": "error_members", "protected": "error_protected"}
    means |= {"control": "error_control", "exact: members": "exact_members"}
    means |= {"controls": "exact_control"}
    return brief | {name: short(key) for name, key in means.items()}


def _facts(summary: Mapping[str, Any]) -> dict[str, Any]:
    low, mid, high = summary["overlap_estimate"]
    facts: dict[str, Any] = {"p-value (Holm)": float(f"{summary['p_value']:.3g}")}
    facts["overlap, 90 %"] = f"{mid:.2f} [{low:.2f}, {high:.2f}]"
    facts["decided by"] = _decided_by(summary)
    for name, key in (("error", "reconstruction_error"), ("written exactly", "exact_rate")):
        means = {group: value for group, value in summary[key].items() if value is not None}
        if means:
            listed = ", ".join(f"{group} {value:.3f}" for group, value in means.items())
            facts[f"{name}, {summary['main']}"] = listed
    return facts | {"overlap assumes": summary["overlap_assumption"]}


def _findings(summary: Mapping[str, Any]) -> Table:
    rows = []
    for finding in summary["findings"]:
        low, mid, high = finding["auc"]
        small, effect, large = finding["effect"]
        row = [finding["name"], score_in_words(finding["score"]), finding["p_value"]]
        row += [finding["adjusted"], f"{mid:.3f} [{low:.3f}, {high:.3f}]"]
        rows.append([*row, f"{effect:.3g} [{small:.3g}, {large:.3g}]"])
    columns = ["question", "score", "p", "p (Holm)", "AUC, 95 %", "more evidence by, 95 %"]
    caption = "Protected set against controls, one-sided permutation over documents"
    return Table(columns, rows, caption)


def _rates(summary: Mapping[str, Any]) -> Table:
    rows = []
    for rate in summary["rates"]:
        cells = "refused", rate["told"]
        if rate["tpr"] is not None:
            low, mid, high = rate["tpr"]
            cells = f"{mid:.3f}", f"[{low:.3f}, {high:.3f}]"
        rows.append([f"{rate['level']:.3%}", *cells])
    columns = ["false positives at most", "true positives", "Clopper–Pearson 95 %"]
    caption = f"Rates of the question of the smallest p-value ({_decided_by(summary)})"
    return Table(columns, rows, caption)


def _errors(rows: Rows, asked: Sequence[Question]) -> Table:
    """Means by generator, budget and group: the numbers behind the figure."""
    table = []
    for question in (question for question in asked if question.reconstructs):
        own = [row for row in rows if question.is_of(row)]
        cells: list[Any] = [question.generator, question.budget, own[0]["bits"]]
        for score in (question.score, "exact"):
            for kinds, _, _ in GROUPS.values():
                values = [float(row[score]) for row in own if row["group"] in kinds]
                cells.append(round(sum(values) / len(values), 4) if values else None)
        table.append(cells)
    columns = ["generator", "budget", "bits", "error: members", "protected", "controls"]
    columns += ["exact: members", "protected", "controls"]
    return Table(columns, table, "Mean error and share written exactly")


def _decided_by(summary: Mapping[str, Any]) -> str:
    """The question of the smallest adjusted p-value, also of summaries that do not name it."""
    rank = lambda row: (row["adjusted"], row["p_value"])
    return str(summary.get("decided_by") or min(summary["findings"], key=rank)["name"])


def _about_items(ranked: Rows, carrier: Question) -> str:
    q_values = [row["q_value"] for row in ranked if row["q_value"] is not None]
    words = f"Ranked by {carrier.name} ({score_in_words(carrier.score)}), the question of the "
    words += f"smallest p-value: {sum(q <= 0.1 for q in q_values)} of {len(q_values)} protected "
    words += "items stand out with a q-value of at most 0.1. Of such items at most a tenth are "
    return words + "expected to be there by chance."


def _levels(rows: Rows, main: Question) -> int | None:
    """Grey levels, at least those seen, if items are square images; None for texts."""
    texts = [row["target"] for row in rows]
    square = all(round(len(text) ** 0.5) ** 2 == len(text) for text in texts if text)
    if main.score != "squared_error" or not square:
        return None
    return max(PIXELS.find(c) for text in texts for c in text) + 1


def _write_csv(path: Path, rows: Rows) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _is_audit(folder: Path) -> bool:
    """Whether a folder holds a finished audit, damaged or not."""
    return (folder / MANIFEST).is_file() and not (folder / "null.json").is_file()


def list_items(rows: Rows, asked: Sequence[Question], ranked: Rows) -> list[Block]:
    """What was written beside its target, matching runs marked, in the order of `ranked`."""
    places = {_key(row): (place, row["q_value"]) for place, row in enumerate(ranked)}
    place = lambda row: places.get(_key(row), (len(places), None))
    least: dict[str, Question] = {}
    for question in asked:
        if question.reconstructs:
            least.setdefault(question.generator, question)
    listings: list[Block] = []
    for question in least.values():
        own = sorted((row for row in rows if question.is_of(row)), key=lambda row: place(row)[0])
        ordered = [{**row, "q_value": place(row)[1]} for row in own]
        items = [row for row in ordered if row["group"] != "control"][:MOST_ITEMS]
        controls = [row for row in ordered if row["group"] == "control"][:MOST_CONTROLS]
        text = Markup("\n\n").join(_item(row, question.score) for row in (*items, *controls))
        title = f"{question.name}: {len(items)} protected items, then {len(controls)} controls"
        listings.append(Listing(title, text, open=not listings))
    return listings


def _key(row: Mapping[str, Any]) -> tuple[bool, str]:
    """Set and name: an item of the control may be called like one of the protected set."""
    return row["group"] == "control", row["item"]


def _item(row: Mapping[str, Any], score: str) -> Markup:
    q = "" if row["q_value"] is None else f", q = {row['q_value']:.3g}"
    head = f"{row['item']} ({row['group']}), {score} {float(row[score]):.3f}{q}"
    output, target = _visible(row["output"]), _visible(row["target"])
    runs = matching(output, target)
    lines = [Markup("<b>{}</b>").format(head)]
    if row["prompt"]:
        lines += _wrapped("prompt", _visible(row["prompt"]), set())
    lines += _wrapped("output", output, {k for a, _, n in runs for k in range(a, a + n)})
    lines += _wrapped("target", target, {k for _, b, n in runs for k in range(b, b + n)})
    return Markup("\n").join(lines)


def matching(output: str, target: str) -> list[tuple[int, int, int]]:
    """Runs that stand in both, in order: (start in output, start in target, length).

    >>> matching("of the union x", "state of the union")
    [(0, 6, 12)]
    """
    blocks = SequenceMatcher(None, output, target, autojunk=False).get_matching_blocks()
    return [(a, b, n) for a, b, n in blocks if n >= min(RUN, len(target)) and n > 0]


def _wrapped(name: str, text: str, marked: set[int]) -> list[Markup]:
    lines = []
    for start in range(0, max(len(text), 1), LINE):
        body, inside = Markup(""), False
        for k in range(start, min(start + LINE, len(text))):
            if (k in marked) != inside:
                body += Markup("</mark>") if inside else MARK
                inside = not inside
            body += escape(text[k])
        body += Markup("</mark>") if inside else Markup("")
        lines.append(Markup("{:8}").format(name if start == 0 else "") + body)
    return lines


def _visible(text: str) -> str:
    """Control characters as pictures, so that lines stay lines."""
    return "".join(chr(0x2400 + ord(c)) if ord(c) < 32 else c for c in text)
