"""`metastable inspect` and what lies behind it, on tiny models made here."""

import dataclasses
import json
import sys

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from metastable import kinds
from metastable.cli.inspect import inspect as command
from metastable.flows import Trajectory
from metastable.models.depthwise import depthwise
from metastable.models.folder import load
from metastable.models.inspection import _clusters, inspect
from metastable.models.inspections import Inspections
from metastable.models.prompts import Prompt
from metastable.models.spec import Inspect
from metastable.models.study import study
from metastable.report.figures import figures_of
from metastable.report.pages.inspect import (
    MOST_HEADS,
    _weights,
    figures_of_inspection,
    result_of_inspection,
)

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


def states(*frames):
    """A trajectory of tokens on the circle, by their angles in each state."""
    angles = np.array(frames)
    return Trajectory.from_states(np.stack([np.cos(angles), np.sin(angles)], axis=-1))


def beside(run, twins, cosine):
    """Clusters of a run and of its twins, as an inspection holds them."""
    look = lambda each: depthwise(each, progress=False)
    return _clusters(run, look(run), [(each, look(each)) for each in twins], cosine)


def test_clusters_are_told_and_drawn_at_a_looser_cosine_where_none_is_within_that_asked_for():
    apart, near = [0.0, 1.2, 2.4, 3.6], [0.0, 0.3, 2.0, 3.4]  # cos 0.3 = 0.955
    for later, cosine, drawn, share in (
        (near, 0.99, 0.9, 0.5),
        (near, 0.95, 0.95, 0.5),
        ([0.0, 0.1, 2.0, 3.4], 0.99, 0.99, 0.5),  # cos 0.1 = 0.995
        (apart, 0.99, 0.9, 0.0),
        (near, 0.5, 0.5, 0.5),  # looser than the looser one: the one asked for alone
    ):
        found = beside(states(apart, later), [states(apart, apart)], cosine)
        assert found["strict"].thresholds[0] == cosine
        assert found["loose"].thresholds[0] == min(cosine, 0.9)
        assert found["groups"].thresholds[0] == found["control_groups"].thresholds[0] == drawn
        assert found["loose"].shares.tolist() == [0.0, share]
    assert beside(states(apart, near), [], 0.99)["control_loose"] is None


def test_the_headline_tells_the_model_from_its_twin(albert):
    found = inspect(albert, [IDS], progress=False)
    line = [0.0, 1.0, 2.0, 3.0]
    for later, other, said in (
        ([0.0, 0.3, 2.0, 3.0], line, "50 % from layer 0 to 1; in its untrained twin 0 % → 0 %: in "
         "the end the model gathers more tokens than its twin (one seed of the twin)"),
        (line, [0.0, 0.3, 2.0, 3.0], "the model gathers fewer tokens than its twin (one seed"),
        (line, line, "no difference to speak of (one seed of the twin)"),
    ):  # fmt: skip
        parts = beside(states(line, later), [states(line, other)], 0.99)
        sentence = dataclasses.replace(found, **parts).sentence
        assert said in sentence and "no two within cosine 0.99" in sentence
        assert "At cosine 0.9, tokens in clusters of two or more: 0 % → " in sentence
    alone = dataclasses.replace(found, **beside(states(line, line), [], 0.99))
    assert "twin" not in alone.sentence
    told = found.to_dict()
    assert told["cosine"] == 0.99 and told["gathered"]["cosine"] == 0.9
    assert len(told["gathered"]["share"]) == len(told["gathered"]["untrained_share"]) == 5


def test_a_cosine_is_asked_for_and_the_pictures_say_which_they_show(albert, text, tmp_path):
    out = tmp_path / "out"
    done = call(albert, "--text", text, "--cosine", 0.999999, "--out", out, "--json")
    assert done.exit_code == 0, done.exception
    told = json.loads(done.stdout)
    assert told["cosine"] == 0.999999
    page = (out / "report.html").read_text()
    # The folder's name heads the page, not the path to it.
    assert (
        f"<title>{albert.name} through its layers</title>" in page and str(albert) not in page[:900]
    )
    assert ("Nothing is within cosine 0.999999: this is 0.9." in page) == (
        "no two within cosine 0.999999 between" in page
    )
    with pytest.raises(ValueError, match=r"cosine must lie between −1 and 1; got 1\.5"):
        inspect(albert, [IDS], cosine=1.5)
    refused = call(albert, "--text", text, "--cosine", 2).exception
    assert isinstance(refused, ValueError) and "cosine" in str(refused)


def test_every_head_is_counted_though_the_table_is_cut():
    rows = [
        {
            "layer": k // 12,
            "head": k % 12,
            "limit": "polytope" if k in (3, 50) else "none proved: x",
        }
        for k in range(72)
    ]
    (table,) = _weights(rows, [], 72)
    assert len(table.rows) == MOST_HEADS and "The first 40 of 72" in table.caption
    assert "covers 2 of 72 heads" in table.caption and "(layer.head 0.3, 4.2)" in table.caption
    (table,) = _weights(rows[10:20], [], 10)
    assert table.caption.startswith("10 heads;") and "covers 0 of 10 heads" in table.caption
    assert "layer.head" not in table.caption


def test_figures_of_an_inspection_are_those_of_its_page(albert):
    found = inspect(albert, [IDS], control=False, progress=False)
    assert set(figures_of(found)) == set(figures_of_inspection(found))
    result = result_of_inspection(Inspect(model=str(albert), text="x"), found)
    assert set(figures_of(result)) == set(figures_of(found))
    assert len(result.facts["weights"]["heads"]) == len(found.heads)
    assert set(figures_of(Inspections({"a": found}))) == {"overlay", "groups-0"}
    with pytest.raises(ValueError, match=r"run must be a trajectory, a result or an.*got int"):
        figures_of(3)


def test_a_network_is_one_line(albert):
    assert repr(load(albert)) == (
        f"Network({albert}: albert, {load(albert).heads} heads, {load(albert).width} dimensions, "
        f"{sum(w.numel() for w in load(albert).model.parameters()) / 1e6:.3g} M weights, float32 "
        "on cpu)"
    )
