"""What is no evidence: runs that stand elsewhere, passages that others write too."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from metastable.audit.evidence import comes_out, questions, set_aside
from metastable.audit.novelty import RUN, NGram, describe_known, mark_known, shared_places
from metastable.audit.split import Item
from metastable.audit.suffixes import Index, code_points, run_classes, suffix_array
from tests.audit.rows import WORDS, make_rows


def draw(random, alphabet, size):
    return "".join(random.choice(list(alphabet), size))


@pytest.mark.parametrize("alphabet", ["a", "ab", "abcdefgh", "ä€😀z"])
def test_suffix_arrays_and_runs_equal_brute_force(alphabet):
    random = np.random.default_rng(0)
    for size in (1, 2, 7, 120):
        text = draw(random, alphabet, size)
        codes = code_points(text)
        assert suffix_array(codes).tolist() == sorted(range(size), key=lambda k: text[k:])
        for length in (1, 2, 3, 5, 8):
            runs = [text[k : k + length] for k in range(size - length + 1)]
            classes = run_classes(codes, length)
            assert len(classes) == max(len(runs), 0)
            pairs = {(a, b) for a, b in zip(runs, classes.tolist(), strict=True)}
            assert len(pairs) == len(set(runs)) == len(set(classes.tolist()))
    assert suffix_array([]).tolist() == []


def test_an_index_finds_every_place_and_the_longest_runs():
    random = np.random.default_rng(1)
    texts = [draw(random, "ab", 60) for _ in range(3)]
    index = Index(texts)
    for pattern in ("a", "ba", "abba", "bbbbbbbbbbbb"):
        places = [k for k in range(len(index.text)) if index.text.startswith(pattern, k)]
        assert index.positions(pattern).tolist() == places
    sample = "x" + texts[1][10:40] + "yy" + texts[0][5:12]
    (start, place, length), (second, _, last) = index.matches(sample, 7)
    assert index.text[place : place + length] == sample[start : start + length]
    assert (start, second, last) == (1, 33, 7) and length >= 30


def brute_force_next(texts, context, order, without):
    """Counts of all n-grams, longest context first, of ties the smallest id."""
    for size in range(min(len(context), order - 1), -1, -1):
        tail = list(context[len(context) - size :])
        counts = Counter(
            ids[k + size]
            for work, ids in texts
            if work != without
            for k in range(len(ids) - size)
            if list(ids[k : k + size]) == tail
        )
        if counts:
            return min(counts, key=lambda x: (-counts[x], x))
    return None


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_the_n_gram_model_equals_brute_force_counts(order):
    random = np.random.default_rng(order)
    texts = [(f"w{k // 2}", random.integers(0, 4, 30).tolist()) for k in range(6)]
    model = NGram(texts, order)
    for without in (None, "w1"):
        for _ in range(10):
            prompt = random.integers(0, 5, 6).tolist()
            written = list(prompt)
            for _ in range(8):
                written.append(brute_force_next(texts, written, order, without))
            assert model.write(prompt, 8, without) == written[6:]
    assert NGram([("a", [1, 2])], order).write([1], 3, without="a") == []


def test_shared_places_equal_brute_force():
    """A character is shared if a run of 40 over it stands in another work of the pool."""
    random = np.random.default_rng(3)
    stock = draw(random, "abcdefghij", 55)
    texts = [
        ("p", draw(random, "abc ", 30) + stock + draw(random, "abc ", 30)),
        ("p", stock[: RUN - 1]),  # one too short
        ("c1", stock + draw(random, "abc ", 20)),
        ("c3", ""),
    ]
    pool = [("c1", stock + "?"), ("c2", stock[5:50] + "!"), ("c1", stock + ".")]
    for (work, text), mask in zip(texts, shared_places(texts, pool), strict=True):
        expected = np.zeros(len(text), bool)
        for k in range(len(text) - RUN + 1):
            if any(text[k : k + RUN] in other for own, other in pool if own != work):
                expected[k : k + RUN] = True
        assert mask.tolist() == expected.tolist()
    assert [mask.any() for mask in shared_places(texts, pool)] == [True, False, True, False]


def make_case(texts, **config):
    """Documents by set and name, each one item from its beginning."""
    items = [
        Item(f"{name}:0", name, "control" if side == "control" else "protected", text[:60])
        for (side, name), text in texts.items()
    ]
    group = lambda *names: [item for item in items if item.group in names]
    settings = SimpleNamespace(control=True, corpus=SimpleNamespace(kind="text"), **config)
    return SimpleNamespace(
        corpus=SimpleNamespace(levels=None),
        config=settings,
        documents=texts,
        split=SimpleNamespace(items=items, group=group),
    )


def written(case):
    """Rows of an M that writes every passage."""
    return [
        {"item": i.name, "document": i.document, "group": i.group, "generator": "prefix"}
        | {"budget": 16, "prompt": i.text[:16], "target": i.text[16:], "output": i.text[16:]}
        | {"edit": 0.0, "exact": True, "bits": 100.0, "item_bits": 300.0}
        for i in case.split.items
    ]


def test_boilerplate_is_set_aside_on_both_sides_and_what_only_m_knows_is_not():
    random = np.random.default_rng(5)
    sentence = lambda: " ".join(random.choice(WORDS, 20))
    stock = sentence()
    own = {("corpus", f"p{k}"): stock + f" {sentence()}" for k in range(4)}
    own |= {("corpus", f"only{k}"): sentence() for k in range(4)}
    own |= {("control", f"c{k}"): stock + f" {sentence()}" for k in range(4)}
    own |= {("control", f"other{k}"): sentence() for k in range(4)}
    case = make_case(own)
    rows = mark_known(written(case), case, None, {})
    aside = {row["document"] for row in rows if set_aside(row)}
    assert aside == {name for _, name in own if name[0] in "pc"}
    (question,) = questions(rows)
    assert question.protected.tolist() == question.control.tolist() == [0] * 4 + [1] * 4
    counts = {"passages": 4, "came_out": 4}
    assert describe_known(rows) == {"set_aside": {"protected": counts, "control": counts}}


def test_a_passage_in_its_own_document_alone_is_not_set_aside():
    """A document's own text is left out: else every passage would be set aside."""
    random = np.random.default_rng(6)
    texts = [" ".join(random.choice(WORDS, 20)) for _ in range(3)]
    own = {("corpus", "p"): texts[0], ("control", "a"): texts[1], ("control", "b"): texts[2]}
    case = make_case(own)
    assert not any(set_aside(row) for row in mark_known(written(case), case, None, {}))
    case = make_case(own | {("public", "edition"): "x" + texts[0] + texts[1]})
    case.split.items[:] = case.split.items[:3]
    rows = mark_known(written(case), case, None, {})
    assert [bool(set_aside(row)) for row in rows] == [True, True, False]


def test_what_another_writer_writes_too_is_set_aside(memorised):
    """M as the other writer: a passage it knows by heart is no evidence then."""
    split, fitted = memorised
    item = split.group("member")[0]
    texts = {("corpus", item.document): item.before + item.text}
    texts |= {("control", f"c{k}"): "xylem quartz " * 9 + str(k) for k in range(2)}
    case = make_case(texts)
    start = len(item.before)
    case.split.items[:] = [Item(f"{item.document}:{start}", item.document, "member", item.text)]
    row = written(case)[0] | {"prompt": item.text[:6], "target": item.text[6:]}
    (alone,) = mark_known([row], case, None, {})
    assert comes_out(alone) and "also" not in alone
    (known,) = mark_known([row], case, None, {"a reference model": fitted.target})
    assert set_aside(known) == "also written by a reference model" and not comes_out(known)
    (missed,) = mark_known([row | {"edit": 0.5}], case, None, {"M": fitted.target})
    assert "also" not in missed  # nothing came out, so that no one else is asked


def test_rows_without_the_columns_are_judged_as_before():
    rows = make_rows()
    assert describe_known(rows) == {}
    assert not any(set_aside(row) for row in rows)


def test_the_rule_does_not_know_the_sets():
    """Documents dealt anew: the same ones are set aside, so that relabelling stays exact."""
    random = np.random.default_rng(7)
    phrases = [draw(random, "abcdefghij", 60) for _ in range(12)]
    stock = [phrases[k // 2] if k < 24 else draw(random, "klmnop", 60) for k in range(40)]
    for _ in range(5):
        order = random.permutation(40).tolist()
        sides = {document: "corpus" if k < 20 else "control" for k, document in enumerate(order)}
        case = make_case({(side, f"d{k}"): stock[k] for k, side in sides.items()})
        rows = mark_known(written(case), case, None, {})
        aside = {row["document"] for row in rows if set_aside(row)}
        assert aside == {f"d{k}" for k in range(24)}
