"""`metastable inspect` and what lies behind it, on tiny models made here."""

import json
import sys

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from metastable import kinds
from metastable.cli.inspect import inspect as command
from metastable.flows import Trajectory
from metastable.models.inspection import inspect
from metastable.models.prompts import Prompt
from metastable.models.study import study
from metastable.report.pages.inspect import figures_of_inspection

from .made import IDS, save_tiny

pytest.importorskip("transformers")
KEYS = (
    "model architecture tied layers tokens mean_cosine mass_099 clusters_099 effective_rank "
    "energy_violations out"
)


@pytest.fixture(scope="module")
def albert(tmp_path_factory):
    """A tiny ALBERT with a word tokeniser, so that texts can be read."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    folder = save_tiny("albert", tmp_path_factory.mktemp("tiny") / "albert")
    words = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *"we hold these truths to be self evident".split()]
    inside = Tokenizer(models.WordLevel({w: k for k, w in enumerate(words)}, "[UNK]"))
    inside.pre_tokenizer = pre_tokenizers.Whitespace()
    inside.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    told = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
    PreTrainedTokenizerFast(tokenizer_object=inside, **told).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    file = tmp_path_factory.mktemp("text") / "text.txt"
    file.write_text("we hold these truths to be self evident\nto be evident we hold these truths\n")
    return file


def call(*arguments):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_json_page_and_figures_from_one_command(albert, text, tmp_path):
    out = tmp_path / "out"
    done = call(albert, "--text", text, "--lines", "--depth", 9, "--out", out, "--json")
    assert done.exit_code == 0, done.exception
    told = json.loads(done.stdout)
    assert set(KEYS.split()) <= set(told)
    assert told["tied"] and (told["layers"], told["depth"], told["tokens"]) == (4, 9, 10)
    for name in "mean_cosine mass_099 clusters_099 effective_rank".split():
        assert len(told[name]) == len(told["control"][name]) == 10
    assert told["study"]["prompts"] == 2 and told["out"] == str(out)
    assert told["words"][:3] == ["[CLS]", "we", "hold"]
    assert not told["first_token"]["found"]
    page = (out / "report.html").read_text()
    for said in (
        "Cosines of all pairs of different tokens",
        "same shape without training",
        "truths",
        # The columns of the table say what they are, and no two are called the same.
        "distance from consensus",
        "untrained cosine",
        "untrained clusters",
    ):
        assert said in page
    kept = kinds.open(out)
    assert kept.to_dict() == told
    kept = Trajectory.from_dataset(kept.data["trajectory"])
    assert kept.statistics["words"] == told["words"] and len(kept.frames) == 10
    drawn = "groups histograms cosines clusters words ranks energies parts alignment study maps"
    for name in f"{drawn} sinks hypotheses heads".split():
        assert (out / "figures" / f"{name}.svg").stat().st_size > 5000
    again = call(albert, "--text", text, "--out", out)
    assert isinstance(again.exception, ValueError) and "new or empty" in str(again.exception)


def test_the_table_says_every_choice(albert, text):
    done = call(albert, "--text", text, "--no-special", "--no-control", "--ablate", "beta=2")
    assert done.exit_code == 0, done.exception
    for said in (
        "2 left out",
        "raw",
        "ScaledBeta(factor=2.0)",
        "no first-token effect",
        "clusters",
    ):
        assert said in done.stdout


def test_bad_input_is_refused_in_one_sentence(albert, text, tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text(" \n")
    for arguments, said in (
        ((albert, "--text", tmp_path / "none"), "--text must be a file"),
        ((albert, "--text", empty), "is empty"),
        ((tmp_path / "none", "--text", text), "model must be a folder"),
        ((albert, "--text", text, "--ablate", "soul"), "ablation must be one of"),
    ):
        found = call(*arguments).exception
        assert isinstance(found, ValueError) and said in str(found)
        assert "\n" not in str(found)


def test_without_the_extra_one_line_says_what_to_install(albert, text, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    found = call(albert, "--text", text).exception
    assert isinstance(found, ValueError)
    told = "inspect needs the package transformers: install the extra [models], as README says."
    assert str(found) == told


def test_a_folder_of_texts_counts_all_of_them(albert, tmp_path):
    for k, words in enumerate(("we hold these truths", "to be self evident", "truths to be")):
        (tmp_path / f"{k}.txt").write_text(words)
    told = json.loads(call(albert, "--text", tmp_path, "--json", "--no-control").stdout)
    assert told["study"]["prompts"] == 3 and told["tokens"] == 6
    assert set(told["study"]) == {"times", "prompts", "trained", "shuffled"}


def test_a_study_is_the_mean_and_deviation_of_its_prompts(albert):
    prompts = [IDS, IDS[::-1], IDS[:6], [*IDS[3:], 8, 9]]
    found = study(albert, prompts, arms=("trained", "untrained"))
    each = [inspect(albert, [one], control=False).table.mean_cosine for one in prompts]
    spread = found.spread("trained", "mean_cosine")
    assert spread.mean == pytest.approx(np.mean(each, axis=0), abs=1e-6)
    assert spread.deviation == pytest.approx(np.std(each, axis=0, ddof=1), abs=1e-6)
    other = found.series["untrained"]["mean_cosine"]
    assert other.shape == (4, 5) and not np.allclose(other[0], other[1])


def test_shuffling_keeps_the_tokens_and_the_frame():
    marks = (True, *[False] * 8, True)
    read = Prompt(tuple(range(10)), tuple("abcdefghij"), marks)
    mixed = read.shuffled(0)
    assert sorted(mixed.ids) == list(range(10)) and mixed.ids != read.ids
    assert mixed.ids[0] == 0 and mixed.ids[-1] == 9
    assert [read.words[k] for k in mixed.ids] == list(mixed.words)


def test_models_of_ids_and_untied_layers_are_drawn_too(tmp_path):
    folder = save_tiny("llama", tmp_path / "llama")
    found = inspect(folder, [IDS])
    assert found.pull is None and found.analogies == {} and found.study is None
    assert {"histograms", "words", "maps"} <= set(figures_of_inspection(found))
