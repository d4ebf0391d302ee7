"""Every entry is complete, and every numbered thing of the documents has one."""

import inspect
import re
from pathlib import Path

import pytest

from metastable.comparison.citations import bibliography
from metastable.reproduce import single_cluster
from metastable.reproduce.perform import function_of
from metastable.spec.reproduction import DOCUMENTS, catalogue, load_reproduction

ENTRIES = catalogue()

# What the documents number: read off their texts, once, by hand.
NUMBERED = {
    "000_33a4b2d1a63784c1": [
        *(f"Figure {k}" for k in range(3, 14)),
        *(f"Figure {k}" for k in range(15, 21)),
        *(f"Theorem {k}" for k in (5, 6, 7, 8, 11, 13)),
        *("Proposition 4.1", "Proposition 4.2", "Problem 9", "Problem 10", "Problem 14"),
    ],
    "001_04243354c7d3d7df": [
        *(f"Figure 1.{k}" for k in range(1, 6)),
        *(f"Figure 3.{k}" for k in range(1, 7)),
        *("Theorem 2.1", "Theorem 2.2", "Theorem 3.1"),
        *(f"Lemma 2.{k}" for k in range(1, 6)),
        *(f"Lemma A.{k}" for k in range(1, 4)),
        *(f"Listing {k}" for k in range(1, 7)),
    ],
    "004_98ad8a0261261265": [f"Theorem {k}" for k in range(1, 5)],
}


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_has_a_function_that_takes_its_settings(name):
    function = function_of(name, ENTRIES[name])
    assert inspect.getdoc(function)


def test_no_numbered_thing_is_left_out():
    for seed, numbered in NUMBERED.items():
        places = {
            place for entry in ENTRIES.values() if entry.seed == seed for place in entry.places
        }
        assert not sorted(set(numbered) - places), DOCUMENTS[seed]


def test_every_document_has_entries_and_there_are_sixty():
    assert {entry.seed for entry in ENTRIES.values()} == set(DOCUMENTS)
    assert len(ENTRIES) >= 60


def test_a_bad_entry_is_refused_in_one_line(tmp_path: Path):
    good = {
        "title": "a title", "seed": next(iter(DOCUMENTS)), "places": ["Figure 1"],
        "claim": "a claim", "method": "a method", "made_by": "single_cluster",
    }  # fmt: skip

    def refused(**changes):
        file = tmp_path / "wendel.toml"
        tree = {**good, **changes}
        file.write_text("\n".join(f"{key} = {value!r}" for key, value in tree.items()))
        with pytest.raises(ValueError, match=r"^(wendel.toml|/)") as told:
            function_of("wendel", load_reproduction(file))
        assert "\n" not in str(told.value)
        return str(told.value)

    assert "seed" in refused(seed="005")
    assert "made_by" in refused(made_by="../evil")
    assert "correction" in refused(known="disagree")
    assert "unknown key size" in refused(size=3)
    assert "sizes" in refused(made_by="single_cluster")  # wendel() needs sizes and draws


def test_cited_papers_are_in_the_bibliography():
    folder = Path(single_cluster.__file__).parent
    cited = set()
    for module in folder.glob("*.py"):
        cited |= set(re.findall(r"\b([a-z]+(?:19|20)\d\d[a-z]\w*)", module.read_text("utf-8")))
    assert "wendel1962problem" in cited and cited <= set(bibliography()), cited - set(
        bibliography()
    )
