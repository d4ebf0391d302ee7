import re

import pytest

from metastable.report import report_run, report_runs
from metastable.results import run_and_keep
from metastable.spec.experiment import load_experiment
from tests.report.test_page import Reader

NAMES = ["angles", "clusters", "energy", "rank", "similarity"]
SETTINGS = {
    "measure.tokens": 30,
    "measure.dim": 2,
    "field.beta": 9.0,
    "flow.horizon": 6.0,
    "flow.frames": 13,
}
VERDICTS = [{"claim": "energy", "source": "arXiv:2312.10794", "verdict": "agree"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "first"
    settings = SETTINGS | {"name": "<b>run</b>"}
    run_and_keep(load_experiment(None, settings), folder, progress=False)
    return folder


def test_report_of_a_run(folder):
    page = report_run(folder, VERDICTS, {"dominant mode": 4, "transition": None})
    assert page == folder / "report.html"
    files = sorted(path.name for path in (folder / "figures").iterdir())
    assert files == sorted(f"{name}.{kind}" for name in NAMES for kind in ("png", "svg"))
    text = page.read_text(encoding="utf-8")
    read = Reader(text)
    words = " ".join(read.words)
    assert read.tags.count("svg") == len(NAMES) and "b" not in read.tags
    assert "<title>&lt;b&gt;run&lt;/b&gt;</title>" in text
    for expected in ("dominant mode", "energy", "agree", "6 (SA clock)", "spec_sha256", "[flow]"):
        assert expected in words
    assert "transition" not in words  # nothing is said of it
    assert page.stat().st_size < 3_000_000


def test_report_without_verdicts_is_written_anew_and_the_same(folder):
    page = report_run(folder)
    before = page.read_bytes()
    assert b"Verdicts" not in before and b"theory predicts" not in before
    assert report_run(folder).read_bytes() == before


def test_one_page_for_several_runs(folder, tmp_path):
    second = tmp_path / "second"
    run_and_keep(load_experiment(None, SETTINGS), second, progress=False)
    verdicts = {folder: VERDICTS, second: VERDICTS}
    page = report_runs([folder, second], tmp_path / "both.html", "Both", verdicts)
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"<h2 [^>]+>([^<]+)</h2>", text) == ["&lt;b&gt;run&lt;/b&gt;", "second"]
    assert text.count("</svg>") == 2 * len(NAMES) and text.count('<td class="pass">agree</td>') == 2
    assert "Verdicts on second: 1 agree" in text
    assert page.stat().st_size < 3_000_000
    Reader(text)


def test_long_listings_are_cut(folder, monkeypatch):
    monkeypatch.setattr("metastable.report.page.LONGEST_LISTING", 40)
    text = report_run(folder).read_text(encoding="utf-8")
    assert "seed = 0" not in text
    rest = (folder / "spec.toml").read_text()[40:]
    assert f"… {len(rest)} characters more in spec.toml" in text


def test_folder_must_hold_a_run(tmp_path):
    with pytest.raises(ValueError, match="finished run"):
        report_run(tmp_path)
