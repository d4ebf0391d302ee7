"""Two findings on rows whose truth is known, and every way they can be stopped."""

import json

import numpy as np
import pytest

from metastable.audit.blind import Blind, separate_blindly
from metastable.audit.duplicates import check_duplicates, near_duplicates
from metastable.audit.evidence import is_near, questions, rank_items, weigh_evidence
from metastable.audit.statistics import Interval, adjust_holm
from metastable.audit.validity import (
    check_answers,
    check_calibration,
    check_nulls,
    check_size,
)
from metastable.audit.verdict import FLOOR, make_findings
from metastable.audit.wording import quote
from tests.audit.rows import make_rows, make_texts

MATCHED = Blind(Interval(0.4, 0.5, 0.6))


def judge(rows, level=0.05, **more):
    """The words of both findings."""
    found = make_findings(rows, level=level, blind=MATCHED, **more)
    return found.trained_on.word, found.reproduces.word


def test_a_whole_judgement():
    nulls = {name: make_rows(0.0, seed=k) for k, name in enumerate(("random_weights", "other"))}
    blind = separate_blindly(*make_texts(), seed=1)
    found = make_findings(make_rows(0.5), level=0.05, blind=blind, nulls=nulls, seed=1)
    trained, reproduces = found.trained_on, found.reproduces
    assert (trained.word, reproduces.word) == ("trained on", "reproduces")
    assert trained.p_value <= 0.01 and reproduces.decided_by in ("soft 1", "soft 4")
    assert 0 < found.overlap["low"] <= 0.5 and found.overlap["high"] is None
    assert trained.rates[0]["tpr"] is None and "100 control documents" in trained.rates[0]["told"]
    error, exact = found.reconstruction_error, found.exact_rate
    own = [r for r in make_rows(0.5) if f"soft {r['budget']}" == reproduces.decided_by]
    whole = [row["hamming"] for row in own if row["group"] != "control"]
    assert error["protected"] == pytest.approx(np.mean(whole))
    assert error["members"] < 0.1 < 0.8 * error["control"] and exact["control"] == 0
    shares = {(r["written"], r["set"]): r["share"][1] for r in reproduces.rates}
    near = [row["hamming"] <= 0.1 for row in own if row["group"] != "control"]
    assert shares["near-verbatim", "protected"] == pytest.approx(np.mean(near))
    held = {one["name"]: one["held"] for one in found.conditions}
    assert held["random_weights"] and held["other"] and held["permuted_labels"]
    assert held["overlap_zero"] is None and held["shuffled_targets"] is None
    rows = found.comparison().rows
    assert [row.verdict for row in rows[:2]] == ["disagree", "disagree"]
    assert "was not trained on" in rows[0].claim and "does not reproduce" in rows[1].claim
    json.dumps(found.to_dict())


def test_the_level_holds_for_both_findings_together():
    """Holm within each family, then over the two: by hand from the p-values of the questions."""
    found = make_findings(make_rows(0.3, seed=3), level=0.05, blind=MATCHED)
    smallest = []
    for side in (found.trained_on, found.reproduces):
        p = [each["p_value"] for each in side.questions]
        assert [each["adjusted"] for each in side.questions] == adjust_holm(p)
        smallest.append(min(len(p) * min(p), 1.0))
    assert [found.trained_on.p_value, found.reproduces.p_value] == adjust_holm(smallest)


def test_a_model_that_knows_and_writes_nothing_does_not_reproduce():
    """The likelihood stands out, and the error is a little lower: no text comes out."""
    rows = make_rows(0.9, gap=0.1, seed=1)
    errors = {
        group: np.mean([r["hamming"] for r in rows if r.get("hamming") and r["group"] == group])
        for group in ("member", "control")
    }
    assert errors["member"] < errors["control"] - 0.05
    found = make_findings(rows, level=0.05, blind=MATCHED)
    assert found.trained_on.word == "trained on" and found.reproduces.word == "no evidence"
    assert found.reproduces.p_value == 1.0 and "80 % power" in found.reproduces.reason


def test_few_copies_are_no_finding_whatever_their_p_value():
    """Below the floor of documents nothing is said, also where chance alone would not do it."""
    rows = make_rows(0.0, size=40, budgets=(1,))
    hits = [r for r in rows if r["generator"] == "soft" and r["group"] == "protected"]
    for row in hits[: FLOOR - 1]:
        row |= {"hamming": 0.0, "exact": True}
    found = make_findings(rows, level=0.9, blind=MATCHED)
    assert found.reproduces.p_value <= 0.9 and found.reproduces.word == "no evidence"
    assert "fewer than 3" in found.reproduces.reason


def test_a_prompt_that_can_hold_the_text_carries_nothing():
    """A long prompt writes controls too: then what it writes of members is no evidence."""
    rows = make_rows(0.9, budgets=(1,))
    control = next(r for r in rows if r["generator"] == "soft" and r["group"] == "control")
    control |= {"hamming": 0.0}
    assert judge(rows) == ("trained on", "cannot tell")
    for row in rows:
        row["item_bits"] = 1e6  # the prompt has 2048 bits: it cannot hold such an item
    assert judge(rows) == ("trained on", "reproduces")


@pytest.mark.parametrize(
    ("row", "near"),
    [
        ({"edit": 0.1, "hamming": 0.9}, True),  # one token left out shifts all places
        ({"edit": 0.11, "hamming": 0.05}, False),
        ({"squared_error": 0.01, "edit": 0.9}, True),
        ({"squared_error": 0.011, "edit": 0.0}, False),
        ({"hamming": 0.05}, True),
    ],
)
def test_near_verbatim_is_a_tenth(row, near):
    assert is_near(row) is near


def test_reasons_have_words_and_no_identifiers():
    nulls = {"shuffled_targets": make_rows(0.5), "overlap_zero": make_rows(0.5)}
    found = make_findings(make_rows(0.5), level=0.05, blind=MATCHED, nulls=nulls)
    for side in (found.trained_on, found.reproduces):
        assert side.word == "cannot tell" and "_" not in side.reason
        assert "shuffled texts: p = " in side.reason
        assert "model without the protected set: p = " in side.reason
    assert "_" not in make_findings(make_rows(0.5), level=0.05, blind=MATCHED).trained_on.reason


def test_controls_of_another_kind_stop_both_findings():
    texts = (["a b c d " * 5] * 20, ["x y z w " * 5] * 20)
    blind = separate_blindly(*texts)
    found = make_findings(make_rows(0.5, size=20), level=0.05, blind=blind)
    for side in (found.trained_on, found.reproduces):
        assert side.word == "cannot tell" and side.reason.startswith("matched control")
    assert found.blind_auc == pytest.approx(1)


def test_controls_that_repeat_protected_texts_stop_both_findings():
    """Jaccard by hand: 6 shingles of ten words, 6 of the same with one word changed at an end."""
    text = "one two three four five six seven eight nine ten"
    other = text.replace("ten", "eleven")
    pairs = near_duplicates({"a": text, "b": "another text entirely"}, {"c": other})
    assert pairs == [("a", "c", pytest.approx(5 / 7))]
    condition = check_duplicates(pairs)
    assert condition.held is False and "'a'" in condition.told and "'c'" in condition.told
    assert judge(make_rows(0.5), more=[condition]) == ("cannot tell", "cannot tell")
    assert not near_duplicates(*({str(k): t for k, t in enumerate(s)} for s in make_texts()))


def test_a_model_that_answers_nothing_is_told_as_such():
    rows = make_rows(0.5)
    for row in rows:
        row["output"] = " "
    (condition,) = check_answers(rows)
    assert condition.held is False and "100 % of answers are empty" in condition.told
    assert judge(rows) == ("trained on", "cannot tell")


def test_no_overlap_gives_no_evidence():
    """The level holds for both findings: at most 5 of 40 seeds at 5 % (chance 0.014 for more)."""
    false = sum(
        make_findings(make_rows(0.0, seed=seed), level=0.05, blind=MATCHED).found
        for seed in range(40)
    )
    assert false <= 5


def test_each_finding_can_be_without_questions():
    """Likelihood alone tests membership; text alone, reproduction."""
    assert judge(make_rows(0.5, budgets=())) == ("trained on", "cannot tell")
    text = [row for row in make_rows(0.5) if row["generator"] != "likelihood"]
    assert judge(text) == ("cannot tell", "reproduces")
    blind = [row | ({"nll": np.nan, "min_k": np.nan} if not row["budget"] else {})
             for row in make_rows(0.5)]  # fmt: skip
    assert judge(blind) == ("cannot tell", "reproduces")


@pytest.mark.parametrize(
    ("rows", "first"),
    [
        (make_rows(0.5), "The model was trained on protected texts"),
        (make_rows(0.9, gap=0.1), "The model was trained on protected texts"),
        (make_rows(0.0), "No evidence that the model was trained on"),
        (make_rows(0.5, budgets=()), "The model was trained on"),
    ],
)
@pytest.mark.parametrize("stopped", [False, True])
def test_the_first_sixty_words_say_what_and_what_not(rows, first, stopped):
    blind = Blind(Interval(0.8, 0.9, 1.0)) if stopped else MATCHED
    facts = make_findings(rows, level=0.05, blind=blind).to_dict() | {"planned": None}
    words = " ".join(quote(facts).split()[:60])
    assert words.startswith("Whether the model was trained on" if stopped else first)
    assert "reproduces" in words
    meant = ("This does not", "This is no finding")
    assert any(words[words.find(m) :].count(".") >= 1 for m in meant if m in words)
    text = quote(facts)
    assert "_" not in text and "not planned beforehand" in text
    if facts["trained_on"]["finding"] == "no evidence":
        area = facts["power"]["auc"]
        assert f"A familiarity in {100 * area:.0f} % of pairs would be found" in text


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
    size = check_size(questions(rows), "trained on", 0.05, 9999)
    assert size.held is False and "bring more documents" in size.told


def test_questions_come_in_two_families():
    asked = questions(make_rows(budgets=(8, 2)))
    assert [one.name for one in asked] == ["nll", "min_k", "soft 2", "soft 8"]
    assert [one.family for one in asked] == 2 * ["trained on"] + 2 * ["reproduces"]


def test_nulls_that_show_something_stop_the_findings():
    found = {
        one.name: one for one in check_nulls({"random_weights": 0.002, "permuted_labels": 0.4})
    }
    assert (
        found["random_weights"].held is False
        and "there can be nothing" in found["random_weights"].told
    )
    assert found["permuted_labels"].held and found["overlap_zero"].held is None
    small = (np.random.default_rng(0).uniform(size=200) ** 2).tolist()
    assert check_calibration("name", small).held is False
    assert check_calibration("name", [1.0] * 200).held  # ties, too large: safe
    assert check_calibration("name", []).held is None


def test_items_are_ranked_with_their_rates():
    rows = make_rows(0.5)
    ranked = rank_items(rows, questions(rows)[2])
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
