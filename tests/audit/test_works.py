"""Whole works: parts, windows that slide over them, and how much comes out where."""

import json
import math
import tomllib
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from metastable.audit.alphabet import Characters
from metastable.audit.audit import run_audit
from metastable.audit.blind import Blind
from metastable.audit.case import prepare
from metastable.audit.corpus import Corpus, Document, images
from metastable.audit.spec import AuditConfig
from metastable.audit.split import deal
from metastable.audit.target import Target
from metastable.audit.verdict import make_findings
from metastable.audit.verify import to_dict, verify_audit
from metastable.audit.works import (
    THRESHOLDS,
    cover_works,
    cut_works,
    describe_ordinary,
    sample_ordinarily,
    thin_windows,
    window_p,
    work_of,
)
from metastable.models.own.language import LanguageModel
from metastable.report.pages.audit import report_audit
from tests.audit.rows import make_rows
from tests.audit.small import CONFIG, WORDS

SLIDING = """
[split]
items = 14
controls = 20
background = 20
length = 24
stride = 12
"""


def write_works(folder, characters=2400, names=("book", "control")):
    random = np.random.default_rng(2)
    for name in names:
        (folder / name).mkdir(parents=True)
        text = " ".join(WORDS[k] for k in random.integers(0, len(WORDS), characters // 5))
        (folder / name / f"{name}.txt").write_text(text[:characters])


def write_config(folder, steps=2):
    write_works(folder)
    sources = [f'[{s}]\nkind = "text"\npath = "{p}"\nparts = 120\n' for s, p in SOURCES]
    model = f"[model]\nsize = 'basic'\nsteps = {steps}\n"
    model += "[[generators]]\nkind = 'prefix'\nbudgets = [8]\n"
    file = folder / "config.toml"
    file.write_text("ordinary = 2\n" + "".join(sources) + SLIDING + model)
    return file


SOURCES = (("corpus", "book"), ("control", "control"))


@pytest.mark.parametrize(("length", "parts"), [(1000, 100), (1049, 100), (1051, 100), (30, 100)])
def test_parts_are_the_work_in_order(length, parts):
    text = "".join(np.random.default_rng(0).choice(list("abcdef"), length))
    cut = cut_works(Corpus.of([Document("a @ 5", text), Document("b", text[::-1])]), parts)
    own = [d for d in cut.documents if work_of(d.name)[0] == "a @ 5"]
    assert "".join(d.text for d in own) == text
    for d in own:
        assert text.startswith(d.text, work_of(d.name)[1])
    assert all(parts / 2 <= len(d.text) <= 1.5 * parts for d in own) or len(own) == 1


def test_sliding_windows_cover_every_part():
    corpus = cut_works(Corpus.of([Document("w", "".join(map(chr, range(100, 1100))))]), 110)
    other = Corpus.of(Document(f"c{k}", chr(5000 + k) * 60) for k in range(4))
    split = deal(corpus, items=99, controls=3, length=30, stride=16, control=other, known=False)
    inside = {d.name: np.zeros(len(d.text), bool) for d in corpus.documents}
    for item in split.group("protected"):
        start = int(item.name.rsplit(":", 1)[1])
        inside[item.document][start : start + 30] = True
        assert len(item.text) == 30
    assert len(inside) == 9 and all(mask.all() for mask in inside.values())
    assert len({item.document for item in split.group("control")}) == 3
    per_document = {}
    for item in thin_windows(split.items):
        per_document[item.document] = per_document.get(item.document, 0) + 1
    assert set(per_document) == {i.document for i in split.items}
    assert max(per_document.values()) <= 4


def make_row(work, start, p, near, group="protected", prefix=4, text="x" * 10):
    """A window of a prefix and six tokens of an alphabet of two, with p_z = p."""
    return {
        "item": f"{work} @100:{start}",
        "document": f"{work} @100",
        "group": group,
        "generator": "prefix",
        "budget": prefix,
        "bits": float(prefix),
        "item_bits": float(len(text)),
        "prompt": text[:prefix],
        "target": text[prefix:],
        "nll": -math.log(p) / (len(text) - prefix),
        "edit": 0.0 if near else 1.0,
    }


def test_covers_are_the_largest_probability_at_each_character():
    rows = [
        make_row("w", 0, 0.3, True),  # characters 104 … 109
        make_row("w", 3, 0.01, True),  # 107 … 112
        make_row("w", 20, 0.7, False),  # 124 … 129
        make_row("w", 40, 1e-9, True) | {"common": 0.9},  # set aside
        make_row("c", 0, 1e-9, False, "control"),
    ]
    assert window_p(rows[0]) == pytest.approx(0.3)
    lengths = {"corpus": {"w": 200, "unasked": 9}, "control": {"c": 150}}
    own, control = cover_works(rows, "prefix", 4, lengths)
    expected = np.full(200, np.nan)
    expected[104:110], expected[110:113] = 0.3, 0.01
    expected[124:130], expected[144:150] = 0.7, 1e-9
    np.testing.assert_allclose(own.p, expected)
    told = own.to_dict()
    asked = 9 + 6 + 6
    assert (told["longest_run_at"], told["longest_run"]) == (104, 9)
    assert told["recall"] == pytest.approx(9 / asked)
    shares = [(np.nan_to_num(expected) >= t).sum() / asked for t in THRESHOLDS]
    assert told["coverage"] == pytest.approx(shares)
    assert told["asked"] == pytest.approx(asked / 200)
    assert (control.side, control.to_dict()["recall"]) == ("control", 0.0)
    silent = [row | {"nll": ""} for row in rows[:1]]
    assert cover_works(silent, "prefix", 4, lengths)[0].to_dict()["coverage"] is None


class Parrot(LanguageModel):
    """Writes, after each id, the next one."""

    def __init__(self, vocabulary):
        self.vocabulary = self.width = vocabulary

    def embed(self, ids):
        return torch.nn.functional.one_hot(ids, self.vocabulary).float()

    def forward_embeddings(self, embeddings):
        return torch.where(embeddings.roll(1, -1) > 0, 0.0, -1e9)


def test_ordinary_samples_are_matched_with_the_work(tmp_path):
    """M knows one work, whose characters stand in order, and begins with it after nothing."""
    text = "".join(map(chr, range(200, 300)))
    alphabet = Characters(text)
    case = SimpleNamespace(
        documents={("corpus", "title @0"): text[:60], ("corpus", "title @60"): text[60:]}
        | {("control", text[3] + " @0"): text[::-1]},
        split=SimpleNamespace(items=[SimpleNamespace(text=text[:50])]),
        config=SimpleNamespace(ordinary=3, seed=0),
    )
    sample_ordinarily(case, Target(Parrot(alphabet.size), alphabet), tmp_path)
    entries = json.loads((tmp_path / "ordinary.json").read_text())
    kinds = {(e["set"], e["prompt"]): e["runs"] for e in entries}
    assert kinds["protected", "nothing"] == [[0, 50]]  # as long as a passage
    assert ("protected", "title") not in kinds  # M has no such letters
    assert all(runs == [] for (side, _), runs in kinds.items() if side == "control")
    assert kinds.keys() >= {("control", "nothing"), ("control", "title")}
    told = describe_ordinary([e for e in entries if e["set"] == "protected"], 100)
    assert told["hits"]["nothing"] == 3 and told["longest_run"] == 50
    assert told["share"] >= 0.5


def test_differences_of_works_stop_trained_on_alone():
    """A classifier that tells the works apart, and a null model to which one is likelier."""
    rows = make_rows(0.5)
    apart = Blind.of([0.99] + [0.5 + 0.001 * (k % 7) for k in range(199)])
    silent = {"gap": 0.0, "likelihood": 1.8}  # likelier, but nothing comes out
    nulls = {"random_weights": make_rows(1.0, seed=3, **silent)}
    for works, word in ((False, "cannot tell"), (True, "reproduces")):
        found = make_findings(rows, level=0.01, blind=apart, nulls=nulls, works=works)
        assert found.trained_on.word == "cannot tell"
        assert found.reproduces.word == word
    copying = {"random_weights": make_rows(1.0, seed=3)}
    found = make_findings(rows, level=0.01, blind=apart, nulls=copying, works=True)
    assert found.reproduces.word == "cannot tell"


def test_a_whole_work_is_audited_shown_and_verified(tmp_path):
    config = AuditConfig.load(write_config(tmp_path))
    result = run_audit(config, tmp_path / "run")
    works = result.facts["works"]["works"]
    assert [work["set"] for work in works] == ["protected", "control"]
    assert works[0]["characters"] == 2400 - 1  # a space at the end is no text
    page = report_audit(tmp_path / "run").read_text("utf-8")
    assert "The whole work" in page and "that is an assumption" in page
    assert to_dict(verify_audit(tmp_path / "run"))["verified"]
    file = tmp_path / "run" / "ordinary.json"
    entries = json.loads(file.read_text())
    entries[0]["runs"] = [[0, 50]]
    file.write_text(json.dumps(entries))
    failed = [check.name for check in verify_audit(tmp_path / "run") if check.passed is False]
    assert "ordinary.json" in failed
    assert any("works" in name for name in failed)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("parts = 120\n[control]", "[control]"), "control.parts must be corpus.parts"),
        (("parts = 120", "parts = 20"), "corpus.parts must be at least split.length 24; got 20"),
        (("stride = 12", "stride = 12\nper_document = 2"), "both stride and per_document"),
        (("stride = 12", "stride = 0"), "stride"),
        (("length = 24", "length = 24000"), "must be at least split.length"),
    ],
)
def test_bad_works_are_refused_in_one_line(tmp_path, change, words):
    file = write_config(tmp_path)
    file.write_text(file.read_text().replace(*change))
    with pytest.raises(ValueError, match=words) as error:
        prepare(AuditConfig.load(file))
    assert "\n" not in str(error.value)


def test_works_shorter_than_a_window_are_named(tmp_path):
    file = write_config(tmp_path)
    (tmp_path / "book" / "leaflet.txt").write_text("a short leaflet")
    with pytest.raises(ValueError, match="'leaflet @0' has 15: leave it out"):
        prepare(AuditConfig.load(file))
    with pytest.raises(ValueError, match="parts must be of texts"):
        cut_works(images(np.zeros((3, 4, 4), int), 2), 8)


def test_configs_without_works_are_as_they_were():
    """No new key is written for an old config, whose digest and plan then hold."""
    text = CONFIG.format(overlap=0.5, steps=2)
    tree = AuditConfig.from_tree(tomllib.loads(text), {}).model_dump(exclude_none=True)
    assert not {"public", "ordinary"} & tree.keys() and "parts" not in tree["corpus"]
    assert "stride" not in tree["split"]
