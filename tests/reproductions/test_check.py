"""The checker of entries: what it lets pass, what it refuses, and the errors it plants."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from metastable.reproduce.check import check
from metastable.reproduce.planting import planted, read_plant

ENTRY = '''"""Three tokens on the circle."""

from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.hemisphere import wendel_probability

from ._exact import EXACT

ENTRY = Entry(
    title="Three tokens on the circle",
    places=["Theorem 1"],
    claim="Three uniform tokens share a half circle with probability 3/4.",
    method="Compare the closed form with the number.",
    {fields}
    settings={{"tokens": 3}},
)


def three_tokens(*, tokens: int) -> Finding:
    """The closed form of three tokens on the circle, against 3/4."""
    seen = float(wendel_probability(tokens=tokens, dim=2))
    return Finding([judge("probability", "Wendel 1962", EXACT, seen, absolute=1e-12)], {{}})
'''
GOOD = {
    "subject": "existence",
    "limits": "Three tokens on the circle only.",
    "planted": "wendel_probability * 1.01",
}


@pytest.fixture
def write(tmp_path):
    """Writes an entry with these fields into a source of its own, and gives its file."""

    def written(name="toy", text=ENTRY, **fields):
        folder = tmp_path / name
        folder.mkdir()
        about = 'TITLE = "A source"\nKEY = "wendel1962problem"\n'
        (folder / "__init__.py").write_text(about)
        (folder / "_exact.py").write_text("EXACT = 0.75\n")
        file = folder / "three_tokens.py"
        given = "\n    ".join(f"{key}={value!r}," for key, value in fields.items())
        file.write_text(text.format(fields=given), encoding="utf-8")
        return file

    return written


def checked(file, out):
    return check([str(file)], out)["entries"][0]


def test_a_good_entry_passes_and_says_which_row_flips(write, tmp_path):
    record = checked(write(**GOOD), tmp_path / "out")
    assert record["ok"] and record["problems"] == [] and record["verdict"] == "agree"
    assert record["flipped"] == ["probability"] and record["planted"] == GOOD["planted"]


def test_the_skeleton_of_the_documents_passes(write, tmp_path):
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    file = write(**GOOD).with_name("pair_of_tokens.py")
    file.write_text(next(b for b in blocks if "def pair_of_tokens" in b), encoding="utf-8")
    record = checked(file, tmp_path / "out")
    assert record["ok"] and record["flipped"], record["problems"]


def test_an_entry_that_does_not_notice_its_error_is_refused(write, tmp_path):
    file = write(**GOOD | {"planted": "wendel_probability * 1.0"})
    summary = check([str(file)], tmp_path / "out")
    assert summary["failed"] == ["three_tokens"]
    assert summary["entries"][0]["problems"] == ["planted wendel_probability * 1.0: leaves agree"]


@pytest.mark.parametrize("left_out", GOOD)
def test_a_missing_field_is_named(left_out, write, tmp_path):
    fields = {key: value for key, value in GOOD.items() if key != left_out}
    record = checked(write(**fields), tmp_path / "out")
    assert not record["ok"] and f"{left_out} must be filled in" in record["problems"]


def test_an_error_is_looked_for_where_none_is_named(write, tmp_path):
    record = checked(write(**GOOD | {"planted": ""}), tmp_path / "out")
    assert record["proposed"] and record["flipped"] == ["probability"]
    assert read_plant(record["planted"]).name == "wendel_probability"


def test_an_entry_that_is_not_as_known_is_refused(write, tmp_path):
    file = write(**GOOD)
    file.with_name("_exact.py").write_text("EXACT = 0.5\n")
    told = checked(file, tmp_path / "out")["problems"][0]
    assert told.startswith("comes out disagree, known to agree (") and "expected 0.5" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (ENTRY.replace("def three_tokens(*, tokens: int)", "def three_tokens()"), "settings must"),
        (ENTRY.replace("def three_tokens", "def four_tokens"), "must define three_tokens()"),
        (ENTRY.replace('    """The closed form of', '    "" and """'), "must have a docstring"),
        (ENTRY.replace("judge(", "judge("[:-1] + "["), "must be Python"),
        (ENTRY.replace("float(wendel", "float(0 / 0 + wendel"), "raises ZeroDivisionError"),
    ],
)
def test_a_broken_entry_is_told_in_words(text, told, write, tmp_path):
    assert told in ". ".join(checked(write(text=text, **GOOD), tmp_path / "out")["problems"])


def test_names_of_other_entries_must_exist(write, tmp_path):
    file = write(**GOOD | {"implies": ("wendel", "no_such_entry")})
    assert (
        "implies must name entries; no_such_entry is none"
        in (checked(file, tmp_path / "out")["problems"])
    )


def test_a_source_needs_its_title_and_a_key_of_the_bibliography(write, tmp_path):
    file = write(**GOOD)
    file.with_name("__init__.py").write_text('TITLE = "A source"\nKEY = "nobody2000nothing"\n')
    assert (
        "toy/__init__.py must assign KEY, a key of references.bib"
        in (checked(file, tmp_path / "out")["problems"])
    )


def test_what_has_not_changed_is_not_done_again(write, tmp_path, monkeypatch):
    from metastable.reproduce import check as module

    file = write(**GOOD)
    first = checked(file, tmp_path / "out")
    monkeypatch.setattr(module, "examine", lambda contributed: pytest.fail("done twice"))
    assert checked(file, tmp_path / "out") == first
    file.write_text(file.read_text("utf-8") + "# changed\n", encoding="utf-8")
    with pytest.raises(pytest.fail.Exception, match="done twice"):
        checked(file, tmp_path / "out")


def test_the_command_exits_with_one(write, tmp_path):
    file = write(**GOOD | {"limits": ""})
    command = [sys.executable, "-m", "metastable.cli", "reproduce", "--check", str(file), "--json"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out")], capture_output=True, text=True
    )
    assert done.returncode == 1 and json.loads(done.stdout)["failed"] == ["three_tokens"]
    assert "limits must be filled in" in done.stderr


def test_a_class_with_an_error_is_still_that_class():
    class Field:
        def __init__(self, beta):
            self.beta = beta

        @classmethod
        def cold(cls):
            return cls(9.0)

    module = type(sys)("toy_module")
    module.Field = Field
    with planted(module, read_plant("Field.beta * 2.0")):
        assert module.Field(1.0).beta == 2.0 and module.Field.cold().beta == 9.0
        assert isinstance(Field(1.0), module.Field) and not isinstance(1.0, module.Field)
    assert module.Field is Field


def test_errors_in_arguments_results_attributes_and_modules():
    run = SimpleNamespace(times=np.array([1.0, 2.0]))
    module = type(sys)("toy_module")
    module.grow = lambda rate, steps=3: rate * steps
    module.flow = lambda horizon: run
    module.np = np
    for text, seen in {
        "grow.rate * 2.0": lambda: module.grow(1.0) == 6.0,
        "grow.steps + 1": lambda: module.grow(1.0) == 4.0,
        "grow = 7": lambda: module.grow(1.0) == 7,
        "flow.times * 3.0": lambda: module.flow(1.0).times.tolist() == [3.0, 6.0],
        "np.exp * 2.0": lambda: module.np.exp(0.0) == 2.0 and module.np.cos(0.0) == 1.0,
    }.items():
        assert not seen()
        with planted(module, read_plant(text)):
            assert seen(), text
        assert not seen()
    assert run.times.tolist() == [1.0, 2.0] and np.exp(0.0) == 1.0
