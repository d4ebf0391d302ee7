"""The atlas as a whole: what every entry says of itself, and the map of all claims."""

import base64
import hashlib
import re
from collections import Counter
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from metastable.comparison.citations import bibliography
from metastable.comparison.citing import claims_citing
from metastable.comparison.literature import papers
from metastable.core.verdict import Verdict
from metastable.report import page
from metastable.reproduce.atlas import write_map
from metastable.reproduce.catalogue import catalogue, files, key_of, page_of, sources
from metastable.reproduce.claims import contradictions, field_kinds, gather
from metastable.reproduce.planting import read_plant
from tests.report.test_accessibility import Checker

ENTRIES = catalogue()
MOST_ABSTRACT = 30


class Links(HTMLParser):
    """Anchors of a page, what its links lead to, and the claims it shows."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors: list[str] = []
        self.links: list[str] = []
        self.claims: list[dict] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors += [given["id"]] if given.get("id") else []
        self.links += [given["href"]] if given.get("href") else []
        self.claims += [given] if given.get("class") == "claim" else []


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    place, facts = write_map(tmp_path_factory.mktemp("map"))
    assert facts["claims"] == len(ENTRIES) and facts["sources"] == len(sources())
    return place.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_says_its_subject_its_limits_and_the_error_it_notices(name):
    entry = ENTRIES[name]
    assert entry.subject and len(entry.limits) > 20 and entry.planted
    read_plant(entry.planted)
    assert set(entry.implies) | set(entry.contradicts) <= set(ENTRIES) - {name}


def test_few_entries_rest_on_an_abstract_alone():
    assert Counter(entry.basis for entry in ENTRIES.values())["abstract"] <= MOST_ABSTRACT


@pytest.mark.parametrize("source", sources())
def test_a_source_has_a_key_of_the_bibliography_and_a_page(source):
    assert key_of(source) in bibliography()
    assert len(page_of(source)) > 40


def test_every_link_of_the_map_leads_somewhere(text):
    seen = Links(text)
    assert len(set(seen.anchors)) == len(seen.anchors)
    for link in seen.links:
        if link.startswith("#"):
            assert link[1:] in seen.anchors, link
        else:
            assert link.startswith("https://arxiv.org/abs/"), link


def test_the_map_shows_every_claim_and_answers_first(text):
    seen = Links(text)
    assert {claim["id"] for claim in seen.claims} == {f"claim-{name}" for name in ENTRIES}
    kinds = {kind for claim in seen.claims for kind in claim["data-field"].split("|")}
    assert {"SelfAttention", "Noise"} <= kinds
    lead = text[text.index('<div class="lead">') :]
    assert re.search(r"<p>Of \d+ claims from \d+ sources \d+ are known to hold and \d+", lead[:400])


def test_only_our_script_may_run_in_the_map_and_none_in_other_pages(text, tmp_path):
    script = text[text.index("<script>") + 8 : text.index("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in unescape(text) and text.count("<script") == 1
    other = page.write_page(tmp_path / "page.html", "A page").read_text(encoding="utf-8")
    assert "script" not in other


def test_everybody_can_read_the_map(text):
    """Without its script it has no box to search, and lacks nothing else."""
    assert not Checker(re.sub(r"<script>.*</script>", "", text, flags=re.S)).faults


def test_a_claim_that_was_run_has_its_own_verdict(tmp_path):
    from metastable.reproduce.run import reproduce

    reproduce(["positions"], tmp_path, fast=True, workers=1)
    claims = {claim["name"]: claim for claim in gather(tmp_path)}
    assert claims["positions"]["ran"] and claims["positions"]["page"] == "positions/report.html"
    assert (tmp_path / claims["positions"]["page"]).is_file()
    assert not claims["wendel"]["ran"] and claims["wendel"]["verdict"] == "disagree"


def test_pairs_that_contradict_each_other_name_the_run_that_decides():
    pairs = contradictions(gather(Path("nothing")))
    assert len(pairs) >= 5
    for one, other, command in pairs:
        assert one["name"] in command and other["name"] in command


def test_kinds_of_fields_are_read_from_the_code():
    assert field_kinds(files()["stable_heads"]) == ["MultiHead", "SelfAttention"]
    assert field_kinds(files()["semicircle_law"]) == []


def test_a_row_leads_to_its_paper_and_the_paper_to_entries():
    row = Verdict("a claim", "geshkovski2023emergence, Theorem 1", 1.0, 1.0, "", "agree")
    assert page.verdict_table([row]).rows[0][1].note_link == "#source-geshkovski2023emergence"
    section = page.sources_of([row])[0]
    cited = section.blocks[0].papers[0]
    assert cited.address == "https://arxiv.org/abs/2305.05465"
    named = {entry.name: entry for entry in cited.entries}
    assert named["star_row"].command == "metastable reproduce star_row --fast"
    assert page.sources_of([Verdict("b", "derived", 1.0, 1.0, "", "agree")]) == []


def test_a_paper_leads_back_to_the_claims_that_cite_it():
    assert "the energy is monotone" in claims_citing("geshkovski2023mathematical")
    assert claims_citing("nobody2000nothing") == []
    assert papers(["nobody2000nothing"]) == []
