"""The page of an audit, made from the files in its folder: what was found, then why."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from metastable.audit.audit import ITEMS, read_facts
from metastable.audit.collect import read_rows
from metastable.audit.corpus import PIXELS, plural
from metastable.audit.error_rates import TABLE, error_sentence, read_table
from metastable.audit.evidence import REPRODUCES, TRAINED, Question, error_score, questions
from metastable.audit.evidence import rank_items as rank
from metastable.audit.plan import PLAN
from metastable.audit.scores import score_in_words
from metastable.audit.spec import AuditConfig
from metastable.audit.validity import in_words
from metastable.audit.verdict import threshold_words
from metastable.audit.verify import seal_page
from metastable.audit.wording import MEANING, quote
from metastable.audit.works import read_covers
from metastable.core.figure import Figure
from metastable.core.folder import MANIFEST, SPEC
from metastable.core.result import Result
from metastable.report.figures import audit as figures_of
from metastable.report.figures.audit import GROUPS, Rows, plot_calibration
from metastable.report.page import Block, Facts, Listing, Picture, Section, Table, page, show
from metastable.report.pages.audit_items import list_items
from metastable.report.pages.audit_sweep import report_many, write_csv
from metastable.report.pages.audit_validation import report_validation
from metastable.report.pages.audit_works import tell_known, tell_works

HELD = {True: "pass", False: "fail", None: "not run"}
COLORS = {True: "var(--fail)", False: "var(--ink)"}
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")
CUSTODY = ("environment", "seeds", "model_sha256", "reference_sha256")


def write_audit(result: Result) -> Path:
    """Write the page and the figures of a kept audit; return the page's path."""
    assert result.folder is not None
    return report_audit(result.folder)


def report_audit(folder: str | Path) -> Path:
    """Write `report.html` and `figures/` into the folder of an audit, a sweep or a validation.

    Reads the facts of the manifest and `items.csv`; beside the page stand `ranked_*.csv` (items
    with their q-values, for each finding) and `page.json` (digests of all this), or `runs.csv` and
    `runs.json` of a sweep. A validation is read from its table. Derived files are replaced.
    """
    folder = Path(folder)
    if _is_audit(folder):
        path = _report_one(folder)
        (folder / "report.pdf").unlink(missing_ok=True)  # of the page before
        seal_page(folder)
        return path
    if (folder / TABLE).is_file():
        return report_validation(folder)
    inside = sorted({path.parent for path in folder.rglob(MANIFEST)})
    runs = [each for each in inside if _is_audit(each)]
    if not runs:
        raise ValueError(
            f"DIR must hold a finished audit ({MANIFEST}, {ITEMS}), or folders that do; got "
            f"{folder}: run `metastable audit run` first."
        )
    return report_many(folder, runs)


def print_page(path: Path) -> Path:
    """The page as a PDF beside it, with everything unfolded, by a Chromium of this machine."""
    browser = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if browser is None:
        raise ValueError(
            "--pdf needs Chromium, which is not installed here: install it, or print report.html "
            "from any browser."
        )
    pdf = path.with_suffix(".pdf")
    with tempfile.TemporaryDirectory() as place:
        unfolded = Path(place) / "page.html"
        text = path.read_text("utf-8").replace("<details>", "<details open>")
        unfolded.write_text(text, encoding="utf-8")
        flags = "--headless --no-sandbox --disable-gpu --no-pdf-header-footer".split()
        flags += [f"--user-data-dir={place}/profile", f"--print-to-pdf={place}/page.pdf"]
        words = [browser, *flags, unfolded.as_uri()]
        try:
            subprocess.run(words, capture_output=True, timeout=120, check=True)
            shutil.copy(Path(place) / "page.pdf", pdf)
        except (OSError, subprocess.SubprocessError) as error:
            raise ValueError(
                f"--pdf needs a working Chromium; {browser} failed ({type(error).__name__}): print "
                "report.html from any browser."
            ) from None
    if _is_audit(path.parent):
        seal_page(path.parent)
    return pdf


def _report_one(folder: Path) -> Path:
    summary, rows = read_facts(folder), read_rows(folder / ITEMS)
    manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    conditions, asked = summary["conditions"], questions(rows)
    carriers = {name: _carrier(summary, name, asked) for name in (TRAINED, REPRODUCES)}
    likely, written = carriers[TRAINED], carriers[REPRODUCES]
    error = error_score(rows)
    figures: dict[str, Figure] = {}
    if likely is not None:
        figures["familiarity"] = figures_of.plot_familiarity(likely)
        figures["roc"] = figures_of.plot_roc(asked, likely)
    prompts = [question for question in asked if question.family == REPRODUCES]
    if prompts:
        figures["written"] = figures_of.plot_written(prompts)
    if error is not None:
        figures["errors"] = figures_of.plot_errors(rows, error)
    null = {each["name"]: each["numbers"].get("p_values") for each in conditions}
    null = {name.removeprefix("calibrated over "): p for name, p in null.items() if p}
    if null:
        figures["calibration"] = plot_calibration(null)
    ranked = {name: rank(rows, own) for name, own in carriers.items() if own is not None}
    levels = _levels(rows, error)
    if levels and written is not None:
        figures["images"] = figures_of.plot_images(ranked[REPRODUCES], levels)
    for name, own in ranked.items():
        kept = "item document group generator budget prompt output target exact q_value hamming "
        kept += "edit common_run squared_error nll min_k min_k_pp zlib_ratio reference_ratio"
        kept += " foresight coverage best_coverage" if "unit" in summary else ""
        table = [{key: row.get(key) for key in kept.split()} for row in own]
        write_csv(folder / f"ranked_{name.replace(' ', '_')}.csv", table)

    works = read_covers(folder, rows, summary) if "works" in summary else []
    if works:
        figures["works"] = figures_of.plot_works(works)
    strip: list[Block] = [Picture(figures["works"])] if works else []
    whole = [Section("The whole work", [*strip, *tell_works(summary)])] if works else []

    def pictures(name: str) -> list[Block]:
        return [Picture(figures[name])] if name in figures else []

    cells = [[in_words(c["name"]), HELD[c["held"]], c["told"]] for c in conditions]
    failed = sum(c["held"] is False for c in conditions)
    passed = sum(c["held"] is True for c in conditions)
    left_out = len(conditions) - passed - failed
    counted = f"{passed} condition{' holds' if passed == 1 else 's hold'}, {failed} "
    counted += f"fail{'s' if failed == 1 else ''}, {left_out} w{'as' if left_out == 1 else 'ere'} "
    counted += "not run"
    checked = Table(["condition", "verdict", "told"], cells)
    items: list[Block] = []
    if written is not None:
        items = [_about_items(ranked[REPRODUCES], written, error or "hamming")]
        shown = list_items(rows, asked, ranked[REPRODUCES], error or "hamming")
        items += pictures("images") if levels else shown
    if likely is not None:
        items.insert(0, _about_items(ranked[TRAINED], likely, likely.score))
    custody = {k: manifest[k] for k in CUSTODY if k in manifest}
    texts = {name: (folder / name).read_text("utf-8") for name in (SPEC, MANIFEST)}
    return page(
        folder / "report.html",
        "Was this model (M) trained on protected texts, and does it reproduce them?",
        sentence=_opening(summary),
        figures=figures,
        sections=[
            Section("In pictures", [*pictures("familiarity"), *pictures("written")]),
            *whole,
            Section(
                "In numbers",
                [
                    *_error_rates(folder, summary),
                    Facts(_facts(summary, rows)),
                    _folded(counted, checked),
                ],
            ),
            Section("Trained on", [*_finding(summary["trained_on"]), *pictures("roc")]),
            Section(
                "Reproduces",
                [
                    *_finding(summary["reproduces"]),
                    *pictures("errors"),
                    *_errors(rows, asked, error),
                    *(_folded(title, table) for title, table in tell_known(summary, rows)),
                ],
            ),
            Section("Items, strongest evidence first", items),
            Section("Null p-values", pictures("calibration") or ["None were collected."]),
            Section("Chain of custody", [*_custody(folder, summary, manifest), _plain(custody)]),
        ],
        provenance=texts,
    )


def _opening(summary: Mapping[str, Any]) -> Markup:
    """The two findings as large words, then the paragraph that can be quoted."""
    cards = Markup("")
    for finding in (summary["trained_on"], summary["reproduces"]):
        found = finding["finding"] == finding["name"]
        p = "" if finding["p_value"] is None else f"p = {finding['p_value']:.2g}"
        cards += Markup(
            '<span style="flex:1 1 15rem;border:1px solid var(--line);border-radius:.4rem;'
            'padding:.7rem 1rem"><span style="display:block;color:var(--soft);font-size:.85rem">'
            '{}</span><b style="display:block;font-size:1.9rem;line-height:1.25;color:{}">{}</b>'
            '<span style="display:block;font-size:.85rem">{}</span></span>'
        ).format(
            f"{finding['name'].capitalize()}?",
            Markup(COLORS[found]),
            finding["finding"],
            f"{p}{': ' if p else ''}{MEANING[finding['finding']]}",
        )
    first = Markup('<span style="display:flex;flex-wrap:wrap;gap:1rem;margin:1rem 0">{}</span>')
    text = Markup('<span style="font-size:1.05rem">{}</span>').format(quote(summary))
    return text + first.format(cards)


def _error_rates(folder: Path, summary: Mapping[str, Any]) -> list[Block]:
    table = read_table()
    if table is None:
        return []
    return [error_sentence(table, AuditConfig.load(folder / SPEC), summary["power"]["documents"])]


def _folded(title: str, table: Table) -> Markup:
    """A table behind its title; a block of text is a paragraph, which ends before it."""
    head = Markup("").join(Markup("<th>{}</th>").format(column) for column in table.columns)
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(
                Markup('<td class="{}">{}</td>').format(table.style(k, cell), show(cell))
                for k, cell in enumerate(row)
            )
        )
        for row in table.rows
    )
    return Markup(
        '</p><details><summary>{}</summary><div class="wide" style="padding:0 .8rem">'
        "<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div></details><p>"
    ).format(title, head, body)


def _carrier(summary: Mapping[str, Any], name: str, asked: Sequence[Question]) -> Question | None:
    """The question that carries a finding; where none does, the first of its family."""
    decided = summary[name.replace(" ", "_")]["decided_by"]
    own = [question for question in asked if question.family == name]
    return next((q for q in own if q.name == decided), own[0] if own else None)


def _facts(summary: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    overlap, power = summary["overlap"], summary["power"]
    limit = f"{overlap['low']:.2f}"
    if overlap.get("high") is not None:
        limit = f"{overlap['low']:.2f} to {overlap['high']:.2f}"
    facts: dict[str, Any] = {
        "documents": f"{power['documents'][0]} protected, {power['documents'][1]} control",
        "level of both findings together": power["level"],
        "share trained on, at least (95 %)": f"{limit}; {overlap['basis']}",
        "seen with 80 % power": f"area {power['auc']:.2f}",
    }
    if power["rate"] is not None:
        facts["seen with 80 % power"] += f"; {100 * power['rate']:.0f} % of documents coming out"
    means = {group: v for group, v in summary["near_rate"].items() if v is not None}
    if means:
        prompt = summary["reproduces"]["decided_by"]
        listed = ", ".join(f"{group} {value:.3f}" for group, value in means.items())
        facts[f"written near-verbatim, {prompt}"] = listed
        facts["near-verbatim means"] = threshold_words(rows)
    planned = summary.get("planned")
    facts["planned"] = planned["written"] if planned else "not planned beforehand"
    return facts


def _finding(finding: Mapping[str, Any]) -> list[Block]:
    reason = str(finding["reason"])
    blocks: list[Block] = [f"{finding['finding'].capitalize()}. {reason[:1].upper()}{reason[1:]}."]
    rows = []
    for each in finding["questions"]:
        low, mid, high = each["auc"]
        small, effect, large = each["effect"]
        row = [each["name"], score_in_words(each["score"]), each["p_value"], each["adjusted"]]
        row += [f"{mid:.3f} [{low:.3f}, {high:.3f}]"]
        row += [f"{effect:.3g} [{small:.3g}, {large:.3g}]"]
        rows.append([*row, "yes" if each["fits"] else "no"])
    columns = ["question", "score", "p", "p (Holm)", "AUC, 95 %", "more evidence by, 95 %"]
    if finding["name"] == REPRODUCES:
        columns.append("prompt can hold the text")
    else:
        rows = [row[:-1] for row in rows]
    if rows:
        title = f"{plural(len(rows), 'question')}: protected against controls, permutation over "
        title += "documents"
        blocks.append(_folded(title, Table(columns, rows)))
    if finding["rates"]:
        blocks.append(_folded("Rates, by the question that carries the finding", _rates(finding)))
    return blocks


def _rates(finding: Mapping[str, Any]) -> Table:
    rows = []
    if finding["name"] == REPRODUCES:
        for each in finding["rates"]:
            low, mid, high = each["share"]
            cells = [each["written"], each["set"], each["of"], f"{mid:.3f}"]
            rows.append([*cells, f"[{low:.3f}, {high:.3f}]"])
        return Table(["written", "set", "items", "share", "Clopper–Pearson 95 %"], rows)
    for rate in finding["rates"]:
        cells = ["refused", rate["told"]]
        if rate["tpr"] is not None:
            low, mid, high = rate["tpr"]
            cells = [f"{mid:.3f}", f"[{low:.3f}, {high:.3f}]"]
        rows.append([f"{rate['level']:.3%}", *cells])
    return Table(["false positives at most", "true positives", "Clopper–Pearson 95 %"], rows)


def _errors(rows: Rows, asked: Sequence[Question], score: str | None) -> list[Block]:
    """Means by generator, budget and group: the numbers behind the figure."""
    table = []
    for question in (question for question in asked if question.family == REPRODUCES):
        own = [row for row in rows if question.is_of(row)]
        cells: list[Any] = [question.generator, question.budget, own[0]["bits"]]
        for name in (score or "hamming", "exact"):
            for kinds, _, _ in GROUPS.values():
                values = [float(row[name]) for row in own if row["group"] in kinds]
                cells.append(round(sum(values) / len(values), 4) if values else None)
        table.append(cells)
    if not table:
        return []
    columns = ["generator", "budget", "bits", "error: members", "protected", "controls"]
    columns += ["exact: members", "protected", "controls"]
    return [_folded("Mean error and share written exactly", Table(columns, table))]


def _about_items(ranked: Rows, carrier: Question, score: str) -> str:
    q_values = [row["q_value"] for row in ranked if row["q_value"] is not None]
    file = f"ranked_{carrier.family.replace(' ', '_')}.csv"
    words = (
        f"{carrier.family.capitalize()}: ranked by {score_in_words(score)} of {carrier.generator}, "
    )
    words += f"which carries the finding ({file}): {sum(q <= 0.1 for q in q_values)} of "
    words += f"{len(q_values)} protected items stand out with a q-value of at most 0.1. Of such "
    return words + "items at most a tenth are expected to be there by chance."


def _custody(folder: Path, summary: Mapping[str, Any], manifest: Mapping[str, Any]) -> list[Block]:
    planned = summary.get("planned")
    words = "Not planned beforehand: sets, scores and level may have been chosen after looking."
    if planned:
        told = f"Planned on {planned['written']} ({PLAN}), commitment {planned['commitment']}."
        words = Markup('<span style="overflow-wrap:anywhere">{}</span>').format(told)
    known = manifest.get("model_sha256", {})
    rows = [["model", name, digest] for name, digest in known.items()]
    for name, digest in manifest.get("reference_sha256", {}).items():
        rows.append(["reference", name, digest])
    file = folder / "documents.json"
    sets = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    for name, own in sets.items():
        rows += [[name, document, digest] for document, digest in own["documents"].items()]
    blocks: list[Block] = [words, "The command “metastable audit verify DIR” recomputes all of it."]
    if rows:
        blocks.append(
            _folded(
                f"SHA-256 of {len(rows)} files and texts", Table(["of", "name", "SHA-256"], rows)
            )
        )
    return blocks


def _plain(content: Mapping[str, Any]) -> Listing:
    text = json.dumps(content, indent=1, ensure_ascii=False)
    return Listing("Software and machine", text)


def _levels(rows: Rows, error: str | None) -> int | None:
    """Grey levels, at least those seen, if items are square images; None for texts."""
    texts = [row["target"] for row in rows]
    square = all(round(len(text) ** 0.5) ** 2 == len(text) for text in texts if text)
    if error != "squared_error" or not square:
        return None
    return max(PIXELS.find(c) for text in texts for c in text) + 1


def _is_audit(folder: Path) -> bool:
    """Whether a folder holds a finished audit, damaged or not."""
    return (folder / MANIFEST).is_file()
