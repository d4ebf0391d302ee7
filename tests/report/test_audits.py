"""Pages of audits, from folders written here."""

import csv
import json
import shutil
from datetime import UTC, datetime

import numpy as np
import pytest

from metastable.audit.blind import Blind
from metastable.audit.collect import write_rows
from metastable.audit.spec import AuditConfig, Source
from metastable.audit.statistics import Interval
from metastable.audit.verdict import make_findings
from metastable.audit.wording import quote
from metastable.core.outcome import Outcome
from metastable.core.result import Result, write_result
from metastable.report.pages.audit import CHROMIUM, print_page, report_audit
from metastable.report.pages.audit_items import matching
from tests.audit.rows import make_rows

BLIND = Blind(Interval(0.4, 0.5, 0.6))


def write_audit(folder, rows, overlap=0.5, size="complex"):
    """What a finished audit leaves, of rows that no model made."""
    folder.mkdir(parents=True)
    write_rows(rows, folder / "items.csv")
    facts = make_findings(rows, level=0.05, blind=BLIND).to_dict() | {"planned": None}
    facts["quote"] = quote(facts)
    config = AuditConfig(corpus=Source(kind="sotu")).altered(split__overlap=overlap)
    config = config.altered(model__size=size)
    (folder / "spec.toml").write_text(config.to_toml())
    result = Result(config, Outcome("done", "by hand"), facts, sentence=facts["quote"])
    write_result(result, folder, datetime.now(UTC), ["page.json"])
    return folder


def ranked(folder, name):
    with (folder / f"ranked_{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_page_of_an_audit(tmp_path):
    rows = make_rows(0.5, size=20)
    attack = "<script>alert(1)</script>"
    for row in rows:
        if row.get("exact"):
            row |= {"target": attack, "output": attack}
    folder = write_audit(tmp_path / "audit", rows)
    page = report_audit(folder).read_text("utf-8")
    assert page.index("The model was trained on protected texts (p") < page.index("<svg")
    assert page.index(">trained on</b>") < page.index(">reproduces</b>") < page.index("<svg")
    assert "not planned beforehand" in page and "replicat" not in page
    assert page.count("<svg") == 5 and page.count("<details>") >= 6
    assert "<script" not in page and "&lt;script&gt;alert" in page and "<mark" in page
    assert "refused" in page and "bring at least 100 control documents" in page
    names = {file.stem for file in (folder / "figures").glob("*.svg")}
    assert names == {"familiarity", "written", "errors", "roc", "calibration"}
    sealed = json.loads((folder / "page.json").read_text())["files"]
    assert {"report.html", "ranked_trained_on.csv", "figures/roc.svg"} <= set(sealed)


def test_the_page_introduces_its_letter_and_says_which_way_is_familiar(tmp_path):
    page = report_audit(write_audit(tmp_path / "audit", make_rows(0.5, size=20))).read_text("utf-8")
    assert "Was this model (M) trained on" in page
    assert "Further left, at a lower mean −log p, means more familiar" in page
    assert "othing came out" not in page and "read 1 times" not in page


def test_an_empty_figure_says_that_nothing_came_out(tmp_path):
    rows = make_rows(0.5, size=20)
    for row in rows:
        if "hamming" in row:
            row |= {"output": "", "exact": 0.0, "hamming": 1.0, "edit": 1.0}
    page = report_audit(write_audit(tmp_path / "audit", rows)).read_text("utf-8")
    assert "Nothing came out." in page


def test_items_are_ranked_by_the_score_that_carries_each_finding(tmp_path):
    """A control is called like an item."""
    rows = make_rows(0.9, gap=0.02, size=20, seed=1)
    for row in rows:
        row["item"] = row["item"].replace("c", "p")
    folder = write_audit(tmp_path / "audit", rows)
    page = report_audit(folder).read_text("utf-8")
    assert ">trained on</b>" in page and ">no evidence</b>" in page
    likely, written = ranked(folder, "trained_on"), ranked(folder, "reproduces")
    values = [float(row["nll"]) for row in likely]
    assert values == sorted(values) and {row["generator"] for row in likely} == {"likelihood"}
    errors = [float(row["hamming"]) for row in written]
    assert errors == sorted(errors) and {row["generator"] for row in written} == {"soft"}
    # The listing of what a generator wrote follows the same order, with the same q-values.
    own = [row for row in written if row["group"] != "control"]
    heads = [f"<b>{row['item']} ({row['group']}), hamming" for row in own]
    places = [page.index(head) for head in heads]
    assert places == sorted(places)
    assert f", q = {float(own[0]['q_value']):.3g}</b>" in page[places[0] : places[1]]


@pytest.mark.skipif(not any(map(shutil.which, CHROMIUM)), reason="needs Chromium")
def test_a_page_is_printed_with_everything_unfolded(tmp_path):
    page = report_audit(write_audit(tmp_path / "audit", make_rows(0.5, size=20)))
    pdf = print_page(page)
    assert pdf.read_bytes()[:5] == b"%PDF-" and pdf.stat().st_size > 20_000
    assert "report.pdf" in json.loads((tmp_path / "audit" / "page.json").read_text())["files"]


def test_without_a_browser_there_is_no_pdf(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="--pdf needs Chromium"):
        print_page(tmp_path / "report.html")


def test_likelihood_alone_and_images_have_pages_too(tmp_path):
    rows = make_rows(0.5, size=20, budgets=())
    page = report_audit(write_audit(tmp_path / "likelihood", rows)).read_text("utf-8")
    assert page.count("<svg") == 3
    random = np.random.default_rng(0)
    images = []
    for row in make_rows(0.5, size=20, budgets=(1,)):
        target = "".join(random.choice(list("0123456789abcdefg"), 64))
        output = target if row["group"] == "member" else target[::-1]
        row |= {"target": target, "output": output}
        images.append(row | ({"squared_error": row["hamming"]} if "hamming" in row else {}))
    report_audit(write_audit(tmp_path / "images", images))
    assert (tmp_path / "images" / "figures" / "images.svg").is_file()


def test_a_sweep_has_four_panels(tmp_path):
    for overlap in (0.0, 0.1, 0.9):
        for size, gap in (("basic", 0.2), ("complex", 0.9)):
            rows = make_rows(overlap, size=20, gap=gap)
            write_audit(tmp_path / f"{overlap}-{size}", rows, overlap, size)
    page = report_audit(tmp_path).read_text("utf-8")
    assert page.count("<svg") == 2 and "“" not in page
    assert "none in 2 of 2" in page and "6 of 6" in page
    panels = (tmp_path / "figures" / "panels.svg").read_text("utf-8")
    assert panels.count("clip-path") > 4
    runs = json.loads((tmp_path / "runs.json").read_text())
    assert len(runs) == 6 and {run["model"] for run in runs} == {"basic", "complex"}
    with (tmp_path / "runs.csv").open(newline="", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 6


def test_what_matches_is_marked():
    assert matching("xx of the union", "state of the union") == [(2, 5, 13)]
    assert matching("abcxyz", "xyzabc") == []  # three in a row happen by chance
    assert matching("ab", "ab") == [(0, 0, 2)]


def test_a_folder_without_audits_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must hold a finished audit"):
        report_audit(tmp_path)
