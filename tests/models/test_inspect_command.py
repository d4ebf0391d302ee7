"""`metastable inspect` and its spec: sentences, several models, several β, devices."""

import tomllib

import pytest
import typer
from typer.testing import CliRunner

from metastable import kinds
from metastable.cli.inspect import inspect as command
from metastable.models import inspection, inspections
from metastable.models.ablate import ScaledBeta
from metastable.models.spec import Inspect, inspect_spec, is_sentence, read_prompts

from .test_inspect import albert as albert
from .test_inspect import text as text

pytest.importorskip("transformers")
SENTENCE = "we hold these truths to be self evident"


def call(*arguments):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.fixture
def asked(monkeypatch):
    """What the command asks for, without looking at any model."""
    found = {}

    def one(model, texts, **told):
        found.update(models=model, texts=texts, told=told)
        raise ValueError("seen one")

    def many(models, texts, *, betas, **told):
        found.update(models=models, texts=texts, betas=betas, told=told)
        raise ValueError("seen many")

    monkeypatch.setattr(inspection, "inspect", one)
    monkeypatch.setattr(inspections, "inspect_many", many)
    return found


def test_a_sentence_a_file_and_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "b.txt").write_text("three")
    (tmp_path / "with a space").write_text("four")
    for given, lines, expected in (
        (SENTENCE, False, [SENTENCE]),
        ("truths", False, ["truths"]),
        ("he and/or she", False, ["he and/or she"]),
        ("a sentence. " * 400, False, ["a sentence. " * 400]),  # longer than any name
        ("a.txt", False, ["one\ntwo\n"]),
        ("a.txt", True, ["one", "two"]),
        ("texts", False, ["three"]),
        (str(tmp_path / "texts"), False, ["three"]),
        ("with a space", False, ["four"]),
    ):
        assert read_prompts(given, lines) == expected
    for absent in ("absent.txt", "texts/absent", "my article.txt", "./absent", "/absent"):
        assert not is_sentence(absent)
        with pytest.raises(ValueError, match=r"nothing at .*: check the path") as caught:
            read_prompts(absent, False)
        assert "\n" not in str(caught.value)
    (tmp_path / "empty.txt").write_text(" \n")
    for empty, where in (("empty.txt", "empty.txt"), ("  ", "the sentence"), ("", "")):
        with pytest.raises(ValueError, match=f"--text must hold text; {where}"):
            read_prompts(empty, False)


def test_one_model_is_inspected_as_before(asked):
    assert "seen one" in str(call("A", "--text", SENTENCE, "--tokens", 9).exception)
    assert asked["models"] == "A" and asked["texts"] == [SENTENCE]
    told = asked["told"]
    assert (told["tokens"], told["dtype"], told["device"]) == (9, "float32", None)
    assert not {"betas", "model", "text", "lines"} & set(told)


def test_several_models_and_betas(asked):
    done = call("A", "B", "--text", SENTENCE, "--device", "cpu", "--dtype", "bfloat16")
    assert "seen many" in str(done.exception)
    assert asked["models"] == ("A", "B") and asked["betas"] == ()
    assert (asked["told"]["device"], asked["told"]["dtype"]) == ("cpu", "bfloat16")
    done = call("A", "--text", SENTENCE, "--beta", 0.5, "--beta", 2, "--ablate", "beta=3")
    assert "seen many" in str(done.exception)
    assert asked["models"] == ("A",) and asked["betas"] == (0.5, 2.0)
    assert asked["told"]["ablate"] == [ScaledBeta(3.0)]


def test_bad_options_are_one_line(albert, text):
    for arguments, said in (
        ((albert, "--text", SENTENCE, "--dtype", "int8"), "dtype must be"),
        ((albert, "--text", SENTENCE, "--device", "moon"), "device must be"),
        ((albert, "--text", SENTENCE, "--beta", "nan"), "betas.0 must be a finite number"),
        ((text, "--text", SENTENCE), "model must be a folder or a .gguf file; got the file"),
    ):
        found = call(*arguments).exception
        assert isinstance(found, ValueError) and said in str(found)
        assert "\n" not in str(found)


def test_a_sentence_is_inspected_and_kept(albert, tmp_path):
    out = tmp_path / "out"
    done = call(albert, "--text", SENTENCE, "--no-control", "--dtype", "bfloat16", "--out", out)
    assert done.exit_code == 0, done.exception
    kept = kinds.open(out)
    assert kept.to_dict()["words"][1:-1] == SENTENCE.split()
    assert kept.to_dict()["choices"]["dtype"] == "bfloat16"
    again = Inspect.load(out / "spec.toml")
    assert again.text == SENTENCE and again.digest == kept.spec.digest


def test_specs_old_and_new(tmp_path, asked):
    (tmp_path / "old.toml").write_text(
        'kind = "inspect"\nmodel = "A"\ntext = "a.txt"\ndtype = "float64"\nablate = ["no-norms"]\n'
    )
    old = Inspect.load(tmp_path / "old.toml")
    assert (old.models, old.betas, old.device) == (("A",), (), None)
    assert old.text == str(tmp_path / "a.txt")  # beside the spec
    (tmp_path / "a.txt").write_text("one")
    with pytest.raises(ValueError, match="seen one"):
        inspect_spec(old, None, False)
    (tmp_path / "texts").mkdir()
    (tmp_path / "new.toml").write_text(
        f'kind = "inspect"\nmodel = ["A", "B"]\ntext = "{SENTENCE}"\nbetas = [1, 0.5]\n'
        'device = "cpu"\n'
    )
    new = Inspect.load(tmp_path / "new.toml")
    assert new.models == ("A", "B") and new.betas == (1.0, 0.5) and new.text == SENTENCE
    assert Inspect.load(tmp_path / "new.toml", {"text": "texts"}).text == "texts"
    (tmp_path / "again.toml").write_text(new.to_toml())
    assert Inspect.load(tmp_path / "again.toml") == new
    (tmp_path / "folder.toml").write_text('kind = "inspect"\nmodel = "A"\ntext = "texts"\n')
    assert Inspect.load(tmp_path / "folder.toml").text == str(tmp_path / "texts")
    for wrong in ("model = []", "model = 3", 'model = ["A", 3]', 'betas = ["x"]', "betas = [inf]"):
        key = wrong.split()[0]
        tree = {"kind": "inspect", "model": "A", "text": "a"}
        with pytest.raises(ValueError, match=rf"^{key}") as caught:
            Inspect.from_tree(tree | tomllib.loads(wrong))
        assert "\n" not in str(caught.value)


def test_the_digest_follows_the_text(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("one")
    first = Inspect(model="A", text=str(file)).digest
    file.write_text("two")
    assert Inspect(model="A", text=str(file)).digest != first
    assert Inspect(model="A", text="one two").digest != Inspect(model="A", text="two one").digest
    assert Inspect(model="A", text="a sentence. " * 400).digest
