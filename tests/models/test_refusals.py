"""Bad models and texts: one sentence each, and nothing of a model is ever executed."""

import json
import pickle

import pytest
import torch

from metastable.models.capture import capture
from metastable.models.folder import load
from metastable.models.own.transformer import DecoderOnly, TransformerConfig
from metastable.models.prompts import SmilesTokenizer, read_prompt

from .made import IDS, save_tiny

pytest.importorskip("transformers")


@pytest.fixture
def folder(tmp_path):
    return save_tiny("bert", tmp_path / "bert")


def refused(what, match):
    with pytest.raises(ValueError, match=match) as caught:
        what()
    assert "\n" not in str(caught.value)


def edit(path, **told):
    path.write_text(json.dumps(json.loads(path.read_text()) | told))


def test_missing_weights(folder):
    (folder / "model.safetensors").unlink()
    refused(lambda: load(folder), "folder must hold weights")


def test_truncated_weights(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-2000])
    refused(lambda: load(folder), "missing, cut short or of another model")


def test_weights_that_lack_a_tensor(folder):
    from safetensors.torch import load_file, save_file

    kept = load_file(folder / "model.safetensors")
    del kept["encoder.layer.1.output.dense.weight"]
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    refused(lambda: load(folder), r"1 tensors are missing, such as encoder\.layer\.1\.output")


def test_weights_of_another_shape(folder):
    edit(folder / "config.json", intermediate_size=64)
    refused(lambda: load(folder), "of another model")


class Bomb:
    def __reduce__(self):
        return (open, ("exploded", "w"))


def test_a_pickle_that_needs_code(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (folder / "model.safetensors").unlink()
    torch.save({"embeddings.word_embeddings.weight": Bomb()}, folder / "pytorch_model.bin")
    refused(lambda: load(folder), "asks for code to be run, and it was not")
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    refused(lambda: load(folder), "weights")
    assert not (tmp_path / "exploded").exists()


def test_a_pickle_of_tensors_alone_is_read(folder):
    from safetensors.torch import load_file

    before = capture(folder, IDS).points
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert (capture(folder, IDS).points == before).all()


def test_a_folder_that_asks_for_remote_code(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (folder / "evil.py").write_text("open('exploded', 'w')\n")
    edit(folder / "config.json", auto_map={"AutoModel": "evil.Model"})
    refused(lambda: load(folder), "must not ask for code of its own")
    assert not (tmp_path / "exploded").exists()


def test_a_tokeniser_that_asks_for_remote_code(folder):
    told = {"auto_map": {"AutoTokenizer": ["evil.Tokenizer", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    refused(lambda: load(folder), "must not ask for code of its own")


def test_an_unknown_architecture(folder):
    edit(folder / "config.json", model_type="made_up")
    refused(lambda: load(folder), "one that transformers knows; got model_type 'made_up'")


def test_no_configuration_or_a_broken_one(folder):
    (folder / "config.json").write_text("{")
    refused(lambda: load(folder), "must be JSON")
    (folder / "config.json").unlink()
    refused(lambda: load(folder), r"must hold config\.json")


@pytest.mark.parametrize(
    "told", [{"hidden_size": "x"}, {"num_hidden_layers": None}, {"layers": {}}]
)
def test_a_configuration_of_wrong_types(folder, told):
    if "layers" in told:
        (folder / "config.json").write_text("[1, 2]")
        return refused(lambda: load(folder), "must hold a JSON object; got list")
    edit(folder / "config.json", **told)
    refused(lambda: load(folder), "config.json|weights in")


def test_a_broken_tokeniser(folder):
    (folder / "tokenizer.json").write_text('{"version": ')
    refused(lambda: load(folder), "tokeniser in .* must be readable")


def test_nothing_there_or_nothing_of_use(tmp_path):
    refused(lambda: load(tmp_path / "absent"), "nothing at")
    refused(lambda: load(3), "got int")
    refused(lambda: load(torch.nn.Linear(2, 2)), "got Linear")
    refused(lambda: load(tmp_path, dtype="float8"), "dtype must be")


def test_a_gguf_file_that_is_none(tmp_path, monkeypatch, capsys):
    pytest.importorskip("gguf")
    monkeypatch.setenv("METASTABLE_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF" + bytes(40))
    refused(lambda: load(file), "GGUF file of an architecture")
    assert not list((tmp_path / "cache").glob("*"))
    assert capsys.readouterr().err == ""  # the refusal is the only line


def test_texts_and_ids(folder):
    network = load(folder)
    refused(lambda: capture(network, "   "), "text must not be empty")
    refused(lambda: capture(network, "a text"), "give ids or bytes instead")
    refused(lambda: capture(network, []), "at least two tokens")
    refused(lambda: capture(network, [3, 40]), "ids must be below the vocabulary 40")
    refused(lambda: capture(network, [3] * 65), "at most 64 tokens.*got 65")
    refused(lambda: capture(network, [3, -1]), "ids must be an integer")
    assert len(read_prompt(network, [3] * 65, tokens=64)) == 64


def test_choices(folder):
    network = load(folder)
    refused(lambda: capture(network, IDS, centre="middle"), "centre must be one of")
    refused(lambda: capture(network, IDS, depth=0), "depth must be")
    refused(lambda: capture(network, IDS, step=1.5), "step must lie in")
    refused(lambda: capture(network, IDS, part="decoder"), "part must be one that bert has")
    refused(lambda: capture(network, IDS[:2], first=False), "two tokens must be left")


def test_our_own_models_have_no_tokeniser():
    model = DecoderOnly(TransformerConfig(vocabulary=40, width=16, heads=4, layers=1))
    refused(lambda: capture(model, "abc"), "has none: put its tokenizer.json")


@pytest.fixture
def smiles(tmp_path):
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "C",
        "O",
        "Br",
        "Cl",
        ">>",
        ".",
        "(",
        ")",
    ]
    (tmp_path / "vocab.txt").write_text("\n".join([*words, "=", "1", "c", "[O-]"]))
    return SmilesTokenizer(tmp_path / "vocab.txt")


def test_reactions_are_cut_into_atoms(smiles, tmp_path):
    ids = smiles.encode("CCO.Br>>CCBr")
    assert [smiles.words[k] for k in ids] == "[CLS] C C O . Br >> C C Br [SEP]".split()
    assert [smiles.words[k] for k in smiles.encode("C[O-].Cl\n")][2] == "[O-]"
    assert smiles.words[smiles.encode("[Pd]C")[1]] == "[UNK]"
    assert SmilesTokenizer.suits(tmp_path)
    refused(lambda: smiles.encode("we hold"), "must be reaction SMILES")
