"""The list of planted bugs fits the code; `make mutants` plants them."""

import re

import pytest

from tests.mutants.run import LIST, ROOT, main, read_mutants

MUTANTS = read_mutants()


def test_there_are_twenty_of_different_names():
    assert len(MUTANTS) == 20
    assert len({mutant.name for mutant in MUTANTS}) == 20


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_changes_one_place_and_names_tests_that_exist(mutant):
    text = (ROOT / "src" / "metastable" / mutant.file).read_text(encoding="utf-8")
    assert mutant.new != mutant.old
    assert mutant.planted(text) != text  # it refuses what does not occur once, or is no Python
    assert 1 <= len(mutant.tests) <= 2
    for test in mutant.tests:
        file, function = test.split("[")[0].split("::")
        assert file.startswith("tests/")
        code = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^def {function}\(", code, re.MULTILINE), test


def test_a_text_that_is_not_there_once_or_no_python_is_an_error_of_the_list():
    mutant = MUTANTS[0]
    for text in ("", 2 * f"{mutant.old}\n"):
        with pytest.raises(ValueError, match="not once"):
            mutant.planted(text)
    with pytest.raises(ValueError, match="no Python"):
        mutant.planted(f"((( {mutant.old}")


def test_the_list_is_told_without_running_anything(capsys):
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 20 and lines[0].split("  ")[1] == MUTANTS[0].name
    with pytest.raises(SystemExit):
        main(["--only", "21"])
    assert LIST.is_file()
