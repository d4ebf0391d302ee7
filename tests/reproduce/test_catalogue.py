"""Entries are read without importing them; a bad one is refused in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

from metastable.reproduce import catalogue as module
from metastable.reproduce.catalogue import catalogue, function_of, load_module, read_entry, sources
from metastable.reproduce.entry import Entry

GOOD = {"title": "a title", "places": ["Figure 1"], "claim": "a claim", "method": "a method"}


def write(folder: Path, call: str) -> Path:
    """An entry called wendel, with its ENTRY and no function."""
    (folder / "valente2024").mkdir(exist_ok=True)
    file = folder / "valente2024" / "wendel.py"
    file.write_text(f'"""A title."""\n\nimport nothing_of_the_kind\n\nENTRY = {call}\n')
    return file


def test_an_entry_is_read_without_its_imports(tmp_path):
    arguments = ", ".join(f"{key}={value!r}" for key, value in GOOD.items())
    entry = read_entry(write(tmp_path, f"Entry({arguments}, settings={{'seed': 3}})"))
    assert (entry.source, entry.name, entry.settings) == ("valente2024", "wendel", {"seed": 3})


def test_a_bad_entry_is_refused_in_one_line(tmp_path):
    def refused(**changes):
        arguments = ", ".join(f"{key}={value!r}" for key, value in {**GOOD, **changes}.items())
        with pytest.raises(ValueError, match=r"^wendel.py: ") as told:
            function_of(read_entry(write(tmp_path, f"Entry({arguments})")))
        assert "\n" not in str(told.value)
        return str(told.value)

    assert "places" in refused(places=[])
    assert "correction" in refused(known="disagree")
    assert "unknown key size" in refused(size=3)
    assert "fast" in refused(fast={"draws": 3})
    assert "sizes" in refused()  # wendel() needs sizes and draws
    for call in ("Entry(title=str(3))", "Entry('a title')", "3"):
        with pytest.raises(ValueError, match=r"^wendel.py: ENTRY must be Entry.* literal"):
            read_entry(write(tmp_path, call))
    with pytest.raises(ValueError, match=r"valente2024/wendel.py must assign TITLE"):
        module._assigned(write(tmp_path, "3"), "TITLE")


def test_one_name_stands_for_one_entry(tmp_path, monkeypatch):
    arguments = ", ".join(f"{key}={value!r}" for key, value in GOOD.items())
    for source in ("valente2024", "valente2025"):
        (tmp_path / source).mkdir()
        (tmp_path / source / "__init__.py").write_text('TITLE = "A source"')
        (tmp_path / source / "wendel.py").write_text(f"ENTRY = Entry({arguments})")
        (tmp_path / source / "_starts.py").write_text("")  # shared code is no entry
    monkeypatch.setattr(module, "home", lambda: tmp_path)
    with pytest.raises(ValueError, match="wendel in valente2024 and in valente2025"):
        catalogue()
    (tmp_path / "valente2025" / "wendel.py").unlink()
    assert list(catalogue()) == ["wendel"] and set(sources().values()) == {"A source"}


def test_the_folder_is_one_package_however_it_is_imported():
    import reproductions.valente2024.wendel as imported

    assert load_module("valente2024.wendel") is imported


def test_another_package_of_the_name_is_refused(tmp_path, monkeypatch):
    load_module("valente2024")
    monkeypatch.setattr(module, "home", lambda: tmp_path)
    with pytest.raises(ValueError, match="reproductions must be the package at"):
        load_module("valente2024")


def test_listing_imports_no_numerical_package():
    code = (
        "import sys; from metastable.reproduce.catalogue import catalogue;"
        "assert len(catalogue()) >= 60;"
        "assert not {'jax', 'matplotlib', 'numpy', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_changes_are_other_work_with_a_folder_of_its_own():
    entry = Entry(**GOOD, name="wendel", settings={"draws": 9, "betas": [1.0]}, fast={"draws": 2})
    varied = entry.changed({"draws": 5, "betas": [2]})
    assert varied.arguments(fast=True) == {"draws": 5, "betas": [2.0]}
    assert varied.digest(True) == varied.digest(False) != entry.digest(False)
    assert entry.label(False) == "wendel" != varied.label(False)
    assert varied.label(False) == f"wendel-{varied.digest(False)[:8]}"


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"drews": 3}, r"key must be a setting of wendel \(draws, betas, deep\); got 'drews'"),
        ({"draws": 2.5}, r"draws must be of the kind of 9; got 2\.5"),
        ({"draws": True}, "draws must be of the kind of 9; got True"),
        ({"betas": 1.0}, r"betas must be of the kind of \[1\.0\]; got 1\.0"),
        ({"betas": ["one"]}, r"betas must be a list like \[1\.0\]; got 'one'"),
        ({"deep": [[1, "two"]]}, "deep must be a list like"),
    ],
)
def test_a_change_of_another_kind_is_refused(changes, complaint):
    settings = {"draws": 9, "betas": [1.0], "deep": [[2, 5.0]]}
    with pytest.raises(ValueError, match=complaint) as told:
        Entry(**GOOD, name="wendel", settings=settings).changed(changes)
    assert "\n" not in str(told.value)
