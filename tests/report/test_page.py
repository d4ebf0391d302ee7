import dataclasses
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import Verdict
from metastable.report import (
    Facts,
    Listing,
    Noted,
    Picture,
    Section,
    Table,
    plot_rank,
    rows_table,
    write_page,
)
from metastable.report.page import page as page_of_result
from metastable.report.page import show
from tests.report import made

EVIL = '"><script>alert(1)</script>&'
VOID = {"meta", "link", "br", "img", "hr", "input"}


class Reader(HTMLParser):
    """Checks that elements nest, and collects attributes and text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.words = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    verdicts = [
        {
            "claim": Noted(EVIL, EVIL),
            "expected": 4,
            "observed": 4.0,
            "verdict": "agree",
            "reason": None,
        },
        {"claim": "b", "expected": 1, "observed": 2, "verdict": "disagree", "reason": "far"},
        {"claim": "c", "verdict": "not applicable"},
    ]
    figure, other = plot_rank(made.circle()), plot_rank(made.sphere())
    figure = dataclasses.replace(figure, caption=EVIL)
    path = write_page(
        tmp_path_factory.mktemp("page") / "new" / "page.html",
        EVIL,
        Section(
            EVIL, [EVIL, Facts({EVIL: EVIL, "β": [9.0, 1.5]}), Picture(figure), Picture(other)]
        ),
        Section("second", [Listing(EVIL, f"x = 1 {EVIL}"), Table([EVIL], [], EVIL)]),
        lead=[rows_table(verdicts, "Verdicts")],
    )
    return path.read_text(encoding="utf-8")


def test_elements_nest_and_sections_are_linked(page):
    assert page.startswith("<!DOCTYPE html>")
    read = Reader(page)
    assert read.tags.count("h1") == 1 and read.tags.count("section") == 2
    links = [value for tag, name, value in read.attributes if (tag, name) == ("a", "href")]
    ids = [value for _, name, value in read.attributes if name == "id"]
    assert links == ["#section-1", "#section-2"] and set(link[1:] for link in links) <= set(ids)
    assert len(ids) == len(set(ids))


def test_text_is_escaped_everywhere(page):
    read = Reader(page)
    assert "script" not in read.tags
    # title, h1, link, cell, note, h2, paragraph, dt, dd, figcaption, summary, pre, caption, th
    assert "".join(read.words).count("<script>alert(1)</script>") == 14
    assert [value for _, name, value in read.attributes if name == "aria-label"][1] == EVIL


def test_page_is_self_contained(page):
    read = Reader(page)
    assert not {"link", "iframe", "img", "object", "embed"} & set(read.tags)
    addresses = [v for _, name, v in read.attributes if name in ("src", "href", "srcset", "action")]
    assert all(address.startswith(("#", "data:image/png")) for address in addresses)
    assert "@import" not in page and "url(http" not in page
    assert "default-src 'none'" in page


def test_figures_stand_inline_with_captions(page):
    read = Reader(page)
    assert read.tags.count("svg") == read.tags.count("figcaption") == 2
    assert page.count('<div class="pictures">') == 1
    assert "prefers-color-scheme: dark" in page and "@media print" in page


def test_verdicts_are_marked(page):
    marks = re.findall(r'<td class="(pass|fail|open)">([^<]+)</td>', page)
    assert marks == [
        ("pass", "agree"),
        ("fail", "disagree"),
        ("open", "not applicable"),
    ]
    assert page.index("Verdicts") < page.index("<h2")


def test_writing_again_replaces_the_page(tmp_path):
    path = tmp_path / "page.html"
    write_page(path, "one")
    write_page(path, "two")
    assert "two" in path.read_text() and [p.name for p in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (True, "yes"),
        (np.bool_(False), "no"),
        (1 / 3, "0.333333"),
        (np.float64(2e-16), "2e-16"),
        (7, "7"),
        ([1.0, 2], "1, 2"),
        (list(range(20)), "0, 1, 2, 3, 4, 5, 6, 7, …"),
        ({3: 0.25, 4: 0.75}, "3: 0.25, 4: 0.75"),
    ],
)
def test_cells(value, text):
    assert show(value) == text


def test_a_result_has_one_page(tmp_path):
    """The answer, verdicts, facts; figures no section shows, sections, provenance; drawn once."""
    figures = {"a": plot_rank(made.circle()), "b": plot_rank(made.sphere())}
    verdicts = [Verdict("grows", "geshkovski2023emergence", 1.0, 1.0, "1 %", "agree")]
    path = page_of_result(
        tmp_path / "report.html",
        "A run",
        sentence="It grows.",
        verdicts=verdicts,
        facts={"tokens": 3},
        figures=figures,
        sections=[Section("Shape", [Picture(figures["b"])]), Section("Nothing", [])],
        provenance={"spec.toml": "beta = 9.0"},
    )
    text = path.read_text(encoding="utf-8")
    Reader(text)
    wanted = ["It grows.", "Verdicts: 1 agree", "tokens", ">Figures</h2>", ">Shape</h2>"]
    places = [text.index(word) for word in [*wanted, ">Provenance</h2>", "beta = 9.0"]]
    assert places == sorted(places) and "Nothing" not in text
    assert text.count("</svg>") == 2 and "<style>svg" not in text
    assert {p.name for p in (tmp_path / "figures").iterdir()} == {"a.svg", "b.svg"}
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_png_is_made_where_asked_for(tmp_path):
    from metastable.report.page import save_figures, with_png

    figures = {"a": Lines(Axis("x"), Axis("y"), [Series("", [0, 1], [0, 1])])}
    save_figures(figures, tmp_path / "plain")
    with with_png():
        save_figures(figures, tmp_path / "both")
    save_figures(figures, tmp_path / "again")
    files = lambda name: {path.name for path in (tmp_path / name).iterdir()}
    assert files("plain") == files("again") == {"a.svg"}
    assert files("both") == {"a.svg", "a.png"}
