"""Several prompts, some of the states, and states that are looked at and not kept."""

import gc
import importlib
import weakref

import numpy as np
import pytest
import torch

import metastable as ms
from metastable.models.ablate import AttentionOnly, ScaledBeta
from metastable.models.capture import capture
from metastable.models.folder import load
from metastable.models.own.transformer import DecoderOnly, EncoderDecoder, TransformerConfig
from metastable.models.prompts import read_prompt

from .made import IDS, config_of, save_tiny
from .test_refusals import refused

transformers = pytest.importorskip("transformers")
capturing = importlib.import_module("metastable.models.capture")
KINDS = ["gpt2", "albert", "bert", "t5", "llama", "distilbert"]


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    home = tmp_path_factory.mktemp("tiny")
    return {kind: load(save_tiny(kind, home / kind)) for kind in KINDS}


def keep(depth, x):
    return depth, np.array(x)


def same(streamed, run):
    assert streamed.clock == "layers" and np.array_equal(streamed.times, run.times)
    assert [depth for depth, _ in streamed.results] == run.times.tolist()
    for (_, x), frame in zip(streamed.results, run.frames, strict=True):
        assert np.allclose(x, frame.points, rtol=0, atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "told",
    [
        {},
        {"depth": 2, "sphere": False},
        {"final_norm": True, "sphere": False},
        {"first": False, "centre": "centred"},
        {"ablate": [ScaledBeta(3.0), AttentionOnly()]},
        {"layers": [0, -1]},
        {"depth": 7, "cycle": True, "layers": 3},
        {"sublayers": True, "layers": [1, 2, -2]},
    ],
)
def test_a_stream_sees_what_a_trajectory_keeps(networks, kind, told):
    streamed = capture(networks[kind], IDS, stream=keep, **told)
    run = capture(networks[kind], IDS, **told)
    same(streamed, run)
    assert streamed.outcome == run.outcome
    known = ("layers", "tied", "words", "dtype", "final_norm", "stepper")
    assert all(streamed.statistics[name] == run.statistics[name] for name in known)


@pytest.mark.parametrize("told", [{"step": 0.25, "depth": 2}, {"step": 0.5}, {"depth": 40}])
def test_a_tied_model_is_streamed_past_its_depth_and_in_steps(networks, told):
    network = networks["albert"]
    same(capture(network, IDS, stream=keep, **told), capture(network, IDS, **told))
    few = capture(network, IDS, layers=[-1], **told)
    assert np.array_equal(few.points[0], capture(network, IDS, **told).points[-1])


@pytest.mark.parametrize("kind", ["bert", "albert", "distilbert"])
def test_gains_are_taken_off_a_stream_too(networks, kind):
    told = {"gain": False, "sphere": False, "depth": 5, "cycle": True}
    same(capture(networks[kind], IDS, stream=keep, **told), capture(networks[kind], IDS, **told))


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_both_parts_of_an_encoder_decoder_are_streamed(networks, part):
    ours = EncoderDecoder(TransformerConfig(vocabulary=40, width=16, heads=4, layers=2))
    for model in (networks["t5"], ours):
        told = {"part": part, "final_norm": True}
        same(capture(model, IDS, stream=keep, **told), capture(model, IDS, **told))


def test_models_of_ours_and_unknown_ones_are_streamed(tmp_path):
    ours = DecoderOnly(TransformerConfig(vocabulary=40, width=16, heads=4, layers=3))
    unknown = save_tiny("biogpt", tmp_path)
    for model in (ours, unknown):
        same(capture(model, IDS, stream=keep), capture(model, IDS))


def test_which_layers_are_kept(networks):
    whole = capture(networks["bert"], IDS)  # three layers, four states
    for layers, kept in (
        ("all", [0, 1, 2, 3]),
        (2, [0, 2, 3]),
        (1, [0, 1, 2, 3]),
        (9, [0, 3]),
        ([0], [0]),
        ([-1, 1], [1, 3]),
        (np.array([3, 3, -4]), [0, 3]),
        (range(1, 3), [1, 2]),
    ):
        run = capture(networks["bert"], IDS, layers=layers)
        assert run.times.tolist() == kept and np.array_equal(run.points, whole.points[kept])
        assert run.statistics["stepper"] == "3 layers"
        both = capture(networks["bert"], [IDS, IDS[::-1]], layers=layers)
        assert np.allclose(both[0].points, run.points, atol=1e-6)


def test_bad_layers_and_streams(networks):
    network = networks["bert"]
    for layers, said in (
        ("most", "layers must be 'all'"),
        (0, "layers must be an integer >= 1"),
        (True, "layers must be an integer"),
        ([4], "from -4 to 3, the states of .*; got 4"),
        ([-5], "layers must be an integer >= -4; got -5"),
        ([1.5], "layers must be an integer"),
        ([], "got none"),
    ):
        for stream in (None, keep):
            refused(lambda a=layers, b=stream: capture(network, IDS, layers=a, stream=b), said)
    refused(lambda: capture(network, IDS, stream=3), "stream must be a function of")
    refused(lambda: capture(network, IDS, stream=keep, depth=9), "depth must be at most 3")
    refused(lambda: capture(network, IDS, stream=keep, step=0.5), "step must be 1")
    refused(lambda: capture(networks["gpt2"], IDS, stream=keep, gain=False), "gain must stay")
    refused(lambda: capture(network, 7), "prompt must be a text, ids, or a list of such; got int")
    with pytest.raises(ZeroDivisionError):  # the user's own error is his to see
        capture(network, IDS, stream=lambda depth, x: 1 / 0)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in network.model.modules())


@pytest.mark.parametrize("kind", KINDS)
def test_several_prompts_give_several_trajectories(networks, kind, monkeypatch):
    """Those of one length together, whatever their order; each as if it were alone."""
    prompts = [IDS, IDS[:5], IDS[::-1], np.array(IDS[3:8]), torch.tensor(IDS[2:]), IDS[:5][::-1]]
    sizes = []
    inner = capturing.pass_rows

    def counted(network, rows, **told):
        sizes.append(len(rows))
        return inner(network, rows, **told)

    alone = [capture(networks[kind], prompt, sphere=False) for prompt in prompts]
    monkeypatch.setattr(capturing, "pass_rows", counted)
    runs = capture(networks[kind], prompts, sphere=False)
    assert sorted(sizes) == [1, 2, 3] and isinstance(runs, list)
    for run, one in zip(runs, alone, strict=True):
        assert np.allclose(run.points, one.points, atol=2e-6)
        assert run.statistics["words"] == one.statistics["words"]
    sizes.clear()
    monkeypatch.setattr(capturing, "BATCH", 11)
    capture(networks[kind], prompts)
    assert sorted(sizes) == [1, 1, 1, 1, 2]


def test_prompts_of_every_kind(networks):
    network = networks["bert"]
    read = read_prompt(network, IDS)
    table = np.array([IDS, IDS[::-1]])
    for prompt, count in (
        ([read, IDS], 2),
        ((IDS,), 1),
        (table, 2),
        (torch.tensor(table), 2),
        (transformers.BatchEncoding({"input_ids": [IDS]})["input_ids"], 1),
    ):
        runs = capture(network, prompt)
        assert isinstance(runs, list) and len(runs) == count
    for prompt in (read, tuple(IDS), np.array(IDS), torch.tensor(IDS)):
        assert isinstance(capture(network, prompt), ms.Trajectory)
    refused(lambda: capture(network, [IDS, [3, 40]]), "ids must be below the vocabulary 40")
    refused(lambda: capture(network, [IDS, [3]]), "at least two tokens")
    streams = capture(network, [IDS, IDS[:4]], stream=lambda depth, x: x.shape)
    assert [one.results[0] for one in streams] == [(11, 32), (4, 32)]


def test_a_long_prompt_through_many_layers_is_held_a_layer_at_a_time():
    """Weak references tell which states live on: at most those of the layer under way."""
    config = config_of("llama", num_hidden_layers=30, max_position_embeddings=1200)
    torch.manual_seed(0)
    network = load(transformers.AutoModel.from_config(config))
    ids = np.random.default_rng(0).integers(1, 40, 1000)
    arrays, alive, largest = [], [], []

    def look(depth, x):
        alive.append(sum(ref() is not None for ref in arrays))
        if depth in (1, 29):
            tensors = [one for one in gc.get_objects() if type(one) is torch.Tensor]
            largest.append(sum(one.shape == (1, 1000, 32) for one in tensors))
        arrays.append(weakref.ref(x))
        return float(np.linalg.norm(x.mean(axis=0)))

    found = capture(network, ids, stream=look)
    assert len(found.results) == 31 and max(alive) <= 1
    assert largest[1] <= largest[0] + 2  # of the layer under way, at any depth
    run = capture(network, ids, layers=[0, 30])
    means = [np.linalg.norm(np.asarray(frame.points).mean(axis=0)) for frame in run.frames]
    assert found.results[0] == pytest.approx(means[0]) and found.results[-1] == pytest.approx(
        means[1]
    )


def blown(kind="gpt2", dtype=torch.float16, scale=1e4):
    """A model whose second layer leaves the range of float16."""
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(config_of(kind))
    with torch.no_grad():
        model.h[1].mlp.c_proj.weight.mul_(scale).add_(scale)
    return model.to(dtype)


@pytest.mark.parametrize("stream", [None, keep])
def test_leaving_the_range_of_float16_is_told(stream):
    run = capture(blown(), IDS, stream=stream)
    assert run.outcome.name == "blow_up" and run.times.tolist() == [0.0, 1.0]
    said = "States left the range of float16 after layer 1. Use dtype='bfloat16' or 'float32'"
    assert run.outcome.message.startswith(said)
    assert capture(blown(), IDS, stream=stream, dtype="bfloat16").outcome.name == "done"
    last = capture(blown(), IDS, stream=stream, layers=[-1])  # not reached: the last there is
    assert last.times.tolist() == [1.0]
    one, two = capture(blown(), [IDS, IDS[::-1]], stream=stream)
    assert one.outcome == two.outcome == run.outcome


def test_leaving_the_range_of_float32_names_it_and_another_remedy():
    run = capture(blown(dtype=torch.float32, scale=1e38), IDS)
    assert run.outcome.message.startswith("States left the range of float32 after layer 1. Run")


@pytest.mark.parametrize("kind", ["gpt2", "bert", "biogpt"])
@pytest.mark.parametrize("stream", [None, keep])
def test_weights_that_are_no_numbers(kind, stream):
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(config_of(kind))
    with torch.no_grad():
        model.get_input_embeddings().weight[7] = torch.nan
    said = "weights of .* must give finite embeddings in float32"
    refused(lambda: capture(model, IDS, stream=stream), said)
    refused(lambda: capture(model, [IDS, IDS], stream=stream), said)


def test_an_interrupt_keeps_what_was_seen(networks):
    def stop(depth, x):
        if depth == 2:
            raise KeyboardInterrupt
        return depth

    found = capture(networks["bert"], IDS, stream=stop)
    assert found.outcome.name == "interrupted" and found.results == [0.0, 1.0]
    with pytest.raises(KeyboardInterrupt):
        capture(networks["bert"], [IDS, IDS], stream=stop)
