"""Every entry is complete, and every numbered thing of the sources has one."""

import inspect
import re
from pathlib import Path

import pytest

import reproductions
from metastable.comparison.citations import bibliography
from metastable.reproduce.catalogue import catalogue, function_of, sources

ENTRIES = catalogue()

# What the sources number: read off their texts, once, by hand.
NUMBERED = {
    "valente2024": [
        *(f"Figure {k}" for k in range(3, 14)),
        *(f"Figure {k}" for k in range(15, 21)),
        *(f"Theorem {k}" for k in (5, 6, 7, 8, 11, 13)),
        *("Proposition 4.1", "Proposition 4.2", "Problem 9", "Problem 10", "Problem 14"),
    ],
    "ponti2025": [
        *(f"Figure 1.{k}" for k in range(1, 6)),
        *(f"Figure 3.{k}" for k in range(1, 7)),
        *("Theorem 2.1", "Theorem 2.2", "Theorem 3.1"),
        *(f"Lemma 2.{k}" for k in range(1, 6)),
        *(f"Lemma A.{k}" for k in range(1, 4)),
        *(f"Listing {k}" for k in range(1, 7)),
    ],
    "geshkovski2023": [f"Theorem {k}" for k in range(1, 5)],
}


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_has_a_function_that_takes_its_settings(name):
    function = function_of(ENTRIES[name])
    assert inspect.getdoc(function)
    # What is read without importing the file is what importing it gives.
    made = inspect.getmodule(function).ENTRY
    assert made == ENTRIES[name].model_copy(update={"source": "", "name": ""})


def test_no_numbered_thing_is_left_out():
    for source, numbered in NUMBERED.items():
        places = {
            place for entry in ENTRIES.values() if entry.source == source for place in entry.places
        }
        assert not sorted(set(numbered) - places), sources()[source]


def test_every_source_has_entries_and_there_are_sixty():
    assert {entry.source for entry in ENTRIES.values()} == set(sources())
    assert len(ENTRIES) >= 60


def test_cited_papers_are_in_the_bibliography():
    folder = Path(reproductions.__file__).parent
    cited = set()
    for module in folder.rglob("*.py"):
        cited |= set(re.findall(r"\b([a-z]+(?:19|20)\d\d[a-z]\w*)", module.read_text("utf-8")))
    assert "wendel1962problem" in cited and cited <= set(bibliography()), cited - set(
        bibliography()
    )
