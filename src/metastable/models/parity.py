"""Our encoder–decoder beside torch.nn's under the same weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from metastable.models.transformer import (
    Attention,
    EncoderDecoder,
    Layer,
    Trace,
    TransformerConfig,
    causal,
    sinusoids,
)

__all__ = ["Parity", "compare_with_torch"]


@dataclass(frozen=True)
class Parity:
    """Largest differences from torch.nn, and what was seen on the way.

    - `output`: of the log-probabilities, relative to the largest; `memory`: of the encoder.
    - `total`: of the sums of probabilities from 1.
    - `leak`: of all earlier outputs, when the last id of the target changes.
    - `maps`: attention of the decoder, of the decoder to the encoder, of the encoder, by layer.
    """

    output: float
    memory: float
    total: float
    leak: float
    maps: list[np.ndarray]


def compare_with_torch(
    width: int = 32, heads: int = 4, layers: int = 3, hidden: int = 48, seed: int = 0
) -> Parity:
    """Give torch.nn the weights of a random encoder–decoder and compare, in double precision.

    >>> compare_with_torch(8, 2, 1, 8).output < 1e-12
    True
    """
    random = torch.Generator().manual_seed(seed)
    ours = EncoderDecoder(TransformerConfig(11, width, heads, layers, hidden), seed).double()
    with torch.no_grad():
        for w in ours.parameters():  # norms and biases start at 1 and 0, where slips hide
            w.add_(0.1 * torch.randn(w.shape, dtype=w.dtype, generator=random))
    made: dict[str, Any] = {"batch_first": True, "dtype": torch.float64}
    # torch.nn.Transformer puts a last norm behind each stack; the paper does not.
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(width, heads, hidden, 0.0, **made), layers, None, False
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(width, heads, hidden, 0.0, **made), layers, None
    )
    for mine, other in ((ours.encoder, encoder), (ours.decoder, decoder)):
        for a, b in zip(mine.layers, other.layers, strict=True):
            assert isinstance(a, Layer)
            _share(a, b)
    source = torch.tensor([[1, 2, 3, 4, 5, 7], [6, 7, 8, 9, 1, 3]])
    target = torch.tensor([[1, 9, 3, 2, 4], [1, 4, 4, 2, 8]])
    changed = target.clone()
    changed[:, -1] = 10
    places = lambda ids: ours.embed(ids) + sinusoids(ids.shape[1], width)
    with torch.no_grad():
        wrote, read = Trace(), Trace()
        memory = ours.encode(source, trace=read)
        bound = ours.given(source)
        out = bound.forward_embeddings(bound.embed(target), trace=wrote)
        later = bound.forward_embeddings(bound.embed(changed))
        seen = encoder(places(source))
        mask = ~causal(target.shape[1], target.device)
        want = ours.unembed(decoder(places(target), seen, tgt_mask=mask)).log_softmax(-1)
    return Parity(
        output=float((out - want).abs().max() / want.abs().max()),
        memory=float((memory - seen).abs().max()),
        total=float((out.exp().sum(-1) - 1).abs().max()),
        leak=float((later - out)[:, :-1].abs().max()),
        maps=[m.numpy() for m in (*wrote.maps, *wrote.cross_maps, *read.maps)],
    )


def _share(ours: Layer, theirs: Any) -> None:
    """Give a layer of torch.nn our weights."""
    norms: list[nn.Module] = [ours.attention_norm, ours.feed_forward_norm]
    _share_attention(ours.attention, theirs.self_attn)
    if ours.cross is not None:
        _share_attention(ours.cross, theirs.multihead_attn)
        norms.insert(1, ours.cross_norm)
    for k, norm in enumerate(norms):
        getattr(theirs, f"norm{k + 1}").load_state_dict(norm.state_dict())
    theirs.linear1.load_state_dict(ours.feed_forward[0].state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward[2].state_dict())


def _share_attention(ours: Attention, theirs: Any) -> None:
    parts = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())
