"""Canaries in pairs: equal make, fair coins, a commitment, and an exact test."""

import hashlib
import itertools
import json
import re
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from metastable.audit.canaries import (
    canary_items,
    make_pairs,
    publish,
    read_canaries,
    read_pairs,
    write_canaries,
)
from metastable.audit.corpus import Corpus, Document, read_corpus
from metastable.audit.pairs import EXACT, redraw_sums, sign_flip_p
from tests.audit.small import WORDS, write_texts
from tests.audit.test_cli_audit import ask, write_gpt2

RANDOM = np.random.default_rng(5)
TEXTS = [". ".join(" ".join(RANDOM.choice(WORDS, 8)) for _ in range(5)) + "." for _ in range(12)]


def corpus_of(texts):
    return Corpus.of(Document(f"d{k}", text) for k, text in enumerate(texts))


@pytest.mark.parametrize("order", [0, 1])
def test_pairs_are_of_equal_make(order):
    """Length in characters is equal; log p by counts written out slowly differs by little."""
    pairs = make_pairs(TEXTS, pairs=10, words=5, order=order, seed=1)
    both = [text for pair in pairs for text in pair]
    assert len(set(both)) == 20 and {len(text.split()) for text in both} == {5}
    assert not any(text in whole for text in both for whole in TEXTS)
    assert all(len(a) == len(b) for a, b in pairs)
    words = [text.split() for text in TEXTS]
    alone = Counter(w for text in words for w in text)
    follow = Counter((v, w) for text in words for v, w in itertools.pairwise(text))

    def log_p(text):
        own = text.split()
        p = [alone[own[0]] / alone.total()]
        for v, w in itertools.pairwise(own):
            p.append((alone[w] / alone.total() + follow[v, w] / alone[v]) / 2)
        return float(np.log(p).sum())

    gaps = [abs(log_p(a) - log_p(b)) for a, b in pairs]
    assert max(gaps) < 0.1 * np.std([log_p(text) for text in both])
    assert make_pairs(TEXTS, pairs=10, words=5, order=order, seed=1) == pairs


def test_coins_are_fair_and_know_nothing_of_the_texts():
    """Of 400 coins as many fall on either side as a binomial allows; so with the longer version."""
    pairs = [(f"left {k}", f"right side {k}") for k in range(400)]
    coins = [record["coin"] for record in publish(TEXTS, pairs, seed=2)[1]]
    assert stats.binomtest(sum(coins), 400).pvalue > 0.001


def test_published_versions_stand_in_the_text_and_nothing_is_lost():
    pairs = make_pairs(TEXTS, pairs=6, words=4, seed=3)
    new, records = publish(TEXTS, pairs, times=3, seed=3)
    for record in records:
        published, kept = (record["ab"[record["coin"] ^ other]] for other in (0, 1))
        assert sum(text.count(published) for text in new) == 3
        assert not any(kept in text for text in new)
        for k, text in enumerate(new):
            new[k] = " ".join(text.replace(published, " ").split())
    assert new == TEXTS
    new, (record,) = publish(TEXTS, pairs[:1], seed=4)
    (item, other) = canary_items({"pairs": [record]})
    assert item.text in new[record["documents"][0]] and item.group == "protected"
    assert other.text == item.text.replace(*(record["ab"[record["coin"] ^ k]] for k in (0, 1)))


def test_own_sentences_are_replaced_where_they_stand(tmp_path):
    first = TEXTS[4].split(". ")[2]
    file = tmp_path / "pairs.jsonl"
    file.write_text(json.dumps({"a": first, "b": "said otherwise"}) + "\n\n")
    pairs = read_pairs(file)
    new, (record,) = publish(TEXTS, pairs, seed=0)
    published = record["ab"[record["coin"]]]
    assert new[4] == TEXTS[4].replace(first, published) and new[5:] == TEXTS[5:]
    assert record["documents"] == [4] and record["times"] == 1
    for bad in ("{}", '{"a": "x", "b": "x"}', "[1]", "nothing", ""):
        file.write_text(bad)
        with pytest.raises(ValueError, match=r"must hold .*(mend it|one a line)"):
            read_pairs(file)
    with pytest.raises(ValueError, match="must not stand within each other"):
        publish(TEXTS, [(first, "x y"), (first[:9], "u v")], seed=0)


def test_the_commitment_is_a_hash_of_the_secret_and_nothing_else_fits(tmp_path):
    corpus = corpus_of(TEXTS)
    public = write_canaries(corpus, tmp_path / "new", pairs=5, words=4, times=2)
    secret = json.loads((tmp_path / "new" / "canaries.json").read_text())
    text = json.dumps(secret, sort_keys=True)
    assert public["commitment"] == hashlib.sha256(text.encode()).hexdigest()
    assert public["share"] == pytest.approx(5 * 2 * 4 / public["words"])
    shown = (tmp_path / "new" / "commitment.json").read_text()
    assert not any(pair[side] in shown for pair in secret["pairs"] for side in "ab")
    assert secret["nonce"] not in shown
    again = read_corpus("jsonl", str(tmp_path / "new" / "corpus.jsonl"))
    assert len(again.documents) == len(TEXTS)
    assert read_canaries(tmp_path / "new") == (secret, public)
    other = write_canaries(corpus, tmp_path / "other", pairs=5, words=4)
    assert other["commitment"] != public["commitment"]
    secret["pairs"][0]["coin"] ^= 1
    (tmp_path / "new" / "canaries.json").write_text(json.dumps(secret))
    with pytest.raises(ValueError, match=r"must be what commitment\.json commits to"):
        read_canaries(tmp_path / "new")
    with pytest.raises(ValueError, match="new or empty folder"):
        write_canaries(corpus, tmp_path / "new")


@pytest.mark.parametrize("count", [1, 2, 7, 12])
def test_sign_flips_are_counted_one_by_one(count):
    """Against all 2^K outcomes of the coins, ties among them."""
    random = np.random.default_rng(count)
    for d in (random.normal(0.3, 1, count), random.integers(-2, 3, count).astype(float)):
        sums = [np.dot(signs, d) for signs in itertools.product((-1, 1), repeat=count)]
        assert sign_flip_p(d) == np.mean(np.array(sums) >= d.sum() - 1e-9)


def test_many_pairs_agree_with_scipy():
    """Beyond exact counting: (b + 1)/(B + 1), against SciPy's paired permutation test."""
    d = np.random.default_rng(3).normal(0.2, 1, EXACT + 10)
    settings = {"permutation_type": "samples", "alternative": "greater", "n_resamples": 20_000}
    expected = stats.permutation_test((d, 0 * d), lambda x, y: np.sum(x - y), **settings, rng=1)
    p = sign_flip_p(d, draws=20_000)
    assert abs(p - expected.pvalue) < 4 * np.sqrt(2 * p * (1 - p) / 20_000)


def test_p_values_are_uniform_when_coins_are_thrown_again():
    """P[p ≤ a] ≤ a, with equality at multiples of 2^−K: every one of the 2^K outcomes once."""
    d = np.random.default_rng(1).standard_t(2, 9)
    signs = itertools.product((-1, 1), repeat=9)
    p = sorted(sign_flip_p(np.array(s) * d) for s in signs)
    assert p == [k / 2**9 for k in range(1, 2**9 + 1)]
    share = np.mean(redraw_sums(d, 4000, seed=1) >= np.abs(d).sum() / 2)
    exact = np.mean(
        [np.dot(s, d) >= np.abs(d).sum() / 2 for s in itertools.product((-1, 1), repeat=9)]
    )
    assert abs(share - exact) < 4 * np.sqrt(exact / 4000)


@pytest.mark.parametrize("huge", [10**9, 2**63, 10**400])
@pytest.mark.parametrize("name", ["pairs", "words", "times"])
def test_absurd_counts_are_refused_at_once(tmp_path, name, huge):
    with pytest.raises(ValueError, match=r"must (be|add) at most") as refused:
        write_canaries(corpus_of(TEXTS), tmp_path / "new", **{name: huge})
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 200
    assert not (tmp_path / "new").exists()


def test_bad_input_is_refused(tmp_path):
    with pytest.raises(ValueError, match="ask for fewer or longer ones"):
        make_pairs(["ab ab ab ab"], pairs=2, words=2)
    with pytest.raises(ValueError, match="bring more text"):
        make_pairs(["A"], pairs=1)
    image = Corpus.of([Document("i", "0123")], levels=4)
    with pytest.raises(ValueError, match="got images"):
        write_canaries(image, tmp_path / "x")


def test_a_model_that_read_the_published_versions_is_found_and_another_is_not(tmp_path):
    """GPT-2 of two layers: trained on published versions, then on neither of the two."""
    texts = write_texts(tmp_path / "texts", documents=12, words=40)
    made = ask(
        *("canaries", texts, "--out", tmp_path / "kept", "--pairs", 10, "--words", 4),
        *("--seed", 1, "--json"),
    )
    assert made.exit_code == 0, made.exception
    commitment = json.loads(made.stdout)["commitment"]
    items = canary_items(read_canaries(tmp_path / "kept")[0])
    length = min(len(item.text) for item in items)
    published = [item.text[-length:] for item in items if item.group == "protected"]
    write_gpt2(tmp_path / "trained", published, places=length + 60)
    write_gpt2(tmp_path / "blank", published, places=length + 60, steps=0)
    found = {}
    for name in ("trained", "blank"):
        done = ask(
            *("reveal", tmp_path / "kept", "--model", tmp_path / name),
            *("--out", tmp_path / f"{name} found", "--json"),
        )
        assert done.exit_code == 0, done.exception
        found[name] = json.loads(done.stdout)
        verified = ask("verify", tmp_path / f"{name} found", "--json")
        assert verified.exit_code == 0, verified.stdout
    told = found["trained"]
    assert told["trained_on"]["finding"] == "trained on" and told["pairs"] == 10
    (question,) = told["trained_on"]["questions"]
    assert question["p_value"] == 2**-10  # all ten published versions are the likelier ones
    assert found["blank"]["trained_on"]["finding"] == "no evidence"
    assert told["planned"]["commitment"] == commitment
    row = told["verdicts"]["rows"][0]
    assert row["claim"] == "published versions are no likelier to M than those kept back"
    page = (tmp_path / "trained found" / "report.html").read_text()
    assert commitment[:16] in page and re.search(r"10 canaries were compared", page)
    _forge_coin(tmp_path / "trained found")


def _forge_coin(folder):
    """A secret whose coins were changed afterwards no longer fits what was deposited."""
    secret = json.loads((folder / "canaries.json").read_text())
    secret["pairs"][0]["coin"] ^= 1
    (folder / "canaries.json").write_text(json.dumps(secret))
    refused = ask("verify", folder, "--json")
    assert refused.exit_code == 1
    told = " ".join(check["told"] for check in json.loads(refused.stdout)["checks"])
    assert "must be what commitment.json commits to" in told
