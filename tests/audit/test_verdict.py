"""Verdicts on rows whose truth is known, and every way they can be stopped."""

import json

import numpy as np
import pytest

from metastable.audit.blind import Blind
from metastable.audit.evidence import questions, rank_items, weigh_evidence
from metastable.audit.statistics import Interval
from metastable.audit.validity import check_blind, check_calibration, check_nulls, check_size
from metastable.audit.verdict import _decide, make_verdict
from tests.audit.rows import make_rows, make_texts

MATCHED = Blind(Interval(0.4, 0.5, 0.6))


def decide(rows, level=0.05):
    findings = weigh_evidence(questions(rows), draws=999)
    return _decide(findings, [check_blind(MATCHED)], level)


def test_a_whole_judgement():
    nulls = {name: make_rows(0.0, seed=k) for k, name in enumerate(("random_weights", "other"))}
    found = make_verdict(make_rows(0.5), level=0.05, blind=make_texts(), nulls=nulls, seed=1)
    assert found.verdict == "replicates" and "soft 1, soft 4" in found.reason
    assert found.p_value <= 0.01 and found.main == "soft 1"
    low, mid, high = found.overlap_estimate
    assert 0 < low <= 0.5 <= high <= 1 and low <= mid <= high
    assert found.tpr_at_1pct is None and "100 control documents" in found.rates[0]["told"]
    error, exact = found.reconstruction_error, found.exact_rate
    rows = [row for row in make_rows(0.5) if row["budget"] == 1]
    whole = [row["hamming"] for row in rows if row["group"] != "control"]
    assert error["protected"] == pytest.approx(np.mean(whole))
    assert error["members"] < 0.1 < 0.8 < error["control"] and exact["control"] == 0
    held = {one["name"]: one["held"] for one in found.conditions}
    assert held["random_weights"] and held["other"] and held["permuted_labels"]
    assert held["overlap_zero"] is None and held["shuffled_targets"] is None
    json.dumps([found.to_dict(), found.conditions])


def test_the_reason_quotes_the_p_value_of_the_question_it_names():
    """Written evidence is weaker here than likelihood: each has its own p-value."""
    rows = make_rows(0.9, gap=0.02, seed=1)
    found = make_verdict(rows, level=0.05, blind=make_texts(), seed=1)
    adjusted = {one["name"]: one["adjusted"] for one in found.findings}
    assert adjusted["nll"] < adjusted["soft 1"] <= 0.05 < adjusted["soft 4"]
    assert found.verdict == "replicates"
    assert f"by soft 1 (adjusted p = {adjusted['soft 1']:.2g}; nll" in found.reason
    assert f"smallest adjusted p = {adjusted['nll']:.2g}" in found.reason
    # Areas and rates are those of the question that decided, errors those of what is written.
    assert (found.decided_by, found.main, found.p_value) == ("nll", "soft 1", adjusted["nll"])
    nll = {
        group: -np.array(
            [r["nll"] for r in rows if r["budget"] == 0 and (r["group"] == "control") is group]
        )
        for group in (False, True)
    }
    above = [x > y for x in nll[False] for y in nll[True]]
    assert found.auc == pytest.approx(np.mean(above))
    allowed = np.sort(nll[True])[-2]  # one control of 40 may lie above
    assert found.rates[2]["tpr"][1] == pytest.approx(np.mean(nll[False] > allowed))
    assert found.reconstruction_error["control"] > 0.8


def test_reasons_have_words_and_no_identifiers():
    nulls = {"shuffled_targets": make_rows(0.5), "overlap_zero": make_rows(0.5)}
    found = make_verdict(make_rows(0.5), level=0.05, blind=make_texts(), nulls=nulls)
    assert found.verdict == "inconclusive" and "_" not in found.reason
    assert "shuffled texts: p = " in found.reason
    assert "model without the protected set: p = " in found.reason


def test_controls_of_another_kind_stop_the_verdict():
    texts = (["a b c d " * 5] * 20, ["x y z w " * 5] * 20)
    found = make_verdict(make_rows(0.5, size=20), level=0.05, blind=texts)
    assert found.verdict == "inconclusive" and found.reason.startswith("matched control")
    assert found.blind_auc == pytest.approx(1)


def test_no_overlap_gives_no_evidence():
    """Holm keeps false findings at 5 %: at most 5 of 40 seeds (a chance of 0.014 for more)."""
    found = [decide(make_rows(0.0, seed=seed))[0] for seed in range(40)]
    assert set(found) <= {"no evidence", "replicates"} and found.count("replicates") <= 5


def test_likelihood_alone_is_told_as_such():
    verdict, reason = decide(make_rows(0.5, gap=0.0))
    assert verdict == "replicates" and reason.startswith("by likelihood only")
    assert decide(make_rows(0.5, budgets=()))[1].startswith("by likelihood only")


def test_membership_is_never_looked_at():
    known, unknown = (make_rows(0.5, known=flag) for flag in (True, False))
    assert [one.to_dict() for one in weigh_evidence(questions(known), draws=99)] == [
        one.to_dict() for one in weigh_evidence(questions(unknown), draws=99)
    ]


def test_documents_are_the_units():
    """Ten copies of each window of two documents a side are still two documents: of C(4, 2) = 6
    relabellings one is as large, p = 1/6."""
    rows = [
        {"item": f"{d}{k}", "document": d, "group": group, "generator": "likelihood", "budget": 0}
        | {"nll": nll}
        for d, group, nll in (
            ("a", "protected", 0.1),
            ("b", "protected", 0.2),
            ("c", "control", 2.0),
            ("d", "control", 2.5),
        )
        for k in range(10)
    ]
    (only,) = weigh_evidence(questions(rows))
    assert only.p_value == pytest.approx(1 / 6)
    size = check_size(questions(rows), 0.05, 9999)
    assert size.held is False and "bring more documents" in size.told


def test_the_main_question_is_what_is_written_from_least():
    asked = questions(make_rows(budgets=(8, 2)))
    assert [one.name for one in asked] == ["soft 2", "soft 8", "nll", "min_k"]
    images = [
        row | {"squared_error": 0.1} for row in make_rows() if row["generator"] != "likelihood"
    ]
    assert {one.score for one in questions(images)} == {"squared_error"}


def test_nulls_that_show_something_stop_the_verdict():
    found = {
        one.name: one for one in check_nulls({"random_weights": 0.002, "permuted_labels": 0.4})
    }
    assert (
        found["random_weights"].held is False
        and "there can be none" in found["random_weights"].told
    )
    assert found["permuted_labels"].held and found["overlap_zero"].held is None
    small = (np.random.default_rng(0).uniform(size=200) ** 2).tolist()
    assert check_calibration("name", small).held is False
    assert check_calibration("name", [1.0] * 200).held  # ties, too large: safe
    assert check_calibration("name", []).held is None


def test_items_are_ranked_with_their_rates():
    rows = make_rows(0.5)
    ranked = rank_items(rows, questions(rows)[0])
    errors = [row["hamming"] for row in ranked]
    assert errors == sorted(errors) and len(ranked) == 80
    named = [row for row in ranked if row["q_value"] is not None and row["q_value"] <= 0.1]
    assert len(named) >= 15 and sum(row["group"] == "member" for row in named) >= 0.9 * len(named)
    assert all(row["q_value"] is None for row in ranked if row["group"] == "control")


def test_bad_rows_are_refused():
    with pytest.raises(ValueError, match="collect them first"):
        questions([row for row in make_rows() if row["group"] == "control"])
    with pytest.raises(ValueError, match="group must be one of"):
        questions([make_rows()[0] | {"group": "unknown"}])
