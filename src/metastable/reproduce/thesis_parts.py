"""The architecture drawn in the document: encoder and decoder, feed-forward network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.comparison.verdict import judge
from metastable.fields import FeedForward
from metastable.measures import Points
from metastable.numerics import jax, jnp
from metastable.reproduce.finding import Finding, holds

if TYPE_CHECKING:
    from metastable.models.transformer import Attention, Layer

__all__ = ["feedforward_network", "thesis_architecture"]


def thesis_architecture(*, width: int, heads: int, layers: int, hidden: int) -> Finding:
    """Our encoder and decoder against torch.nn's with the same weights, and what they must do."""
    import torch
    from torch import nn

    from metastable.models.transformer import (
        EncoderDecoder,
        Trace,
        TransformerConfig,
        causal,
        sinusoids,
    )
    from metastable.report.plots import draw_image

    torch.manual_seed(0)
    ours = EncoderDecoder(TransformerConfig(11, width, heads, layers, hidden)).double()
    with torch.no_grad():
        for w in ours.parameters():  # norms and biases start at 1 and 0, where slips hide
            w.add_(0.1 * torch.randn_like(w))
    made: dict[str, Any] = {"batch_first": True, "dtype": torch.float64}
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(width, heads, hidden, 0.0, **made), layers, None, False
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(width, heads, hidden, 0.0, **made), layers, None
    )
    for mine, other in ((ours.encoder, encoder), (ours.decoder, decoder)):
        for a, b in zip(mine.layers, other.layers, strict=True):
            _share(a, b)  # pyright: ignore[reportArgumentType]
    source = torch.tensor([[1, 2, 3, 4, 5, 7], [6, 7, 8, 9, 1, 3]])
    target = torch.tensor([[1, 9, 3, 2, 4], [1, 4, 4, 2, 8]])
    places = lambda ids: ours.embed(ids) + sinusoids(ids.shape[1], width)
    with torch.no_grad():
        trace, read = Trace(), Trace()
        memory = ours.encode(source, trace=read)
        bound = ours.given(source)
        out = bound.forward_embeddings(bound.embed(target), trace=trace)
        theirs = encoder(places(source))
        want = decoder(places(target), theirs, tgt_mask=~causal(target.shape[1], target.device))
        want = ours.unembed(want).log_softmax(-1)
        changed = target.clone()
        changed[:, -1] = 10
        later = bound.forward_embeddings(bound.embed(changed))
    size = float(want.abs().max())
    maps = [*trace.maps, *trace.cross_maps, *read.maps]
    rows = [
        judge(f"output probabilities of {layers} + {layers} layers against torch.nn, same weights",
              "Figure 1.1; vaswani2017attention", 0.0, float((out - want).abs().max()) / size,
              absolute=1e-10),
        judge("the encoder alone", "Figure 1.1, left", 0.0,
              float((memory - theirs).abs().max()), absolute=1e-10),
        judge("output probabilities sum to one: largest error", "Figure 1.1, top", 0.0,
              float((out.exp().sum(-1) - 1).abs().max()), absolute=1e-12),
        judge("the last target id changes nothing before it", "masked attention", 0.0,
              float((later - out)[:, :-1].abs().max()), absolute=1e-12),
        holds("attention maps: self and cross in the decoder, self in the encoder, rows sum to one",
              "Figure 1.1, modules", len(maps) == 3 * layers
              and all(float((m.sum(-1) - 1).abs().max()) < 1e-12 for m in maps),
              f"{3 * layers} maps", f"{len(maps)} maps"),
    ]  # fmt: skip
    shown = trace.maps[-1][0, 0].numpy()
    count = len(shown)
    figure = draw_image(
        shown[::-1], (0.5, count + 0.5, count + 0.5, 0.5), "place looked at", "place that looks",
        "attention", "Masked self-attention of one head in the last layer of the decoder.",
    )  # fmt: skip
    return Finding(rows, {"mask": figure})


def _share(ours: Layer, theirs: Any) -> None:
    """Give a layer of torch.nn our weights."""
    pairs = [(ours.attention, theirs.self_attn)]
    norms = [ours.attention_norm, ours.feed_forward_norm]
    if ours.cross is not None:
        pairs.append((ours.cross, theirs.multihead_attn))
        norms.insert(1, ours.cross_norm)
    for mine, other in pairs:
        _share_attention(mine, other)
    for k, norm in enumerate(norms):
        getattr(theirs, f"norm{k + 1}").load_state_dict(norm.state_dict())
    theirs.linear1.load_state_dict(ours.feed_forward[0].state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward[2].state_dict())


def _share_attention(ours: Attention, theirs: Any) -> None:
    import torch

    parts = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def feedforward_network(*, tokens: int, dim: int, seed: int) -> Finding:
    """A perceptron token by token against plain NumPy, for the three activations named."""
    from metastable.report.plots import draw_lines

    random = np.random.default_rng(seed)
    inner, outer = random.normal(size=(4 * dim, dim)), random.normal(size=(dim, 4 * dim)) / dim
    bias, x = random.normal(size=4 * dim), random.normal(size=(tokens, dim))
    kinds = {
        "ReLU": (jax.nn.relu, lambda z: np.maximum(0, z)),
        "sigmoid": (jax.nn.sigmoid, lambda z: 1 / (1 + np.exp(-z))),
        "tanh": (jnp.tanh, lambda z: (np.exp(z) - np.exp(-z)) / (np.exp(z) + np.exp(-z))),
    }
    off, mixed, bent = [], 0.0, []
    for ours, plain in kinds.values():
        field = FeedForward(outer, inner, bias, ours)
        moved = np.asarray(field.velocity(Points(x, on_sphere=False)))
        off.append(np.abs(moved - plain(x @ inner.T + bias) @ outer.T).max())
        other = x.copy()
        other[1:] = random.normal(size=(tokens - 1, dim))
        alone = np.asarray(field.velocity(Points(other, on_sphere=False)))
        mixed = max(mixed, np.abs(alone[0] - moved[0]).max())
        middle = np.asarray(field.velocity(Points((x[:1] + x[1:2]) / 2, on_sphere=False)))[0]
        bent.append(np.abs(middle - (moved[0] + moved[1]) / 2).max() / np.abs(moved).max())
    rows = [
        judge("max(0, xW_1 + b_1)W_2 and its kin against plain NumPy: largest error",
              "Figure 1.5, Definitions 1.2 and 1.3", 0.0, float(max(off)), absolute=1e-12),
        judge("other tokens change nothing", "section 1.3", 0.0, float(mixed), absolute=1e-14),
        holds("the map is not linear: value at a midpoint against the mean", "section 1.3",
              min(bent) > 1e-3, "differs", float(min(bent))),
    ]  # fmt: skip
    z = np.linspace(-4, 4, 161)
    figure = draw_lines(
        {name: (z, np.asarray(ours(jnp.asarray(z)))) for name, (ours, _) in kinds.items()}, "z",
        "activation", "The activations of our networks (lines) and their formulas (dashes).",
        theory={f"{name}, formula": (z, plain(z)) for name, (_, plain) in kinds.items()},
        lines=True,
    )  # fmt: skip
    return Finding(rows, {"activations": figure})
