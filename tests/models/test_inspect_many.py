"""Several models on one page, checkpoints as a second axis, sinks by name."""

import copy

import numpy as np
import pytest
import torch

from metastable import kinds
from metastable.models import DecoderOnly, TransformerConfig, inspect_many, save_model
from metastable.models.folder import load
from metastable.models.inspection import inspect
from metastable.models.passes import pass_through
from metastable.models.sinks import Sink, find_sinks, sink_sentence
from metastable.models.spec import Inspect
from metastable.models.stated import stated_layers
from tests.models.made import IDS, save_tiny


@pytest.fixture(scope="module")
def small():
    torch.manual_seed(0)
    config = TransformerConfig(256, width=16, heads=2, layers=3, hidden=32, norm_first=True)
    return DecoderOnly(config).eval()


def sinking(network):
    """The first token gets a key that every query of head 0 likes, in every layer."""
    model = copy.deepcopy(network.model)
    with torch.no_grad():
        for layer in model.h:
            layer.attn.c_attn.bias[:8] = 6.0  # queries of head 0
            layer.attn.c_attn.bias[32:40] = 0.0
        model.wpe.weight[1:] = 0.0
        model.wpe.weight[0] = 30.0 * torch.randn(32, generator=torch.Generator().manual_seed(1))
        seen = [layer.ln_1(model.wpe.weight[:1])[0] for layer in model.h]
        for layer, direction in zip(model.h, seen, strict=True):
            layer.attn.c_attn.weight[:, 32:40] = 2.0 * direction[:, None] / direction.norm()
    return load(model)


def test_sinks_are_those_of_a_direct_computation(tmp_path):
    network = sinking(load(save_tiny("gpt2", tmp_path / "gpt2")))
    layers = pass_through(network, IDS, inside=True).inside
    found = find_sinks(layers, stated_layers(network))
    model = network.model
    model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = model(torch.tensor([IDS]), output_attentions=True, use_cache=False).attentions
    shares = {
        (k, h): float(own[0, h, 3:, 0].mean()) for k, own in enumerate(maps) for h in range(4)
    }
    expected = {place: share for place, share in shares.items() if share > 0.5}
    assert expected  # a head that was made a sink is one
    assert {(s.layer, s.head): s.share for s in found} == pytest.approx(expected, abs=1e-5)
    sentence = inspect(network, [IDS], control=False, progress=False).sentence
    assert f"{found[0].layer}.{found[0].head} (" in sentence


def test_a_model_without_sinks_says_so():
    assert sink_sentence([], 12) == "None of 12 heads is an attention sink"
    assert "1 of 12" in sink_sentence([Sink(0, 1, 0.9, 0.1)], 12)


def test_models_and_betas_on_one_page(tmp_path):
    one = save_tiny("gpt2", tmp_path / "first")
    two = save_tiny("bert", tmp_path / "second")
    ids = [list(np.random.default_rng(k).integers(3, 40, 10)) for k in range(2)]
    found = inspect_many([str(one), str(two)], ids, betas=(0.5, 2.0), progress=False)
    assert list(found.each) == [f"{m}, β × {b}" for m in ("first", "second") for b in ("0.5", "2")]
    assert found.verdicts.agrees
    assert len(found.table()) == 4
    assert set(found.to_dict()["models"]) == set(found.each)


def test_names_that_end_in_numbers_are_steps(small):
    named = {"step 0": small, "step 10": small, "step 200": small}
    found = inspect_many(named, [list(range(60, 72))], control=False, progress=False)
    assert found.steps == [0.0, 10.0, 200.0]
    assert inspect_many([small], [list(range(60, 72))], control=False).steps is None
    shown = found._repr_html_()
    assert repr(found) == found.sentence and "<img alt=" in shown and "<details>" in shown
    assert "<img alt=" in found.each["step 0"]._repr_html_()


def test_folders_of_ours_are_read_byte_by_byte(small, tmp_path):
    """A page from the command's own path, with the curves through training."""
    for step in (1, 20):
        save_model(small, tmp_path / f"step-{step}")
    spec = Inspect(
        model=tuple(str(tmp_path / f"step-{step}") for step in (1, 20)),
        text="To be, or not to be.",
        control=False,
    )
    result = kinds.run(spec, tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "2 models on the same text" in page
    assert {"overlay", "training"} <= set(result.figures)
    assert result.facts["models"]["step-1"]["tokens"] == len("To be, or not to be.")
    again = kinds.open(tmp_path / "out")
    assert again.verdicts.rows == result.verdicts.rows
    network = load(tmp_path / "step-1")
    states = pass_through(network, [10, 20, 30]).states
    direct = pass_through(load(small), [10, 20, 30]).states
    np.testing.assert_array_equal(states, direct)
