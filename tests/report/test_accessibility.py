"""Every kind of page can be read by everybody: a checker of our own over the HTML.

The rules are those of WCAG 2.2: text alternatives (1.1.1), headings in order and tables with header
cells (1.3.1), a contrast of 4.5 : 1 (1.4.3), keyboard order (2.4.3), a language (3.1.1). Contrast
is computed here from the definition of relative luminance.
"""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import metastable as ms
from metastable import kinds
from metastable.core.outcome import Outcome
from metastable.core.result import Answer, Result
from metastable.core.verdict import Comparison, Verdict
from metastable.learn.spec import Classification
from metastable.report.pages.reproduction import report_reproductions, write_reproduction
from metastable.report.pages.study import write_study
from metastable.report.studies import result_of_study
from tests.report import made
from tests.report.test_learning import CHART, CURVES, FRAMES

VOID = {"meta", "link", "br", "img", "hr", "input"}
# Which color of the style sheet is written on which.
PAIRS = [(ink, ground) for ink in ("ink", "soft", "pass", "fail") for ground in ("paper", "fold")]


class Checker(HTMLParser):
    """Collects what breaks a rule in `faults`."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.faults: list[str] = []
        self.heading, self.headers, self.words, self.unnamed = 0, 0, "", False
        self.styles = ""
        self.feed(text)
        self.close()
        self.faults += _contrasts(self.styles)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag not in VOID:
            self.open.append((tag, given))
        if tag == "html" and not given.get("lang"):
            self.faults.append("html without lang")
        named = given.get("alt") or given.get("aria-label") or given.get("title")
        if (tag == "img" or given.get("role") == "img") and not named:
            self.faults.append(f"{tag} without a text alternative")
        if tag == "svg" and given.get("role") != "img" and given.get("aria-hidden") != "true":
            self.faults.append("svg without a role")
        if int(given.get("tabindex") or 0) > 0:
            self.faults.append(f"{tag} with a positive tabindex")
        if tag in ("h1", "h2", "h3", "h4"):
            if int(tag[1]) > self.heading + 1:
                self.faults.append(f"{tag} after h{self.heading}")
            self.heading = int(tag[1])
        if tag == "table":
            self.headers = 0
        if tag == "th":
            self.headers += given.get("scope") in ("col", "row")
        if tag == "details":
            self.unnamed = True
        if tag == "summary":
            if self.open[-2][0] != "details":
                self.faults.append("summary outside details: no key opens it")
            self.words, self.unnamed = "", False
        if any(name.startswith("on") for name in given) or tag == "script":
            self.faults.append(f"{tag} that needs a script")

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag
        if tag == "table" and not self.headers:
            self.faults.append("table without header cells")
        if tag == "summary" and not self.words.strip():
            self.faults.append("empty summary")
        if tag == "details" and self.unnamed:
            self.faults.append("details without a summary")

    def handle_data(self, data):
        self.words += data
        if self.open and self.open[-1][0] == "style":
            self.styles += data


def _luminance(color: str) -> float:
    digits = color.lstrip("#")
    digits = "".join(2 * d for d in digits) if len(digits) == 3 else digits
    parts = [int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def _contrasts(styles: str) -> list[str]:
    """Pairs below 4.5 : 1 in any of the themes (light, dark, print)."""
    themes = re.findall(r":root\s*\{([^}]*)\}", styles)
    faults = [] if len(themes) == 3 else [f"{len(themes)} themes"]
    for theme in themes:
        colors = dict(re.findall(r"--(\w+):\s*(#\w+)", theme))
        for ink, ground in PAIRS:
            high, low = sorted((_luminance(colors[ink]), _luminance(colors[ground])))[::-1]
            if (high + 0.05) / (low + 0.05) < 4.5:
                faults.append(f"{ink} on {ground}: {(high + 0.05) / (low + 0.05):.2f}")
    return faults


def faults_of(path) -> list[str]:
    return Checker(path.read_text("utf-8")).faults


FLOWS = {
    "run": {"measure": {"kind": "uniform", "tokens": 40, "dim": 2, "seed": 0}},
    "sphere": {"measure": {"kind": "uniform", "tokens": 40, "dim": 3, "seed": 0}},
    "merging": {
        "measure": {"kind": "uniform", "tokens": 20, "dim": 2, "seed": 0},
        "flow": {"horizon": "end", "stepper": {"kind": "merging"}},
    },
    "density": {"measure": {"kind": "density_mode", "dim": 2, "degree": 3, "amplitude": 0.05}},
    "gaussian": {
        "measure": {"kind": "gaussian", "mean": [1.0, 0.0], "cov": [[0.5, 0.1], [0.1, 0.4]]}
    },
}


@pytest.mark.parametrize("name", FLOWS)
def test_pages_of_flows(name, tmp_path):
    content = {"field": {"beta": 4.0}, "flow": {"horizon": 4.0, "frames": 9}} | FLOWS[name]
    if name == "gaussian":
        content["field"] = {"beta": 0.5, "value": -1.0}
    result = ms.run(kinds.make({"kind": "flow", **content}), tmp_path / "out", progress=False)
    page = tmp_path / "out" / "report.html"
    text = page.read_text("utf-8")
    assert faults_of(page) == []
    # The answer, then the picture, then what is folded.
    first = text.index(result.sentence[:15]), text.index("<svg"), text.index("<details")
    assert list(first) == sorted(first)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep") / "store"
    content = {
        "observables": ["late_order", "similarity"],
        "repetitions": 2,
        "axes": {"field.beta": [1.0, 4.0, 16.0], "measure.dim": [2, 3]},
        "base": {"measure": {"tokens": 8}, "flow": {"horizon": 1.0, "frames": 3}},
    }
    ms.run(kinds.make({"kind": "sweep", **content}), folder, progress=False)
    return folder


def test_the_page_of_a_sweep(sweep):
    assert faults_of(sweep / "report.html") == []


def test_every_cell_of_a_map_leads_to_its_card(sweep):
    """Boxes tile the map: as wide as they are equal in log β, and each names values of its own."""
    text = (sweep / "report.html").read_text("utf-8")
    links = re.findall(r'class="area" href="#(cell-\d+)" style="([^"]+)" title="([^"]+)"', text)
    cards = set(re.findall(r'<aside class="card" id="(cell-\d+)"', text))
    assert cards == {name for name, _, _ in links} == {f"cell-{k}" for k in range(1, 7)}
    first = links[:6]  # those of the first picture, β upwards on a logarithmic axis
    number = lambda style, side: float(re.search(rf"{side}:([\d.]+)%", style)[1])
    places = {re.match(r"[^:]+", title)[0]: style for _, style, title in first}
    assert len(places) == 6
    heights = [number(style, "height") for style in places.values()]
    assert np.ptp(heights) < 0.05  # equal ratios of β are equal heights
    tops = sorted({round(number(style, "top"), 1) for style in places.values()})
    assert np.allclose(np.diff(tops), heights[0], atol=0.1)


VERDICTS = Comparison((Verdict("a claim", "a source", 1.0, 1.1, "10 %", "agree"),), "none")


def test_pages_of_studies_reproductions_and_models(tmp_path):
    answer = Answer(
        Outcome("done", "."), {"a": 1.0, "rows": [{"x": 1}]}, VERDICTS.rows,
        figures={"c": CURVES, "f": FRAMES, "m": CHART}, sentence="It learns.",
    )  # fmt: skip
    study = dataclasses.replace(result_of_study(Classification(), answer), folder=tmp_path / "s")
    (tmp_path / "s").mkdir()
    assert faults_of(write_study(study)) == []


def test_pages_of_reproductions(tmp_path):
    from metastable.report import plot_rank
    from metastable.reproduce.spec import Reproduction

    facts = {
        "name": "wendel", "title": "A theorem", "places": ["Theorem 1"], "claim": "c",
        "correction": "", "method": "m", "changes": {}, "notes": [], "command": "x", "seconds": 1.0,
        "verdict": "agree", "known": "agree", "expected": 1, "observed": 1, "fast": True,
        "document": "A paper", "folder": "wendel",
    }  # fmt: skip
    folder = tmp_path / "wendel"
    folder.mkdir()
    result = Result(
        Reproduction(entry="wendel"), Outcome("done", "."), facts, VERDICTS, {},
        {"rank": plot_rank(made.circle())}, "It agrees.", folder,
    )  # fmt: skip
    assert faults_of(write_reproduction(result)) == []
    record = facts | {"rows": [dataclasses.asdict(row) for row in VERDICTS.rows]}
    assert faults_of(report_reproductions([record], tmp_path)) == []


def test_the_page_of_a_model(tmp_path):
    pytest.importorskip("transformers")
    from metastable.models.inspection import inspect
    from metastable.models.spec import Inspect
    from metastable.report.pages.inspect import result_of_inspection, write_inspection
    from tests.models.made import save_tiny

    model, ids = save_tiny("bert", tmp_path / "model"), [3, 4, 5, 6, 7, 8]
    found = inspect(str(model), [ids], control=False, progress=False)
    spec = Inspect(model=str(model), text="by numbers", control=False)
    result = dataclasses.replace(result_of_inspection(spec, found), folder=tmp_path)
    assert faults_of(write_inspection(result)) == []


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ("<html></html>", "html without lang"),
        ('<img src="">', "img without a text alternative"),
        ("<svg></svg>", "svg without a role"),
        ("<h1></h1><h3></h3>", "h3 after h1"),
        ("<table><tr><td></td></tr></table>", "table without header cells"),
        ("<details><p>x</p></details>", "details without a summary"),
        ("<details><summary> </summary></details>", "empty summary"),
        ('<a tabindex="2"></a>', "a with a positive tabindex"),
        ('<a onclick="x()"></a>', "a that needs a script"),
        ("<style>:root { --paper: #fff; --ink: #777; }</style>", "1 themes"),
    ],
)
def test_the_checker_finds(html, fault):
    try:
        assert fault in Checker(html).faults
    except KeyError as missing:  # of a style sheet without all colors
        assert "themes" in fault and missing.args[0] in ("fold", "soft")


def test_contrast_is_that_of_the_definition():
    """Black on white is 21 : 1; #777777 on white is 4.48 : 1, the known near miss."""
    contrast = lambda a, b: (_luminance(a) + 0.05) / (_luminance(b) + 0.05)
    assert contrast("#fff", "#000") == pytest.approx(21.0)
    assert contrast("#ffffff", "#777777") == pytest.approx(4.48, abs=0.005)
