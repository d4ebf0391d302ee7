"""What `load` takes: names in the Hugging Face cache, tokenisers, precisions, devices; refusals."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from metastable.models import folder as folders
from metastable.models import twin
from metastable.models.capture import capture
from metastable.models.folder import load
from metastable.models.own.transformer import DecoderOnly, TransformerConfig
from metastable.models.pretrained import cached, cached_names

from .made import IDS, config_of, save_tiny
from .test_refusals import edit, refused

transformers = pytest.importorskip("transformers")
WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *"we hold these truths to be self evident".split()]
SENTENCE = "we hold these truths to be self evident"


def tokenizer_of(words):
    from tokenizers import Tokenizer, models, pre_tokenizers

    inside = Tokenizer(models.WordLevel({w: k for k, w in enumerate(words)}, "[UNK]"))
    inside.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inside, pad_token="[PAD]")


def put(hub, name, kind="gpt2", commit="a1b2", main=True):
    """A model as huggingface_hub lays it: blobs, and snapshots that link to them."""
    place = hub / f"models--{name.replace('/', '--')}"
    snapshot = place / "snapshots" / commit
    blobs = save_tiny(kind, place / "blobs")
    tokenizer_of(WORDS).save_pretrained(blobs)
    snapshot.mkdir(parents=True)
    for file in blobs.iterdir():
        (snapshot / file.name).symlink_to(file)
    if main:
        (place / "refs").mkdir()
        (place / "refs" / "main").write_text(commit)
    return snapshot


@pytest.fixture
def hub(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)  # where no folder is called like a model
    (tmp_path / "hub").mkdir()
    return tmp_path / "hub"


def model_in_memory(kind="gpt2", **told):
    torch.manual_seed(0)
    return transformers.AutoModel.from_config(config_of(kind), attn_implementation="sdpa", **told)


def test_a_cached_model_is_found_by_its_name(hub):
    put(hub, "tiny"), put(hub, "someone/tiny-bert", "bert")
    network = load("tiny")
    assert (network.name, network.architecture) == ("tiny", "gpt2")
    assert capture(network, SENTENCE).statistics["words"] == SENTENCE.split()
    assert load("someone/tiny-bert").architecture == "bert"
    assert cached_names() == ["someone/tiny-bert", "tiny"]


def test_main_says_which_snapshot(hub):
    first = put(hub, "tiny", commit="old")
    newer = first.with_name("new")
    newer.mkdir()
    assert cached("tiny") == first
    (first.parents[1] / "refs" / "main").write_text("new\n")
    assert cached("tiny") == newer
    (first.parents[1] / "refs" / "main").unlink()
    assert cached("tiny") is None  # two, and nothing says which
    newer.rmdir()
    assert cached("tiny") == first


def test_where_the_cache_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    here = put(tmp_path / ".cache" / "huggingface" / "hub", "tiny")
    assert cached("tiny") == here
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    assert cached("tiny") is None
    there = put(tmp_path / "home" / "hub", "tiny")
    assert cached("tiny") == there


def test_a_name_that_is_not_cached(hub):
    refused(lambda: load("gpt2"), "nothing at gpt2: no model is cached in .*hub")
    for k in range(7):
        put(hub, f"org/m{k}")
    said = r"nothing at gpt2: cached are org/m0, org/m1, org/m2, org/m3, org/m4 and 2 more"
    refused(lambda: load("gpt2"), said)
    for name in ("../tiny", "a/b/c", "org/../../x", "org/", ""):
        assert cached(name) is None
    (hub / "models--half" / "snapshots" / "x").mkdir(parents=True)
    refused(lambda: load("half"), r"must hold config\.json")


def test_cached_code_is_not_run(hub):
    edit(put(hub, "tiny") / "config.json", auto_map={"AutoModel": "evil.Model"})
    refused(lambda: load("tiny"), "must not ask for code of its own")


def test_a_file_of_states_is_no_model(tmp_path):
    for name in ("states.npz", "states.safetensors"):
        (tmp_path / name).write_bytes(b"")
        refused(lambda name=name: load(tmp_path / name), "Trajectory.from_states")


def test_a_model_in_memory_reads_texts_with_a_tokeniser(hub, tmp_path):
    model, words = model_in_memory(), tokenizer_of(WORDS)
    run = capture(load(model, tokenizer=words), SENTENCE)
    assert run.statistics["words"] == SENTENCE.split()
    ids = [WORDS.index(word) for word in SENTENCE.split()]
    assert np.array_equal(run.points, capture(model, ids).points)
    put(hub, "tiny")
    words.save_pretrained(tmp_path / "words")
    for place in ("tiny", tmp_path / "words"):
        assert len(load(model, place).tokenizer) == len(WORDS)
    ours = DecoderOnly(TransformerConfig(vocabulary=40, width=16, heads=4, layers=1))
    assert capture(load(ours, tokenizer=words), SENTENCE).statistics["tokens"] == 8


def test_tokenisers_that_do_not_fit(hub, tmp_path):
    model = model_in_memory()
    many = tokenizer_of([*WORDS, *(f"word{k}" for k in range(60))])
    refused(lambda: load(model, tokenizer=many), "below the vocabulary 40 of .* one of 72 words")
    refused(lambda: load(model, tokenizer=many._tokenizer), "must be one of transformers; got Tok")
    refused(lambda: load(model, tokenizer=3), "must be one of transformers; got int")
    refused(lambda: load(model, tokenizer="absent"), "tokenizer must .* nothing at absent")
    refused(lambda: load(model, tokenizer=tmp_path), "tokenizer must be in the folder")
    told = {"auto_map": {"AutoTokenizer": ["evil.Tokenizer", None]}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(told))
    refused(lambda: load(model, tokenizer=tmp_path), "must not ask for code of its own")
    # A word added, as for padding, harms only where it is met.
    padded = tokenizer_of(WORDS)
    padded.add_tokens([f"<{k}>" for k in range(40)])
    network = load(model, tokenizer=padded)
    assert capture(network, SENTENCE).statistics["tokens"] == 8
    refused(lambda: capture(network, "we hold <39>"), "below the vocabulary 40; got 51: use")


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16", torch.float64])
@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert"])
def test_files_and_models_in_memory_run_in_the_precision_asked_for(kind, dtype, tmp_path):
    """Against transformers itself in the same precision."""
    place = save_tiny(kind, tmp_path / kind)
    kept = transformers.AutoModel.from_pretrained(place)
    wanted = dtype if isinstance(dtype, torch.dtype) else twin.DTYPES[dtype]
    other = transformers.AutoModel.from_pretrained(place, dtype=wanted, attn_implementation="eager")
    with torch.no_grad():
        states = other.eval()(torch.tensor([IDS]), output_hidden_states=True).hidden_states
    for source in (place, kept, load(kept)):
        run = capture(source, IDS, dtype=dtype, sphere=False, final_norm=True)
        assert run.statistics["dtype"] == str(wanted).removeprefix("torch.")
        for frame, state in zip(run.frames, states, strict=True):
            assert np.array_equal(frame.points, state[0].double().numpy())
    assert capture(kept, IDS).statistics["dtype"] == "float32"


def test_half_precision_is_kept_unless_told_otherwise():
    model = model_in_memory("llama").to(torch.bfloat16)
    assert capture(model, IDS).statistics["dtype"] == "bfloat16"
    network = load(model, dtype="float32")
    assert capture(network, IDS).statistics["dtype"] == "float32"
    assert load(network) is network and load(network, dtype="float32") is network
    assert all(tensor.dtype == torch.bfloat16 for tensor in model.parameters())


def test_precisions_and_devices_that_are_none(tmp_path):
    model = model_in_memory()
    refused(lambda: load(model, dtype="int8"), "dtype must be float32, float64, .* got 'int8'")
    refused(lambda: load(model, dtype=torch.int64), "dtype must be")
    refused(lambda: load(model, device="cuda:99"), r"one that torch sees here \(cpu.*'cuda:99'")
    refused(lambda: load(model, device="moon"), "device must be")
    refused(lambda: load(model.to("meta")), "must hold its weights")
    assert str(load(model_in_memory(), device="cpu").device) == "cpu"
    if not torch.cuda.is_available():
        refused(lambda: load(save_tiny("gpt2", tmp_path), device="cuda"), "got 'cuda': leave it")


def test_a_model_larger_than_the_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    place = save_tiny("gpt2", tmp_path)
    size = (place / "model.safetensors").stat().st_size
    monkeypatch.setattr(folders, "_read_weights", lambda *_, **__: pytest.fail("it was read"))
    monkeypatch.setattr(twin, "free_memory", lambda device: 1.5 * size)
    refused(
        lambda: load(place, dtype="float64"), "fit the free memory of the cpu; .* float64 needs"
    )
    edit(place / "config.json", dtype="bfloat16")  # the file then holds twice as many numbers
    refused(lambda: load(place), "fit the free memory")
    monkeypatch.setattr(twin, "free_memory", lambda device: 1e3)
    refused(lambda: load(model_in_memory(), dtype="float64"), "GPT2Model needs .* and 1000.0 B")
    load(model_in_memory())  # shares its tensors


def test_the_memory_that_shards_need_is_that_of_the_index(tmp_path):
    place = save_tiny("gpt2", tmp_path)
    whole = place / "model.safetensors"
    size, config = whole.stat().st_size, json.loads((place / "config.json").read_text())
    whole.rename(place / "model-00001.safetensors")
    (place / "consolidated.safetensors").write_bytes(bytes(10**6))  # of another library
    index = {"weight_map": {"a": "model-00001.safetensors", "b": "model-00001.safetensors"}}
    (place / "model.safetensors.index.json").write_text(json.dumps(index))
    assert folders._size(place, config, torch.float32) == size
    assert folders._size(place, config, torch.bfloat16) == size / 2
    assert twin.free_memory(torch.device("cpu")) > 1e6


def fingerprint(model):
    """Everything about a model that looking at it could change."""
    return {
        "bytes": {k: (v.data_ptr(), v.clone()) for k, v in model.state_dict().items()},
        "config": json.dumps(model.config.to_dict(), default=str, sort_keys=True),
        "attention": model.config._attn_implementation,
        "modes": [module.training for module in model.modules()],
        "hooks": [
            (len(m._forward_hooks), len(m._forward_pre_hooks), len(m._backward_hooks))
            for m in model.modules()
        ],
        "kinds": [(t.dtype, t.device, t.requires_grad) for t in model.parameters()],
        "buffers": [(t.dtype, t.device) for t in model.buffers()],
    }


@pytest.mark.parametrize("dtype", [None, "float64", "bfloat16"])
@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5"])
def test_the_users_model_is_as_it_was(kind, dtype):
    from metastable.models.inspection import inspect

    model = model_in_memory(kind).train()
    model.register_forward_hook(lambda *_: None)
    before = fingerprint(model)
    network = load(model, dtype=dtype, device="cpu")
    capture(network, [IDS, IDS[::-1]], part="encoder" if kind == "t5" else "")
    capture(model, IDS, dtype=dtype, stream=lambda depth, x: None)
    if kind == "llama":
        inspect(network, [IDS], control=False)
    after = fingerprint(model)
    for name, (place, tensor) in before.pop("bytes").items():
        assert after["bytes"][name][0] == place and torch.equal(after["bytes"][name][1], tensor)
    after.pop("bytes")
    assert before == after
    mine = {tensor.data_ptr() for tensor in model.parameters()}
    theirs = {tensor.data_ptr() for tensor in network.model.parameters()}
    assert mine == theirs if dtype is None else not mine & theirs


def test_weights_that_are_one_stay_one():
    """The head of GPT-2 is its table of words."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config_of("gpt2"))
    other = twin.twin_of(model, torch.float64, None)
    assert other.lm_head.weight is other.transformer.wte.weight
    assert other.lm_head.weight.dtype == torch.float64
    assert model.lm_head.weight.dtype == torch.float32


def test_rotary_frequencies_keep_their_precision():
    network = load(model_in_memory("llama"), dtype="bfloat16")
    assert network.model.rotary_emb.inv_freq.dtype == torch.float32
    assert network.model.norm.weight.dtype == torch.bfloat16


def test_a_tokeniser_can_be_given_to_a_network():
    network = load(model_in_memory())
    words = tokenizer_of(WORDS)
    assert dataclasses.replace(network).tokenizer is None
    assert load(network, tokenizer=words).tokenizer is words and network.tokenizer is None
