"""A file or folder given to the wrong command is sent to the right one."""

import json
import sys
from pathlib import Path

import pytest

import metastable as ms
from metastable.cli import main
from metastable.core.recognise import advise

ROOT = Path(__file__).parents[2]


@pytest.fixture
def places(tmp_path):
    """One of each kind of thing that people hand in."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps({"model_type": "bert"}))
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    (unfinished / "spec.toml").write_text('kind = "flow"\n')
    finished = tmp_path / "finished"
    finished.mkdir()
    (finished / "spec.toml").write_text('kind = "flow"\n')
    (finished / "manifest.json").write_text("{}")
    (tmp_path / "weights.gguf").write_bytes(b"GGUF")
    (tmp_path / "flow.toml").write_text("[field]\nbeta = 9.0\n")
    (tmp_path / "sweep.toml").write_text('[axes]\n"field.beta" = [1.0]\n')
    (tmp_path / "audit.toml").write_text('[corpus]\nkind = "sotu"\n')
    (tmp_path / "learn.toml").write_text('kind = "clusters"\n')
    (tmp_path / "mine.py").write_text("x = 1\n")
    return tmp_path


WRONG = [
    ("compare", "model", "metastable inspect {} --text FILE"),
    ("report", "weights.gguf", "metastable inspect {} --text FILE"),
    ("run", "model", "metastable inspect {} --text FILE"),
    ("run", "sweep.toml", "metastable sweep {} --out DIR"),
    ("run", "audit.toml", "metastable audit run {} --out DIR"),
    ("sweep", "flow.toml", "metastable run {}"),
    ("audit run", "flow.toml", "metastable run {}"),
    ("learn", "flow.toml", "metastable run {}"),
    ("sweep", "learn.toml", "metastable learn {}"),
    ("compare", "flow.toml", "metastable run {}"),
    ("inspect", "finished", "metastable report {}"),
    ("report", "unfinished", "metastable run {0}/spec.toml --out {0}"),
    ("run", "mine.py", "metastable run SPEC.toml --plugin {}"),
]


@pytest.mark.parametrize(("command", "name", "right"), WRONG)
def test_the_right_command_is_named(command, name, right, places):
    assert f"use `{right.format(places / name)}`." in advise(places / name, command)


RIGHT = [
    *(("inspect", "model"), ("inspect", "weights.gguf"), ("compare", "finished")),
    *(("report", "finished"), ("run", "flow.toml"), ("run", "learn.toml"), ("learn", "learn.toml")),
    *(("sweep", "sweep.toml"), ("audit run", "audit.toml"), ("audit plan", "audit.toml")),
]


@pytest.mark.parametrize(("command", "name"), RIGHT)
def test_a_command_that_takes_it_is_left_alone(command, name, places):
    assert advise(places / name, command) is None


@pytest.mark.parametrize("text", ["not toml at all", 'kind = 3\nx = "\\ud800"', "[" * 3000])
def test_what_is_not_known_is_not_guessed_at(text, tmp_path):
    file = tmp_path / "odd.toml"
    file.write_text(text)
    assert advise(file, "run") is None and advise(tmp_path / "nothing", "run") is None
    (tmp_path / "config.json").write_text("[" * 100_000)
    assert advise(tmp_path, "compare") is None


COMMANDS = [["compare", "model"], ["run", "sweep.toml"], ["sweep", "status", "unfinished"]]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_command_line_says_so_in_one_line(words, places, monkeypatch, capsys):
    name = words[-1]
    monkeypatch.setattr(sys, "argv", ["metastable", *words[:-1], str(places / name)])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert ended.value.code == 2 and said.count("\n") == 1 and f"{places / name} is " in said


def test_python_says_so_too(places):
    with pytest.raises(ValueError, match="is a Hugging Face model folder: use `metastable inspect"):
        ms.open(places / "model")


def test_every_stored_spec_is_recognised():
    """Each spec in experiments/ runs by the command that is named for it: those kinds exist."""
    from metastable import kinds

    specs = sorted((ROOT / "experiments").rglob("*.toml"))
    assert len(specs) > 10
    for spec in specs:
        advice = advise(spec)
        assert advice is not None, spec
        kind = advice.split(" is the spec of a ")[1].split(":")[0]
        assert kinds.spec_class(kind).load(spec), spec


@pytest.mark.parametrize(
    ("settings", "meant"),
    [
        ({"flow.horizn": 3.0}, "horizon"),
        ({"field.bta": 3.0}, "beta"),
        ({"mesure.dim": 3}, "measure"),
        ({"field.kind": "self_atention"}, "self_attention"),
    ],
)
def test_a_slip_of_the_pen_is_understood(settings, meant):
    from metastable.flows.spec import Experiment

    with pytest.raises(ValueError, match=rf"did you mean {meant}\?"):
        Experiment.from_tree({}, settings)


def test_a_key_of_another_table_is_not_proposed():
    from metastable.flows.spec import Experiment

    with pytest.raises(ValueError, match="remove it or check its spelling"):
        Experiment.from_tree({}, {"flow.tokns": 3})
