import dataclasses
import re

import pytest

from metastable import kinds
from metastable.core.verdict import Comparison, Verdict
from metastable.flows.spec import Experiment
from metastable.report.pages.run import write_run, write_runs
from tests.report.test_page import Reader

NAMES = ["angles", "clusters", "energy", "rank", "similarity"]
SETTINGS = {
    "measure.tokens": 30,
    "measure.dim": 2,
    "field.beta": 9.0,
    "flow.horizon": 6.0,
    "flow.frames": 13,
}
VERDICTS = Comparison((Verdict("energy", "arXiv:2312.10794", 1.0, 1.0, "", "agree"),), "SA")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "first"
    settings = SETTINGS | {"name": "<b>run</b>"}
    return kinds.run(Experiment.from_tree({}, settings), folder, progress=False, page=False)


@pytest.fixture
def folder(kept):
    return kept.folder


def test_report_of_a_run(kept, folder):
    page = write_run(dataclasses.replace(kept, verdicts=VERDICTS))
    assert page == folder / "report.html"
    files = sorted(path.name for path in (folder / "figures").iterdir())
    assert files == sorted(f"{name}.svg" for name in NAMES)
    text = page.read_text(encoding="utf-8")
    read = Reader(text)
    words = " ".join(read.words)
    assert read.tags.count("svg") == len(NAMES) and "b" not in read.tags
    assert "<title>&lt;b&gt;run&lt;/b&gt;</title>" in text
    for expected in ("growth", "energy", "agree", "6 (SA clock)", "spec_sha256", "[flow]"):
        assert expected in words
    assert page.stat().st_size < 3_000_000


def test_report_without_verdicts_is_written_anew_and_the_same(kept):
    bare = dataclasses.replace(kept, verdicts=Comparison((), "SA"))
    page = write_run(bare)
    before = page.read_bytes()
    assert b"Verdicts" not in before
    assert write_run(bare).read_bytes() == before


def test_one_page_for_several_runs(kept, tmp_path):
    experiment = Experiment.from_tree({}, SETTINGS)
    second = kinds.run(experiment, tmp_path / "second", progress=False, page=False)
    both = [dataclasses.replace(one, verdicts=VERDICTS) for one in (kept, second)]
    page = write_runs(both, tmp_path / "both.html", "Both")
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"<h2 [^>]+>([^<]+)</h2>", text) == ["&lt;b&gt;run&lt;/b&gt;", "second"]
    assert text.count("</svg>") == 2 * len(NAMES) and text.count('<td class="pass">agree</td>') == 2
    assert "Verdicts on second: 1 agree" in text
    assert page.stat().st_size < 3_000_000
    Reader(text)


def test_long_listings_are_cut(kept, folder, monkeypatch):
    monkeypatch.setattr("metastable.report.page.LONGEST_LISTING", 40)
    text = write_run(kept).read_text(encoding="utf-8")
    assert "seed = 0" not in text
    rest = (folder / "spec.toml").read_text()[40:]
    assert f"… {len(rest)} characters more in spec.toml" in text


def test_folder_must_hold_a_run(tmp_path):
    with pytest.raises(ValueError, match="finished result"):
        kinds.open(tmp_path)
