"""Bad input of an audit: refused in one line with a remedy, or named as a failed condition."""

import json

import pytest

from metastable.audit.alphabet import Tokens
from metastable.audit.audit import run_audit
from metastable.audit.case import prepare
from metastable.audit.corpus import read_corpus
from metastable.audit.spec import AuditConfig
from tests.audit.small import write_config, write_texts
from tests.audit.test_cli_audit import ask
from tests.audit.test_sets import write_two


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("novel.pdf", b"%PDF-1.7", "pdftotext novel.pdf"),
        ("novel.docx", b"PK", "pandoc novel.docx -t plain"),
        ("novel.DOC", b"x", "soffice --headless --convert-to txt novel.DOC"),
        ("page.html", b"<p>", "pandoc page.html"),
        ("latin.txt", "Größe".encode("latin1"), "iconv -f latin1 -t utf-8 latin.txt"),
        ("binary.txt", b"a\0b", "null bytes"),
    ],
)
def test_files_that_are_no_plain_text_are_refused_with_a_way_out(tmp_path, name, content, words):
    write_texts(tmp_path / "texts", documents=3)
    (tmp_path / "texts" / name).write_bytes(content)
    for place in (tmp_path / "texts", tmp_path / "texts" / name):
        with pytest.raises(ValueError) as refused:
            read_corpus("text", str(place))
        assert words in str(refused.value) and "\n" not in str(refused.value)


def test_tiny_documents_are_refused(tmp_path):
    config = write_config(tmp_path, steps=2)
    for k in range(64):
        (tmp_path / "texts" / f"text{k:03}.txt").write_text(f"doc {k}")
    with pytest.raises(ValueError, match="at least 8 characters"):
        prepare(AuditConfig.load(config))


def test_a_tokeniser_of_another_model_is_refused():
    class Words:
        bos_token_id = eos_token_id = 0

        def encode(self, text, add_special_tokens):
            return [ord(c) for c in text]

        def decode(self, ids, clean_up_tokenization_spaces):
            return "".join(map(chr, ids))

    assert Tokens(Words(), 128).round_trip("amber") == [97, 109, 98, 101, 114]
    with pytest.raises(ValueError, match="must belong to the model; it gives id 114"):
        Tokens(Words(), 110).round_trip("amber")


def test_a_control_that_repeats_protected_texts_is_named(tmp_path):
    """Halves of protected texts, exchanged; so long an n-gram that passages are not compared."""
    write_two(tmp_path)
    for k in range(60):
        words = (tmp_path / "texts" / f"text{k:03}.txt").read_text().split()
        (tmp_path / "held_back" / f"text{k:03}.txt").write_text(" ".join(words[12:] + words[:12]))
    file = tmp_path / "config.toml"
    file.write_text(file.read_text().replace("ngram = 12", "ngram = 60"))
    facts = run_audit(AuditConfig.load(file), tmp_path / "run").facts
    for finding in (facts["trained_on"], facts["reproduces"]):
        assert finding["finding"] == "cannot tell"
        assert "near-duplicates across sets: " in finding["reason"]
    assert ask("verify", tmp_path / "run").exit_code == 0


def test_an_untrained_model_gives_neither_finding(tmp_path):
    config = AuditConfig.load(write_config(tmp_path, steps=1))
    facts = run_audit(config, tmp_path / "run").facts
    assert facts["trained_on"]["finding"] == facts["reproduces"]["finding"] == "no evidence"
    assert "80 % power to see area" in facts["trained_on"]["reason"]
    assert facts["quote"].startswith("No evidence that the model was trained on")


def test_dates_and_notes_of_a_control_are_recorded(tmp_path):
    write_two(tmp_path)
    file = tmp_path / "config.toml"
    file.write_text(
        file.read_text().replace(
            'path = "held_back"', 'path = "held_back"\ndates = "2024"\nnote = "unpublished"'
        )
    )
    sets = prepare(AuditConfig.load(file)).sets
    assert (sets["control"]["dates"], sets["control"]["note"]) == ("2024", "unpublished")
    assert len(sets["control"]["files"]) == len(sets["corpus"]["files"]) == 60
    json.dumps(sets)
