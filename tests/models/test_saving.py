"""Models in folders: the same model comes back; anything else is refused."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from metastable.models.own.recurrent import Recurrent, RecurrentConfig
from metastable.models.own.saving import load_model, save_model
from metastable.models.own.transformer import DecoderOnly, EncoderDecoder, TransformerConfig

CONFIG = TransformerConfig(7, 16, 4, 2, 24, norm_first=True, padding=0)
MODELS = {
    "decoder": DecoderOnly(CONFIG, seed=3),
    "tied": DecoderOnly(TransformerConfig(7, 16, 4, 3, 24, tied=True), seed=3),
    "encoder-decoder": EncoderDecoder(CONFIG, seed=3),
    "recurrent": Recurrent(RecurrentConfig(7, "gru", 16, layers=2), seed=3),
}
IDS = torch.tensor([[1, 2, 3, 4]])


def scores(model):
    return (model.given(IDS) if isinstance(model, EncoderDecoder) else model).log_probs(IDS)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_round_trip(model, tmp_path):
    folder = save_model(model, tmp_path / "kept")
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    back = load_model(folder)
    assert type(back) is type(model) and back.config == model.config and not back.training
    assert torch.equal(scores(back), scores(model))


def edit(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def spoil_format(folder):
    edit(folder, format="albert")


def spoil_family(folder):
    edit(folder, family="diffusion")


def spoil_key(folder):
    edit(folder, rotary=True)


def spoil_size(folder):
    edit(folder, hidden=25)


def spoil_value(folder):
    edit(folder, heads=3)


def spoil_json(folder):
    (folder / "config.json").write_text("{")


def spoil_object(folder):
    (folder / "config.json").write_text("[]")


def lose_config(folder):
    (folder / "config.json").unlink()


def lose_weights(folder):
    (folder / "model.safetensors").unlink()


def cut_weights(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])


def add_weight(folder):
    path = folder / "model.safetensors"
    save_file(load_file(path) | {"more": torch.zeros(1)}, path)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (spoil_format, "must say format"),
        (spoil_family, "must be one of decoder, encoder-decoder, recurrent; got 'diffusion'"),
        (spoil_key, "odd: rotary"),
        (spoil_size, "names or shapes differ"),
        (spoil_value, "a multiple of heads"),
        (spoil_json, "must be a readable JSON file"),
        (spoil_object, "must hold a JSON object"),
        (lose_config, "must be a readable JSON file"),
        (lose_weights, "must hold the weights, whole"),
        (cut_weights, "must hold the weights, whole"),
        (add_weight, "names or shapes differ"),
    ],
)
def test_what_is_unknown_is_refused(spoil, said, tmp_path):
    folder = save_model(MODELS["decoder"], tmp_path / "kept")
    spoil(folder)
    with pytest.raises(ValueError, match=said):
        load_model(folder)


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match="folder must be new or empty"):
        save_model(MODELS["decoder"], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
