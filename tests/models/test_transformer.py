"""Our layers against torch.nn's under shared weights, and the properties that define them."""

import math

import pytest
import torch
from torch import nn

from metastable.models.own.transformer import (
    Attention,
    DecoderOnly,
    EncoderDecoder,
    Layer,
    Stack,
    Trace,
    TransformerConfig,
    causal,
    sinusoids,
)

D, H, HIDDEN = 32, 8, 48
SMALL = TransformerConfig(vocabulary=11, width=D, heads=H, layers=3, hidden=HIDDEN)
PRECISION = [(torch.float64, 1e-12), (torch.float32, 1e-6)]


def share_attention(ours: Attention, theirs: nn.MultiheadAttention) -> None:
    with torch.no_grad():
        parts = (ours.query, ours.key, ours.value)
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def share_layer(ours: Layer, theirs: nn.Module) -> None:
    share_attention(ours.attention, theirs.self_attn)
    norms = [ours.attention_norm, ours.feed_forward_norm]
    if ours.cross is not None:
        share_attention(ours.cross, theirs.multihead_attn)
        norms.insert(1, ours.cross_norm)
    for k, norm in enumerate(norms):
        getattr(theirs, f"norm{k + 1}").load_state_dict(norm.state_dict())
    theirs.linear1.load_state_dict(ours.feed_forward[0].state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward[2].state_dict())


def shake(module: nn.Module) -> None:
    """Norms and biases start at 1 and 0, where a mix-up would not be seen."""
    torch.manual_seed(1)
    with torch.no_grad():
        for w in module.parameters():
            w.add_(0.1 * torch.randn_like(w))


def draw(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(sum(shape)))


def apart(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).detach().abs().max())


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISION)
@pytest.mark.parametrize("masked", [False, True])
def test_attention_is_torchs(dtype, tolerance, masked):
    ours = Attention(D, H).to(dtype)
    shake(ours)
    theirs = nn.MultiheadAttention(D, H, batch_first=True, dtype=dtype)
    share_attention(ours, theirs)
    x, y, maps = draw(2, 7, D, dtype=dtype), draw(2, 9, D, dtype=dtype), []
    mask = draw(7, 9) > -0.5 if masked else None
    out = ours(x, y, mask, maps)
    want, weights = theirs(
        x, y, y, attn_mask=None if mask is None else ~mask, average_attn_weights=False
    )
    assert apart(out, want) < tolerance
    assert apart(maps[0], weights) < tolerance


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISION)
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("cross", [False, True])
def test_layer_is_torchs(dtype, tolerance, norm_first, cross):
    config = TransformerConfig(11, D, H, hidden=HIDDEN, norm_first=norm_first)
    ours = Layer(config, cross).to(dtype)
    shake(ours)
    kind = nn.TransformerDecoderLayer if cross else nn.TransformerEncoderLayer
    theirs = kind(D, H, HIDDEN, 0.0, batch_first=True, norm_first=norm_first, dtype=dtype)
    share_layer(ours, theirs)
    x, memory = draw(2, 7, D, dtype=dtype), draw(2, 5, D, dtype=dtype)
    mask = causal(7, x.device)
    out = ours(x, mask, memory, None, None)
    want = theirs(x, memory, tgt_mask=~mask) if cross else theirs(x, src_mask=~mask)
    assert apart(out, want) < tolerance


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISION)
@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_decoder_is_torchs(dtype, tolerance, norm_first):
    """The whole of Figure 1 at N = 6, h = 8, with a padded source."""
    config = TransformerConfig(11, D, H, 6, HIDDEN, norm_first=norm_first, padding=0)
    ours = EncoderDecoder(config).to(dtype)
    shake(ours)
    made = {"batch_first": True, "norm_first": norm_first, "dtype": dtype}
    # torch.nn puts a last norm behind post-norm layers too; the paper does not.
    last = (lambda: nn.LayerNorm(D, dtype=dtype)) if norm_first else (lambda: None)
    theirs = nn.Transformer(
        D,
        H,
        custom_encoder=nn.TransformerEncoder(
            nn.TransformerEncoderLayer(D, H, HIDDEN, 0.0, **made), 6, last(), False
        ),
        custom_decoder=nn.TransformerDecoder(
            nn.TransformerDecoderLayer(D, H, HIDDEN, 0.0, **made), 6, last()
        ),
        batch_first=True,
    )
    for mine, other in ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder)):
        for a, b in zip(mine.layers, other.layers, strict=True):
            share_layer(a, b)
        if norm_first:
            other.norm.load_state_dict(mine.norm.state_dict())
    source = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 0, 0]])
    target = torch.tensor([[1, 9, 3, 2], [1, 4, 4, 2]])
    trace = Trace()
    bound = ours.given(source)
    out = bound.forward_embeddings(bound.embed(target), trace=trace)
    padded = source == 0
    want = theirs(
        ours.embed(source) + sinusoids(5, D).to(dtype),
        ours.embed(target) + sinusoids(4, D).to(dtype),
        tgt_mask=~causal(4, source.device),
        src_key_padding_mask=padded,
        memory_key_padding_mask=padded,
    )
    # Relative to the largest entry: twelve layers in float32 round more than 1e−6 of 1.
    read = ours.unembed(want).log_softmax(-1)
    assert apart(trace.final, want) < tolerance * float(want.detach().abs().max())
    assert apart(out, read) < tolerance * float(read.detach().abs().max())


def test_base_model_has_the_papers_sizes():
    with torch.device("meta"):
        ours, theirs = EncoderDecoder(TransformerConfig(1)), nn.Transformer(batch_first=True)
    attention = ours.decoder.layers[5].cross
    assert (attention.heads, attention.beta) == (8, 1 / math.sqrt(512 / 8))
    count = sum(w.numel() for stack in (ours.encoder, ours.decoder) for w in stack.parameters())
    last_norms = 2 * 2 * 512
    assert count == sum(w.numel() for w in theirs.parameters()) - last_norms


def test_sinusoids_are_the_papers_formula():
    table = sinusoids(50, 6)
    for t in (0, 1, 49):
        for k in range(3):
            angle = t / 10000 ** (2 * k / 6)
            assert abs(float(table[t, 2 * k]) - math.sin(angle)) < 1e-12
            assert abs(float(table[t, 2 * k + 1]) - math.cos(angle)) < 1e-12


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
def test_no_place_sees_a_later_one(tied, norm_first):
    model = DecoderOnly(TransformerConfig(11, D, H, 3, HIDDEN, norm_first, tied)).double()
    e = draw(2, 6, D).requires_grad_()
    out = model.forward_embeddings(e)
    for t in range(6):
        seen = torch.autograd.grad(out[:, t].square().sum(), e, retain_graph=True)[0]
        assert (seen[:, t + 1 :] == 0).all()
        assert (seen[:, : t + 1].abs().amax((0, 2)) > 1e-8).all()


def test_encoder_sees_all_places_but_padding():
    model = EncoderDecoder(TransformerConfig(11, D, H, 2, HIDDEN, padding=0)).double()
    target = torch.tensor([[1, 2, 3]])
    short = model.given(torch.tensor([[4, 5, 6]])).log_probs(target)
    longer = model.given(torch.tensor([[4, 5, 6, 0, 0]])).log_probs(target)
    other = model.given(torch.tensor([[4, 5, 7]])).log_probs(target)
    assert apart(short, longer) < 1e-12
    assert apart(short, other) > 1e-4


def test_tied_layers_are_one_layer_applied_again_and_again():
    model = DecoderOnly(TransformerConfig(11, D, H, 3, HIDDEN, tied=True)).double()
    assert len(model.stack.layers) == 1
    e, trace = draw(2, 5, D), Trace()
    model.forward_embeddings(e, depth=7, trace=trace)
    x = e + sinusoids(5, D)
    for k in range(8):
        assert apart(trace.states[k], x) < 1e-12
        x = model.stack.layers[0](x, causal(5, x.device), None, None, None)
    trained = model.stack(e, causal(5, e.device))
    assert apart(trained, trace.states[3]) < 1e-12


def test_trace_holds_every_state_and_map():
    for norm_first in (False, True):
        model = EncoderDecoder(
            TransformerConfig(11, D, H, 3, HIDDEN, norm_first=norm_first)
        ).double()
        trace = Trace()
        source, target = torch.tensor([[1, 2, 3, 4, 5]]), torch.tensor([[1, 2, 3, 4]])
        bound = model.given(source)
        out = bound.forward_embeddings(bound.embed(target), trace=trace)
        assert [len(x) for x in (trace.states, trace.middles, trace.maps, trace.cross_maps)] == [
            4,
            3,
            3,
            3,
        ]
        assert trace.maps[0].shape == (1, H, 4, 4) and trace.cross_maps[0].shape == (1, H, 4, 5)
        for a in trace.maps + trace.cross_maps:
            assert apart(a.sum(-1), torch.ones(1)) < 1e-12
        assert (torch.stack(trace.maps).triu(1) == 0).all()
        assert apart(model.read(trace.final), out) == 0.0
        moved = apart(trace.final, trace.states[-1])
        assert moved > 0.1 if norm_first else moved == 0.0


def test_depth_and_seed_are_explicit():
    a, b, c = (DecoderOnly(SMALL, seed=s) for s in (3, 3, 4))
    assert all(map(torch.equal, a.parameters(), b.parameters()))
    assert not torch.equal(a.table.weight, c.table.weight)
    before = torch.random.get_rng_state()
    DecoderOnly(SMALL)
    assert torch.equal(before, torch.random.get_rng_state())
    x = draw(1, 4, D, dtype=torch.float32)
    assert apart(Stack(SMALL)(x, depth=0), x + sinusoids(4, D).float()) == 0.0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"heads": 5}, "width must be even and a multiple of heads"),
        ({"width": 9, "heads": 3}, "width must be even"),
        ({"layers": 0}, "layers must be an integer >= 1"),
        ({"dropout": 1.0}, "dropout must lie in"),
        ({"padding": 11}, "padding must be an id below 11"),
    ],
)
def test_config_refuses(change, said):
    with pytest.raises(ValueError, match=said):
        TransformerConfig(**({"vocabulary": 11, "width": D} | change))
