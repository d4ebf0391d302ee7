"""States against transformers' own, called independently; continuation, choices, refusals."""

import numpy as np
import pytest
import torch

import metastable as ms
from metastable.models.capture import attention_maps, capture
from metastable.models.folder import load
from metastable.models.network import wrap
from metastable.models.own.transformer import DecoderOnly, EncoderDecoder, Trace, TransformerConfig

from .made import IDS, save_tiny

pytest.importorskip("transformers")
KINDS = ["gpt2", "albert", "bert", "t5", "llama", "distilbert"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    home = tmp_path_factory.mktemp("tiny")
    return {kind: save_tiny(kind, home / kind) for kind in KINDS}


def reference(folder, **told):
    """Hidden states straight from transformers, with its default attention."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder, local_files_only=True).eval()
    row = torch.tensor([IDS])
    if model.config.is_encoder_decoder:
        told["decoder_input_ids"] = torch.tensor([[0, *IDS[:-1]]])
    with torch.no_grad():
        return model(row, output_hidden_states=True, output_attentions=False, **told)


@pytest.mark.parametrize("kind", KINDS)
def test_states_equal_those_of_transformers(folders, kind):
    found = reference(folders[kind])
    for part in ("encoder", "decoder") if kind == "t5" else ("",):
        expected = getattr(found, f"{part}_hidden_states" if part else "hidden_states")
        run = capture(folders[kind], IDS, part=part, final_norm=True, sphere=False)
        assert len(run.frames) == len(expected)
        for frame, state in zip(run.frames, expected, strict=True):
            assert np.allclose(frame.points, state[0].numpy(), atol=2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_cosine_is_that_of_a_direct_computation(folders, kind):
    run = capture(folders[kind], IDS, final_norm=True)
    states = reference(folders[kind])
    states = states.encoder_hidden_states if kind == "t5" else states.hidden_states
    for frame, state in zip(run.frames, states, strict=True):
        x = torch.nn.functional.normalize(state[0].double(), dim=-1).numpy()
        pairs = (x @ x.T)[~np.eye(len(x), dtype=bool)]
        assert ms.similarity(frame).mean == pytest.approx(pairs.mean(), abs=1e-6)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5"])
def test_the_final_norm_is_left_out_unless_asked_for(folders, kind):
    """The last hidden state of transformers is the final norm of ours."""
    network = load(folders[kind])
    run = capture(network, IDS, sphere=False)
    norm = {"gpt2": "ln_f", "llama": "norm", "t5": "encoder.final_layer_norm"}[kind]
    last = torch.tensor(np.asarray(run.frames[-1].points, np.float32))
    found = reference(folders[kind])
    expected = found.encoder_last_hidden_state if kind == "t5" else found.last_hidden_state
    with torch.no_grad():
        normed = network.model.get_submodule(norm)(last)
    assert torch.allclose(normed, expected[0], atol=2e-6)
    assert "before it" in run.statistics["final_norm"]
    assert "not comparable" in capture(network, IDS, final_norm=True).statistics["final_norm"]


@pytest.mark.parametrize("kind", ["albert", "bert", "gpt2", "llama", "t5"])
def test_sublayers_are_the_sums_of_the_residual_stream(folders, kind):
    """After the attention half, as the layer's own parts give it."""
    network = load(folders[kind])
    run = capture(network, IDS, sublayers=True, sphere=False)
    assert run.times.tolist() == [k / 2 for k in range(len(run.times))]
    x = torch.tensor(np.asarray(run.frames[0].points, np.float32))[None]
    half = np.asarray(run.frames[1].points)
    places = torch.arange(len(IDS))[None]
    with torch.no_grad():
        if kind == "albert":
            layer = network.model.encoder.albert_layer_groups[0].albert_layers[0]
            expected = layer.attention(x)[0]
        elif kind == "bert":
            expected = network.model.encoder.layer[0].attention(x)[0]
        elif kind == "t5":
            expected = network.model.encoder.block[0].layer[0](x)[0]
        else:
            block = network.model.h[0] if kind == "gpt2" else network.model.layers[0]
            ahead = torch.full((len(IDS), len(IDS)), -torch.inf).triu(1)[None, None]
            if kind == "gpt2":
                expected = x + block.attn(block.ln_1(x), attention_mask=ahead)[0]
            else:
                turn = network.model.rotary_emb(x, places)
                expected = x + block.self_attn(block.input_layernorm(x), turn, ahead)[0]
    assert np.allclose(half, expected[0].numpy(), atol=2e-6)


@pytest.mark.parametrize("kind", ["albert", "bert", "gpt2", "llama", "t5"])
def test_attention_maps_equal_those_of_transformers(folders, kind):
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folders[kind], attn_implementation="eager").eval()
    told = {"decoder_input_ids": torch.tensor([[0]])} if kind == "t5" else {}
    with torch.no_grad():
        found = model(torch.tensor([IDS]), output_attentions=True, **told)
    expected = found.encoder_attentions if kind == "t5" else found.attentions
    maps, words = attention_maps(folders[kind], IDS)
    assert np.allclose(maps, torch.cat(expected).numpy(), atol=1e-6)
    assert words == [str(one) for one in IDS]


def test_a_tied_model_goes_on_past_its_depth_as_a_deeper_one_would(folders, tmp_path):
    """transformers, told that the same ALBERT has eleven layers, is the oracle."""
    deep = capture(folders["albert"], IDS, depth=11, sphere=False)
    expected = reference(folders["albert"])  # trained depth: 4
    assert deep.statistics["tied"] and deep.statistics["layers"] == 4
    assert np.allclose(deep.frames[4].points, expected.hidden_states[4][0], atol=2e-6)
    from transformers import AutoModel

    longer = AutoModel.from_pretrained(folders["albert"], num_hidden_layers=11).eval()
    with torch.no_grad():
        states = longer(torch.tensor([IDS]), output_hidden_states=True).hidden_states
    for frame, state in zip(deep.frames, states, strict=True):
        assert np.allclose(frame.points, state[0].numpy(), atol=1e-5)


def test_groups_of_two_layers_repeat_with_period_two(tmp_path):
    folder = save_tiny("albert", tmp_path / "two", inner_group_num=2)
    run = capture(folder, IDS, depth=10, sphere=False)
    assert run.statistics["tied"] and run.statistics["layers"] == 8
    from transformers import AutoModel

    longer = AutoModel.from_pretrained(folder, num_hidden_layers=5).eval()
    with torch.no_grad():
        states = longer(torch.tensor([IDS]), output_hidden_states=True).hidden_states
    assert np.allclose(run.frames[10].points, states[-1][0], atol=1e-5)


def test_untied_layers_come_round_again_only_on_request(folders):
    with pytest.raises(ValueError, match=r"depth must be at most 3.*cycle"):
        capture(folders["bert"], IDS, depth=7)
    run = capture(folders["bert"], IDS, depth=7, cycle=True, sphere=False)
    layers = load(folders["bert"]).model.encoder.layer
    x = torch.tensor(np.asarray(run.frames[3].points, np.float32))[None]
    with torch.no_grad():
        for k in range(4):
            x = layers[k % 3](x)
    assert np.allclose(run.frames[7].points, x[0], atol=1e-5)


def test_continuous_depth_is_eulers_scheme_of_the_layer(folders):
    network = load(folders["albert"], dtype="float64")
    layer = network.model.encoder.albert_layer_groups[0].albert_layers[0]
    run = capture(network, IDS, depth=2, step=0.25, sphere=False)
    assert run.times.tolist() == [0.25 * k for k in range(9)]
    x = torch.tensor(np.asarray(run.frames[0].points))[None]
    with torch.no_grad():
        for _ in range(8):
            x = 0.75 * x + 0.25 * layer(x)
    assert np.allclose(run.frames[-1].points, x[0], atol=1e-12)
    with pytest.raises(ValueError, match="step must be 1"):
        capture(folders["bert"], IDS, step=0.5)


def test_heads_can_be_merged_as_in_the_notebook(folders):
    """One head of full width: transformers, told so in its configuration, is the oracle."""
    from transformers import AutoModel

    one = AutoModel.from_pretrained(folders["albert"], num_attention_heads=1).eval()
    with torch.no_grad():
        expected = one(torch.tensor([IDS])).last_hidden_state[0]
    run = capture(folders["albert"], IDS, heads=1, sphere=False)
    assert np.allclose(run.frames[-1].points, expected, atol=2e-6)
    assert run.statistics["heads"] == 1
    with pytest.raises(ValueError, match="heads must"):
        capture(folders["albert"], IDS, heads=5)


def test_choices_act_and_are_recorded(folders):
    bare = capture(folders["bert"], IDS, gain=False, sphere=False)
    for frame in bare.frames:  # a norm without gain and bias: mean 0, length √d
        x = np.asarray(frame.points)
        assert np.allclose(x.mean(axis=1), 0, atol=1e-5)
        assert np.allclose(np.linalg.norm(x, axis=1), np.sqrt(32), rtol=1e-4)
    with pytest.raises(ValueError, match="gain must stay"):
        capture(folders["gpt2"], IDS, gain=False)
    less = capture(folders["bert"], IDS, first=False, sphere=False)
    whole = capture(folders["bert"], IDS, sphere=False)
    assert np.allclose(less.points, whole.points[:, 1:])
    middle = capture(folders["bert"], IDS, centre="centred", sphere=False)
    assert np.allclose(middle.points, whole.points - whole.points.mean(axis=1, keepdims=True))
    same = capture(folders["bert"], IDS, centre="standardised", sphere=False)
    assert np.allclose(same.points.std(axis=1), 1)
    told = less.statistics
    assert (told["first"], told["centre"], told["gain"]) == ("left out", "raw", "kept")
    assert capture(folders["bert"], IDS).frames[0].on_sphere


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_our_own_transformers_are_captured_too(norm_first, tied):
    """Against the trace they keep themselves."""
    torch.manual_seed(0)
    told = {"vocabulary": 40, "width": 16, "heads": 4, "layers": 3, "hidden": 24}
    config = TransformerConfig(**told, norm_first=norm_first, tied=tied)
    row = torch.tensor([IDS])
    for model in (DecoderOnly(config), EncoderDecoder(config)):
        trace = Trace()
        with torch.no_grad():
            if isinstance(model, DecoderOnly):
                model.forward_embeddings(model.embed(row), depth=5, trace=trace)
            else:
                model.encode(row, depth=5, trace=trace)
        run = capture(model, IDS, depth=5, cycle=True, sublayers=True, sphere=False)
        assert run.statistics["tied"] is tied
        assert np.allclose(run.points[::2], torch.cat(trace.states).numpy(), atol=1e-5)
        assert np.allclose(run.points[1::2], torch.cat(trace.middles).numpy(), atol=1e-5)
        maps, _ = attention_maps(model, IDS, depth=5, cycle=True)
        assert np.allclose(maps, torch.cat(trace.maps).numpy(), atol=1e-5)


def test_an_architecture_without_a_map_still_gives_its_states(tmp_path):
    from transformers import AutoModel

    folder = save_tiny("biogpt", tmp_path / "biogpt")
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        expected = model(torch.tensor([IDS]), output_hidden_states=True).hidden_states
    run = capture(folder, IDS, sphere=False)
    assert np.allclose(run.points, torch.cat(expected).numpy(), atol=2e-6)
    with pytest.raises(ValueError, match="parts are known"):
        capture(folder, IDS, sublayers=True)


def test_the_untrained_control_has_the_shape_and_other_weights(folders):
    network = wrap(load(folders["albert"]).model)
    one, two = network.untrained(1), network.untrained(1)
    weights = [next(n.model.parameters()) for n in (network, one, two)]
    assert torch.equal(weights[1], weights[2]) and not torch.equal(weights[0], weights[1])
    assert capture(one, IDS).points.shape == capture(network, IDS).points.shape


def test_a_captured_run_is_a_trajectory_like_any_other(folders, tmp_path):
    run = capture(folders["albert"], IDS, depth=6)
    run.save(tmp_path / "run.zarr")
    again = ms.Trajectory.load(tmp_path / "run.zarr")
    assert np.allclose(again.points, run.points) and again.clock == "layers"
    assert again.statistics["words"] == [str(one) for one in IDS]
    assert int(ms.clusters(run.frames[-1])) >= 1 and 0 < ms.energy(run.frames[-1], 1.0)
