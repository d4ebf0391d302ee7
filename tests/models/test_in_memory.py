"""A model handed to `load` stays as it was, and is the same model."""

import numpy as np
import pytest
import torch

from metastable.models.capture import attention_maps, capture
from metastable.models.folder import load
from metastable.models.own.transformer import DecoderOnly, TransformerConfig

from .made import IDS, config_of

transformers = pytest.importorskip("transformers")


def tiny(kind):
    torch.manual_seed(0)
    return transformers.AutoModel.from_config(config_of(kind), attn_implementation="sdpa")


@pytest.mark.parametrize("kind", ["gpt2", "bert", "llama", "t5"])
def test_a_model_of_transformers_is_left_as_it_was(kind):
    model = tiny(kind).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    part = "encoder" if kind == "t5" else ""
    maps, _ = attention_maps(load(model), IDS, part=part)
    capture(model, IDS, part=part)
    assert np.allclose(maps.sum(-1), 1.0, atol=1e-5)
    assert model.config._attn_implementation == "sdpa"
    assert all(module.training for module in model.modules())
    assert not any(module._forward_hooks for module in model.modules())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_model_of_ours_is_left_in_its_mode():
    model = DecoderOnly(TransformerConfig(vocabulary=40, width=16, heads=4, layers=1)).train()
    capture(model, IDS)
    assert all(module.training for module in model.modules())


def test_the_weights_are_shared_and_not_copied():
    """What is trained further is seen, without loading again."""
    model = tiny("gpt2").eval()
    network = load(model)
    mine = {tensor.data_ptr() for tensor in model.parameters()}
    assert {tensor.data_ptr() for tensor in network.model.parameters()} == mine
    first = capture(network, IDS, sphere=False).points
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.mul_(1.5)
        expected = model(torch.tensor([IDS]), output_hidden_states=True).hidden_states
    again = capture(network, IDS, sphere=False, final_norm=True).points
    assert not np.allclose(first, again)
    assert np.allclose(again, torch.stack(expected)[:, 0].numpy(), atol=1e-5)
