"""Each ablation against the layer's own parts put together by hand, and everything put back."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from metastable.models.ablate import (
    AttentionOnly,
    FeedForwardOnly,
    IdentityValue,
    OneHead,
    Resampled,
    ScaledBeta,
    WithoutNorms,
    ablation,
)
from metastable.models.capture import capture
from metastable.models.folder import load
from metastable.models.network import wrap
from metastable.models.own.transformer import DecoderOnly, EncoderDecoder, TransformerConfig

from .made import IDS, save_tiny

pytest.importorskip("transformers")
EVERY = [
    AttentionOnly(),
    FeedForwardOnly(),
    WithoutNorms(),
    ScaledBeta(2.5),
    OneHead(2),
    IdentityValue(1),
    IdentityValue(-1),
    Resampled(3),
]


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    home = tmp_path_factory.mktemp("tiny")
    kinds = ["gpt2", "albert", "bert", "t5", "llama", "distilbert"]
    found = {kind: load(save_tiny(kind, home / kind), dtype="float64") for kind in kinds}
    torch.manual_seed(1)
    told = {"vocabulary": 40, "width": 16, "heads": 4, "layers": 2, "hidden": 24}
    found["own"] = wrap(DecoderOnly(TransformerConfig(**told)))
    found["own pair"] = wrap(EncoderDecoder(TransformerConfig(**told, norm_first=True)))
    return found


def first_step(network, *ablate):
    """State before and after the first layer of ALBERT."""
    run = capture(network, IDS, depth=1, ablate=ablate, sphere=False)
    return (torch.tensor(np.asarray(frame.points)) for frame in run.frames)


def albert_by_hand(layer, x, *, beta=1.0, feed=True, attend=True, norm=True, keep=None, sign=None):
    """The layer written out from its weights, independently of transformers' code."""
    a, heads = layer.attention, 4

    def normed(y, module):
        return F.layer_norm(y, y.shape[-1:], module.weight, module.bias, 1e-12) if norm else y

    def split(linear):
        return (x @ linear.weight.T + linear.bias).reshape(len(x), heads, -1).transpose(0, 1)

    q, k, v = split(a.query), split(a.key), split(a.value)
    P = torch.softmax(beta * q @ k.mT / np.sqrt(q.shape[-1]), -1)
    said = P @ v
    if keep is not None:
        said = said * (torch.arange(heads) == keep)[:, None, None]
    said = said.transpose(0, 1).reshape(len(x), -1) @ a.dense.weight.T + a.dense.bias
    if sign is not None:
        said = sign * P.mean(0) @ x
    x = normed(x + said * attend, a.LayerNorm)
    inner = F.gelu(x @ layer.ffn.weight.T + layer.ffn.bias, approximate="tanh")
    fed = inner @ layer.ffn_output.weight.T + layer.ffn_output.bias
    return normed(x + fed * feed, layer.full_layer_layer_norm)


@pytest.mark.parametrize(
    ("ablate", "told"),
    [
        ((), {}),
        ((AttentionOnly(),), {"feed": False}),
        ((FeedForwardOnly(),), {"attend": False}),
        ((WithoutNorms(),), {"norm": False}),
        ((ScaledBeta(3.0),), {"beta": 3.0}),
        ((OneHead(1),), {"keep": 1}),
        ((IdentityValue(1),), {"sign": 1}),
        ((IdentityValue(-1), AttentionOnly()), {"sign": -1, "feed": False}),
    ],
    ids=lambda one: str(one),
)
def test_an_ablated_layer_is_what_its_equation_says(networks, ablate, told):
    network = networks["albert"]
    layer = network.model.encoder.albert_layer_groups[0].albert_layers[0]
    x, after = first_step(network, *ablate)
    with torch.no_grad():
        assert torch.allclose(after, albert_by_hand(layer, x, **told), atol=1e-10)


@pytest.mark.parametrize("kind", ["gpt2", "bert", "t5", "llama", "distilbert", "own", "own pair"])
@pytest.mark.parametrize("one", EVERY, ids=repr)
def test_every_ablation_changes_every_architecture_and_is_undone(networks, kind, one):
    network = networks[kind]
    before = capture(network, IDS, sphere=False).points
    changed = capture(network, IDS, ablate=[one], sphere=False).points
    assert np.isfinite(changed).all() and np.abs(changed[-1] - before[-1]).max() > 1e-6
    assert np.array_equal(capture(network, IDS, sphere=False).points, before)


@pytest.mark.parametrize("kind", ["gpt2", "bert", "llama"])
def test_without_attention_tokens_do_not_see_each_other(networks, kind):
    """Changing one token leaves all the others as they were."""
    other = [*IDS]
    other[3] = 30
    one, two = (
        capture(networks[kind], ids, ablate=[FeedForwardOnly()], sphere=False).points
        for ids in (IDS, other)
    )
    same = np.arange(len(IDS)) != 3
    assert np.allclose(one[:, same], two[:, same]) and not np.allclose(one[-1, 3], two[-1, 3])


def test_resampled_weights_have_the_same_entries(networks):
    layer = networks["bert"].model.encoder.layer[1]
    weight = layer.output.dense.weight
    before = weight.detach().clone()
    with Resampled(0).on(networks["bert"]):
        assert not torch.equal(weight, before)
        assert torch.equal(weight.flatten().sort().values, before.flatten().sort().values)
    assert torch.equal(weight, before)


def test_a_model_that_explodes_ends_with_an_outcome(networks):
    """Weights scaled up, and no norm to hold the states: they overflow within sixty layers."""
    network = networks["albert"].untrained(0)
    with torch.no_grad():
        for weight in network.model.encoder.parameters():
            weight.mul_(1e4)
    run = capture(network, IDS, depth=60, ablate=[WithoutNorms()])
    assert run.outcome.name == "blow_up" and len(run.frames) < 61
    assert np.isfinite(run.points).all()


def test_names_on_the_command_line():
    assert ablation("no-norms") == WithoutNorms() and ablation("beta=2") == ScaledBeta(2.0)
    assert ablation("resampled") == Resampled(0) and ablation("attention-only") == AttentionOnly()
    for wrong in ("none", "beta", "beta=x", "value=2", "head=-1"):
        with pytest.raises(ValueError, match="ablation must be one of"):
            ablation(wrong)


def test_a_head_that_is_not_there_is_refused(networks):
    with pytest.raises(ValueError, match="head must be below 4"):
        capture(networks["bert"], IDS, ablate=[OneHead(4)])
