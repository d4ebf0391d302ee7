"""Verdicts on captured transformers: they agree with honest runs and flip under planted errors."""

import contextlib
import copy
import dataclasses

import numpy as np
import pytest
import torch

import metastable as ms
from metastable.core.verdict import Comparison
from metastable.models.anatomy import layers_of, part_at
from metastable.models.capture import capture
from metastable.models.captured import Captured
from metastable.models.folder import load
from metastable.models.network import Network
from metastable.models.prompts import Prompt
from tests.models.made import IDS, save_tiny

ATTENTION = (
    "gpt2 gpt_neox opt bert distilbert albert llama mistral qwen2 qwen3 smollm3 gemma2 gemma3_text "
    "phi3 mixtral olmoe"
).split()


def prompt_of(ids):
    return Prompt(tuple(ids), tuple(map(str, ids)), (False,) * len(ids))


def verdicts(network: Network, stated: Network | None = None, part: str = "", **more) -> Comparison:
    moved = Captured(network, prompt_of(IDS), part, stated=stated, **more)
    frames = (ms.uniform(3, 3, seed=0),) * 2
    run = ms.Trajectory(np.arange(2.0), frames, "layers", ms.Outcome("done", ""), {}, field=moved)
    return ms.compare(run)


def flipped(rows: Comparison) -> set[str]:
    return {row.claim.split(";")[0] for row in rows.rows if row.verdict == "disagree"}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    made = {}

    def get(kind):
        if kind not in made:
            made[kind] = load(save_tiny(kind, tmp_path_factory.mktemp(kind)))
        return made[kind]

    return get


@pytest.mark.parametrize("kind", ATTENTION)
def test_ten_rows_agree_on_every_attention_anatomy(tiny, kind):
    rows = verdicts(tiny(kind))
    assert not flipped(rows)
    assert rows.count("agree") >= 10


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_t5_in_both_parts(tiny, part):
    rows = verdicts(tiny("t5"), part=part)
    assert not flipped(rows)
    assert rows.count("agree") >= 10


def test_mamba_has_rows_of_its_own(tiny):
    rows = verdicts(tiny("mamba"))
    assert not flipped(rows)
    assert rows.count("agree") >= 4


@contextlib.contextmanager
def planted(network: Network, change):
    """A copy of a network with one layer changed."""
    model = copy.deepcopy(network.model)
    wrong = dataclasses.replace(network, model=model)
    anatomy = wrong.anatomy()
    assert anatomy is not None
    handle = change(layers_of(model, anatomy)[1], anatomy)
    yield wrong
    if handle is not None:
        handle.remove()


def negate_value(layer, anatomy):
    """V of the first head, which has k rows."""
    values = part_at(layer, anatomy.projections[2])
    with torch.no_grad():
        rows = values.weight.shape[0] // 4
        values.weight[:rows] *= -1
        if getattr(values, "bias", None) is not None:
            values.bias[:rows] *= -1


def transpose_logits(layer, anatomy):
    query, key = (part_at(layer, path) for path in anatomy.projections[:2])
    with torch.no_grad():
        held = query.weight.clone()
        query.weight.copy_(key.weight)
        key.weight.copy_(held)


def skip_layer(layer, anatomy):
    def back(module, args, kwargs, out):
        state = args[0] if args else kwargs["hidden_states"]
        return (state, *out[1:]) if isinstance(out, tuple) else state

    return layer.register_forward_hook(back, with_kwargs=True)


def wrong_norm(layer, anatomy):
    def centre(module, args, out):
        return out - out.mean(-1, keepdim=True)

    return part_at(layer, anatomy.norms[0]).register_forward_hook(centre)


MAPS = "attention weights are the softmax of the stated QᵀK"
ADDS = "attention adds Σ O V P x with the stated O, V"
STREAM = "a layer adds attention and feed-forward, and nothing else"


@pytest.mark.parametrize("kind", ["bert", "opt"])
@pytest.mark.parametrize(
    ("change", "named"),
    [
        (negate_value, {ADDS}),
        (transpose_logits, {MAPS}),
        (skip_layer, {STREAM, "change of energy = attention + feed-forward + norm"}),
        (wrong_norm, {"norms do what their gain says"}),
    ],
)
def test_planted_errors_flip_named_rows(tiny, kind, change, named):
    with planted(tiny(kind), change) as wrong:
        rows = flipped(verdicts(wrong, stated=tiny(kind)))
    if kind == "bert" and change is skip_layer:  # its energy moves by norms too
        named = {STREAM}
    assert named <= rows


def test_a_negated_value_leaves_the_hull_of_the_first_token(tiny):
    """Under a causal mask the first token sees one value: its hull is a point."""
    with planted(tiny("opt"), negate_value) as wrong:
        rows = flipped(verdicts(wrong, stated=tiny("opt")))
    assert "what attention adds lies in the hulls of the values it sees" in rows


def test_a_layer_left_out_is_counted(tiny):
    network = tiny("llama")
    model = copy.deepcopy(network.model)
    del model.layers[1]
    rows = flipped(verdicts(dataclasses.replace(network, model=model), stated=network))
    assert "layers applied, one after the other" in rows
    assert MAPS in rows


def test_twins_obey_the_theory_of_random_weights():
    """Ten seeds of a GPT-2 shape at Holm's level of 1 % a page: five rows or more, all agree."""
    from transformers import GPT2Config, GPT2Model

    from metastable.models.network import wrap

    sizes = {"n_embd": 128, "n_layer": 8, "n_head": 4, "n_positions": 64, "vocab_size": 200}
    network = wrap(GPT2Model(GPT2Config(bos_token_id=1, eos_token_id=1, **sizes)))
    ids = np.random.default_rng(0).integers(3, 200, 40).tolist()
    for seed in range(10):
        twin = network.untrained(seed)
        moved = Captured(twin, prompt_of(ids))
        frames = (ms.uniform(3, 3, seed=0),) * 2
        outcome = ms.Outcome("done", "")
        run = ms.Trajectory(np.arange(2.0), frames, "layers", outcome, {}, field=moved)
        rows = ms.compare(run)
        assert sum(row.p is not None for row in rows.rows) >= 5
        assert not flipped(rows)


def test_a_twin_whose_output_knows_its_values_is_noticed():
    """O = Vᵀ: what attention says then points along what it looks at."""
    from transformers import GPT2Config, GPT2Model

    from metastable.models.network import wrap

    sizes = {"n_embd": 128, "n_layer": 8, "n_head": 4, "n_positions": 64, "vocab_size": 200}
    network = wrap(GPT2Model(GPT2Config(bos_token_id=1, eos_token_id=1, **sizes)))
    twin = network.untrained(0)
    wrong = dataclasses.replace(twin, model=copy.deepcopy(twin.model))
    with torch.no_grad():
        for layer in wrong.model.h:  # O turned towards V: what is said points along the token
            inner = layer.attn.c_attn.weight[:, 2 * 128 :]
            layer.attn.c_proj.weight.copy_(inner.T)
    ids = np.random.default_rng(0).integers(3, 200, 40).tolist()
    frames = (ms.uniform(3, 3, seed=0),) * 2
    field = Captured(wrong, prompt_of(ids))
    run = ms.Trajectory(np.arange(2.0), frames, "layers", ms.Outcome("done", ""), {}, field=field)
    assert "cosine of a token with what attention adds" in flipped(ms.compare(run))


@pytest.mark.claim
@pytest.mark.parametrize("name", ["minilm", "smollm2"])
def test_twins_of_real_architectures_obey_the_theory_of_random_weights(name):
    """Ten seeds each at 1 % a page; a page of ten that disagrees would be one in a hundred."""
    try:
        network = load(name)
    except ValueError as missing:
        pytest.skip(str(missing))
    text = "Tokens are particles on a sphere, depth is time, attention is the field. " * 5
    for seed in range(10):
        run = capture(network.untrained(seed), text, tokens=64, progress=False)
        rows = ms.compare(run)
        assert sum(row.p is not None for row in rows.rows) >= 5
        assert not flipped(rows), seed


@pytest.mark.parametrize("name", ["minilm", "rxnmapper", "smollm2"])
def test_ten_rows_agree_on_trained_models(name):
    try:
        network = load(name)
    except ValueError as missing:
        pytest.skip(str(missing))
    text = "The bank of the river was muddy. She put her money in the bank on Monday."
    text = "CC(=O)O.OCC>>CC(=O)OCC.O" if name == "rxnmapper" else text
    rows = ms.compare(capture(network, text, progress=False))
    assert not flipped(rows) and rows.count("agree") >= 10


FRAMES = "frames are the states of the model as it is now"


def test_frames_of_another_run_are_noticed(tiny):
    network = tiny("gpt2")
    run = capture(network, IDS)
    assert FRAMES not in flipped(ms.compare(run))
    back = dataclasses.replace(run, frames=run.frames[::-1])
    assert FRAMES in flipped(ms.compare(back))
    points = np.array(run.frames[2].points)
    points[3] = points[4]
    frames = (*run.frames[:2], ms.Points(points), *run.frames[3:])
    assert FRAMES in flipped(ms.compare(dataclasses.replace(run, frames=frames)))


def test_a_model_changed_since_it_was_captured_is_noticed(tiny):
    network = dataclasses.replace(tiny("gpt2"), model=copy.deepcopy(tiny("gpt2").model))
    run = capture(network, IDS)
    with torch.no_grad():
        network.model.h[1].mlp.c_proj.weight *= 0.5
    assert FRAMES in flipped(ms.compare(run))


def test_half_precision_does_not_agree_with_everything(tiny):
    rows = ms.compare(capture(tiny("gpt2"), IDS, dtype="bfloat16"))
    assert not flipped(rows)
    coarse = [row for row in rows.rows if "too coarse" in row.reason]
    assert len(coarse) >= 4 and rows.count("agree") >= 4


def test_a_list_of_runs_is_refused_in_one_line(tiny):
    with pytest.raises(ValueError, match="compare each"):
        ms.compare(capture(tiny("gpt2"), [IDS, IDS]))
