"""Who is dealt where: counts, documents as units, no shared n-grams, and what is refused."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metastable.audit.corpus import Corpus, Document
from metastable.audit.split import deal, ngrams


def corpus(documents=40, length=200, seed=0, start=""):
    random = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    return Corpus.of(
        Document(f"{start}{k}", "".join(random.choice(letters, length))) for k in range(documents)
    )


@settings(max_examples=25, deadline=None)
@given(
    overlap=st.floats(0.1, 1.0),
    per_document=st.integers(1, 3),
    lead=st.sampled_from([0, 5]),
    seed=st.integers(0, 100),
)
def test_a_deal_is_what_it_says(overlap, per_document, lead, seed):
    split = deal(
        corpus(),
        items=12,
        controls=12,
        background=20,
        length=20,
        lead=lead,
        per_document=per_document,
        overlap=overlap,
        ngram=10,
        seed=seed,
    )
    groups = {name: split.group(name) for name in ("member", "protected", "control")}
    documents = {name: {i.document for i in own} for name, own in groups.items()}
    assert len(groups["member"] + groups["protected"]) == len(groups["control"]) == 12
    held = 12 // per_document
    assert len(documents["member"]) == round(overlap * held)
    assert all(a.isdisjoint(b) for a, b in itertools.combinations(documents.values(), 2))
    assert len(split.background) == 20
    assert len(split.training) == 20 + len(groups["member"])
    # No control shares 10 characters in a row with anything M is trained on.
    seen = set().union(*(ngrams(before + text, 10) for before, text in split.training))
    assert all(ngrams(i.text, 10).isdisjoint(seen) for i in groups["control"] + groups["protected"])


def test_overlap_changes_membership_and_nothing_else():
    low, high = (
        deal(corpus(), items=10, controls=10, background=10, length=20, overlap=o, ngram=10)
        for o in (0.2, 0.8)
    )
    assert [i.name for i in low.items] == [i.name for i in high.items]
    assert low.background == high.background
    assert {i.name for i in low.group("member")} < {i.name for i in high.group("member")}


def test_seeds_deal_differently_and_repeat():
    told = [
        deal(corpus(), items=8, controls=8, background=8, length=20, seed=s).to_dict()
        for s in (1, 1, 2)
    ]
    assert told[0] == told[1] != told[2]


def test_protected_and_control_are_dealt_by_one_law():
    """Each document is as often control as protected: 400 deals of 8 and 8 of 40."""
    whole = corpus(40, 40)
    counts = {"protected": 0, "control": 0}
    for seed in range(400):
        split = deal(
            whole, items=8, controls=8, background=1, length=20, overlap=0, ngram=10, seed=seed
        )
        for name in counts:
            counts[name] += any(i.document == "0" for i in split.group(name))
    # Binomial(400, 1/5): mean 80, deviation 8.
    assert all(abs(count - 80) < 4 * 8 for count in counts.values())


def test_an_unknown_training_set_has_no_members_and_no_background():
    split = deal(corpus(), items=10, controls=10, length=20, known=False)
    assert not split.group("member") and not split.background
    assert split.to_dict()["overlap"] is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"items": 0}, "items must be an integer >= 1"),
        ({"controls": 0}, "Empty sets"),
        ({"overlap": 1.5}, "overlap must lie in [0, 1]"),
        ({"overlap": 0.01}, "rounds to none"),
        ({"items": 50}, "ask for fewer items"),
        ({"background": 999}, "bring more documents"),
        ({"background": 0}, "trained on"),
        ({"control": corpus()}, "must not overlap"),
    ],
)
def test_refusals_name_a_remedy(change, words):
    told = {"items": 10, "controls": 10, "background": 10, "length": 20} | change
    with pytest.raises(ValueError) as refusal:
        deal(corpus(), **told)
    assert words in str(refusal.value)


def test_a_control_that_quotes_the_corpus_is_refused():
    whole = corpus()
    quoted = Document("quoted", "x" + whole.documents[3].text[:150] + "end")
    control = Corpus.of([*corpus(20, seed=1, start="c").documents, quoted])
    with pytest.raises(ValueError, match=r"found in training.*'quoted'"):
        deal(whole, items=10, controls=10, background=10, length=20, ngram=10, control=control)
