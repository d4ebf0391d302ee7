"""Traps: made of the corpus' characters, found nowhere, put in by chance."""

import itertools
import json
import math

import numpy as np
import pytest
from scipy import stats

from metastable.audit import canaries
from metastable.audit.canaries import exposure, insert_traps, make_traps, rank_p, write_trapped
from metastable.audit.corpus import Corpus, Document, read_corpus

TEXTS = [
    "fellow citizens of the senate and of the house of representatives",
    "the state of the union is strong because our people are strong",
    "peace at home and abroad has been the policy of this government",
]


def test_traps_are_new_texts_of_old_characters():
    traps = make_traps(TEXTS, inserted=5, references=100, length=30, seed=1)
    both = [*traps.inserted, *traps.references]
    assert len(set(both)) == 105 and {len(trap) for trap in both} == {30}
    assert not any(trap in text for trap in both for text in TEXTS)
    assert set("".join(both)) <= set("".join(TEXTS))
    assert make_traps(TEXTS, inserted=5, references=100, length=30, seed=1) == traps
    assert make_traps(TEXTS, inserted=5, references=100, length=30, seed=2) != traps


def test_chance_says_which_are_put_in():
    """The number of letters e of inserted traps and of references follow one law."""
    count = lambda traps: [trap.count("e") for trap in traps]
    traps = make_traps(TEXTS, inserted=300, references=300, length=30)
    assert stats.mannwhitneyu(count(traps.inserted), count(traps.references)).pvalue > 0.001


def test_insertion_keeps_all_words_and_counts_repeats():
    traps = ["xx yy", "zz"]
    new, where = insert_traps(TEXTS, traps, times=7, seed=3)
    for trap, own in zip(traps, where, strict=True):
        assert sum(text.count(trap) for text in new) == len(own) == 7
        assert all(trap in new[k] for k in own)
    for old, text in zip(TEXTS, new, strict=True):
        for trap in traps:
            text = text.replace(trap, "")
        assert text.split() == old.split()


def test_exposure_of_an_unseen_trap_averages_log2_e():
    """Ranks are uniform on 1 … n; the mean of log₂ n − log₂ rank is (n log₂ n − log₂ n!)/n."""
    n = 400
    others = np.arange(n - 1.0)
    found = [exposure(k - 0.5, others) for k in range(n)]
    expected = (n * math.log2(n) - math.lgamma(n + 1) / math.log(2)) / n
    assert np.mean(found) == pytest.approx(expected, rel=1e-9)
    assert expected == pytest.approx(math.log2(math.e), abs=0.02)
    assert found[0] == math.log2(n) and found[-1] == 0
    assert rank_p(-1.0, others) == 1 / n and rank_p(5.0, others) == 7 / n


def test_a_trapped_corpus_can_be_read_again(tmp_path):
    corpus = Corpus.of(Document(f"d{k}", text) for k, text in enumerate(TEXTS))
    told = write_trapped(corpus, tmp_path / "new", inserted=2, references=20, length=20, times=3)
    secret = json.loads((tmp_path / "new" / "canaries.json").read_text())
    again = read_corpus("jsonl", str(tmp_path / "new" / "corpus.jsonl"))
    texts = {document.name: document.text for document in again.documents}
    for trap in secret["inserted"]:
        # Runs of white space become one when a corpus is read.
        words = " ".join(trap["text"].split())
        assert len(trap["documents"]) == 3 and all(words in texts[d] for d in trap["documents"])
    assert told["documents"] == 3 and len(secret["references"]) == 20
    with pytest.raises(ValueError, match="new or empty folder"):
        write_trapped(corpus, tmp_path / "new")


@pytest.mark.parametrize("length", [3, 4, 7])
def test_possible_traps_are_counted(length):
    """Against all texts of the length over the alphabet whose every pair and next may follow."""
    texts = ["abcab", "acb b", "ba"]
    follow: dict[str, list[str]] = {}
    for text in texts:
        for k in range(len(text) - 2):
            follow.setdefault(text[k : k + 2], []).append(text[k + 2])
    starts = [pair for pair in follow if pair[0] != " "]
    every = {pair[0] for pair in starts}
    fits = lambda text: (
        text[:2] in starts
        and all(text[k + 2] in follow.get(text[k : k + 2], every) for k in range(len(text) - 2))
    )
    wanted = sum(fits("".join(letters)) for letters in itertools.product("abc ", repeat=length))
    assert canaries._count_traps(follow, starts, length, 10**9) == wanted
    assert canaries._count_traps(follow, starts, length, 2) == 2


def test_a_chain_without_choice_makes_one_trap_of_any_length():
    with pytest.raises(ValueError, match="at most the 2 traps that 10000000 characters"):
        make_traps(["ababa"], inserted=2, references=2, length=10**7)


@pytest.mark.parametrize("huge", [10**9, 2**63, 10**400])
@pytest.mark.parametrize("name", ["inserted", "references", "length", "times"])
def test_absurd_counts_are_refused_at_once(tmp_path, name, huge):
    corpus = Corpus.of(Document(f"d{k}", text) for k, text in enumerate(TEXTS))
    with pytest.raises(ValueError, match=r"must (be|add) at most 1e\+08 characters") as refused:
        write_trapped(corpus, tmp_path / "new", **{name: huge})
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 200
    assert not (tmp_path / "new").exists()


def test_bad_input_is_refused(tmp_path):
    with pytest.raises(ValueError, match="make them longer, or fewer"):
        make_traps(["aaab"], inserted=5, references=5, length=3)
    with pytest.raises(ValueError, match="more than 2 characters"):
        make_traps(["a"], inserted=1)
    image = Corpus.of([Document("i", "0123")], levels=4)
    with pytest.raises(ValueError, match="got images"):
        write_trapped(image, tmp_path / "x")
