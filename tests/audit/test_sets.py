"""Documents are known by their set and their name: equal names change nothing."""

import json
import shutil

import numpy as np
import pytest

from metastable.audit.audit import read_facts, run_audit
from metastable.audit.blind import separate_blindly
from metastable.audit.case import BLIND, prepare
from metastable.audit.collect import read_rows
from metastable.audit.corpus import Corpus, Document, read_corpus
from metastable.audit.spec import AuditConfig
from metastable.audit.validity import check_blind
from tests.audit.rows import make_texts
from tests.audit.small import CONFIG, write_texts

OTHERS = (
    "alpha bravo chord dwell eagle flute giant honey ivory jolly karma lemon mango nylon".split()
)


def write_two(folder, prefix=""):
    """60 protected texts, and 60 controls of other words whose names begin with `prefix`."""
    write_texts(folder / "texts", documents=60)
    random = np.random.default_rng(7)
    (folder / "held_back").mkdir()
    for k in range(60):
        words = random.choice(OTHERS, 24)
        (folder / "held_back" / f"{prefix}text{k:03}.txt").write_text(" ".join(words))
    config = CONFIG.format(overlap=0.5, steps=2).replace("steps = 30", "steps = 2")
    config = config.replace("[split]", '[control]\nkind = "text"\npath = "held_back"\n[split]')
    (folder / "config.toml").write_text(config)
    return AuditConfig.load(folder / "config.toml")


def read(folder, name):
    return " ".join((folder / f"{name}.txt").read_text().split())[:BLIND]


def test_sets_of_equal_names_are_kept_apart(tmp_path):
    case = prepare(write_two(tmp_path))
    assert len(case.documents) == 120
    for place, groups in (("texts", ("member", "protected")), ("held_back", ("control",))):
        names = [item.document for item in case.split.group(*groups)]
        assert case.texts(*groups) == [read(tmp_path / place, name) for name in names]


def test_names_of_files_change_no_number(tmp_path):
    """A control of other words fails as such, whatever its files are called."""
    told = {}
    for prefix in ("", "other"):
        place = tmp_path / f"case{prefix}"
        place.mkdir()
        config = write_two(place, prefix)
        summary = run_audit(config, place / "run").to_dict()
        rows = read_rows(place / "run" / "items.csv")
        for row in rows:
            row["item"], row["document"] = (
                row[k].removeprefix("other") for k in ("item", "document")
            )
        checks = read_facts(place / "run")["conditions"]
        told[prefix] = {k: v for k, v in summary.items() if k != "out"}, checks, rows
    assert told[""] == told["other"]
    summary, checks, rows = told[""]
    for finding in (summary["trained_on"], summary["reproduces"]):
        assert finding["finding"] == "cannot tell" and "matched control" in finding["reason"]
    assert summary["blind_auc"] > 0.99
    assert len({(row["group"] == "control", row["item"]) for row in rows}) == 32


def test_documents_of_one_set_have_names_of_their_own(tmp_path):
    records = [{"id": "a", "text": f"text {k}"} for k in range(3)] + [{"id": "a (2)", "text": "x"}]
    (tmp_path / "all.jsonl").write_text("\n".join(map(json.dumps, records)))
    corpus = read_corpus("jsonl", str(tmp_path / "all.jsonl"))
    names = [document.name for document in corpus.documents]
    assert len(set(names)) == 4 and names[:2] == ["a", "a (2)"]
    assert len(corpus.named("a").documents) == 4
    assert Corpus.of([Document("b", "x")]).documents[0].name == "b"


def test_a_set_against_its_copy_is_no_control():
    """The copy of each document that is scored was learned with the other label: no chance."""
    texts, other = make_texts()
    found = separate_blindly(texts, texts)
    assert found.auc.mid < 0.1 and found.mirrored and not found.matched
    condition = check_blind(found)
    assert condition.held is False and "below what chance can give" in condition.told
    honest = separate_blindly(texts, other)
    assert honest.matched and not honest.mirrored


def test_an_audit_goes_on_only_with_the_same_documents(tmp_path):
    config = write_two(tmp_path)
    run_audit(config, tmp_path / "run")
    (tmp_path / "run" / "manifest.json").unlink()
    shutil.copy(tmp_path / "texts" / "text000.txt", tmp_path / "kept.txt")
    (tmp_path / "texts" / "text000.txt").write_text("another text " * 20)
    with pytest.raises(ValueError, match="corpus and control must be as they were"):
        run_audit(config, tmp_path / "run")
    shutil.copy(tmp_path / "kept.txt", tmp_path / "texts" / "text000.txt")
    assert run_audit(config, tmp_path / "run").facts["trained_on"]["finding"] == "cannot tell"
