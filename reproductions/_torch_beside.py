"""Our networks beside those of torch.nn, with the same weights: what comes out, as NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from metastable.models.own.recurrent import Cell, Recurrent, RecurrentConfig
from metastable.models.own.transformer import (
    EncoderDecoder,
    Layer,
    Trace,
    TransformerConfig,
    causal,
    sinusoids,
)

__all__ = ["Beside", "recurrent_states", "transformer_beside"]

SOURCE = [[1, 2, 3, 4, 5, 7], [6, 7, 8, 9, 1, 3]]
TARGET = [[1, 9, 3, 2, 4], [1, 4, 4, 2, 8]]
IDS = 11


@dataclass(frozen=True, eq=False)
class Beside:
    """One pass through an encoder–decoder of ours and through torch.nn's; see its maker."""

    ours: np.ndarray  # log-probabilities (rows, n, ids)
    theirs: np.ndarray
    memory: np.ndarray  # what the encoder hands over, (rows, m, d)
    their_memory: np.ndarray
    by_layer: np.ndarray  # largest difference after each layer, encoder then decoder
    other_last: np.ndarray  # ours, with another last id of the target
    swapped: np.ndarray  # ours, each row looking at the other row's memory
    masked: list[np.ndarray]  # attention maps (rows, heads, n, m) of the decoder, layer by layer
    cross: list[np.ndarray]
    encoder: list[np.ndarray]


def transformer_beside(width: int, heads: int, layers: int, hidden: int, seed: int = 0) -> Beside:
    """An encoder–decoder of arXiv:1706.03762 in double precision, ours and torch.nn's.

    Norms and biases are moved from 1 and 0, where slips would hide.
    """
    torch.manual_seed(seed)
    ours = EncoderDecoder(TransformerConfig(IDS, width, heads, layers, hidden)).double()
    with torch.no_grad():
        for w in ours.parameters():
            w.add_(0.1 * torch.randn_like(w))
    made: dict[str, Any] = {"batch_first": True, "dtype": torch.float64}
    shape = width, heads, hidden, 0.0
    encoder = [nn.TransformerEncoderLayer(*shape, **made) for _ in range(layers)]
    decoder = [nn.TransformerDecoderLayer(*shape, **made) for _ in range(layers)]
    for stack, others in ((ours.encoder, encoder), (ours.decoder, decoder)):
        for mine, other in zip(stack.layers, others, strict=True):
            share_weights(mine, other)  # pyright: ignore[reportArgumentType]
    source, target = torch.tensor(SOURCE), torch.tensor(TARGET)
    places = lambda ids: ours.embed(ids) + sinusoids(ids.shape[1], width)
    read, written = Trace(), Trace()
    with torch.no_grad():
        memory = ours.encode(source, trace=read)
        bound = ours.given(source)
        out = bound.forward_embeddings(bound.embed(target), trace=written)
        apart, x = [], places(source)
        for layer, mine in zip(encoder, read.states[1:], strict=True):
            x = layer(x)
            apart.append(_far(x, mine))
        their_memory, x = x, places(target)
        hidden_places = ~causal(target.shape[1], target.device)
        for layer, mine in zip(decoder, written.states[1:], strict=True):
            x = layer(x, their_memory, tgt_mask=hidden_places)
            apart.append(_far(x, mine))
        theirs = ours.unembed(x).log_softmax(-1)
        changed = target.clone()
        changed[:, -1] = IDS - 1
        other_last = bound.forward_embeddings(bound.embed(changed))
        crossed = ours.given(source.flip(0))
        swapped = crossed.forward_embeddings(crossed.embed(target))
    return Beside(
        out.numpy(), theirs.numpy(), memory.numpy(), their_memory.numpy(), np.array(apart),
        other_last.numpy(), swapped.numpy(), _arrays(written.maps), _arrays(written.cross_maps),
        _arrays(read.maps),
    )  # fmt: skip


def share_weights(ours: Layer, theirs: Any) -> None:
    """Give a layer of torch.nn our weights."""
    pairs = [(ours.attention, theirs.self_attn)]
    norms: list[Any] = [ours.attention_norm, ours.feed_forward_norm]
    if ours.cross is not None:
        pairs.append((ours.cross, theirs.multihead_attn))
        norms.insert(1, ours.cross_norm)
    for mine, other in pairs:
        parts = (mine.query, mine.key, mine.value)
        with torch.no_grad():
            other.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
            other.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
        other.out_proj.load_state_dict(mine.output.state_dict())
    for k, norm in enumerate(norms):
        getattr(theirs, f"norm{k + 1}").load_state_dict(norm.state_dict())
    theirs.linear1.load_state_dict(ours.feed_forward[0].state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward[2].state_dict())


def recurrent_states(
    cell: Cell, inputs: np.ndarray, seed: int = 0, *, candidate_bias: bool = True
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Weights of a cell and its states (n, w) along inputs (n, d), from zero, in double precision.

    Weights: `W` of the inputs, `U` of the state, `b` and `c` added to each; gates are stacked in
    the order of torch.nn: i, f, candidate, o for "lstm"; r, z, candidate for "gru". Without
    `candidate_bias` an lstm's candidate memory has no offset.
    """
    model = Recurrent(RecurrentConfig(2, cell, inputs.shape[1]), seed).double()
    w = model.width
    with torch.no_grad():
        for bias in (model.cells.bias_ih_l0, model.cells.bias_hh_l0):
            bias.add_(0.3 * torch.randn(bias.shape, generator=torch.Generator().manual_seed(seed)))
            if not candidate_bias:
                bias[2 * w : 3 * w] = 0.0
        states = model.cells(torch.from_numpy(inputs)[None])[0][0]
    arrays = [one.detach().numpy() for one in model.cells.parameters()]
    return dict(zip("WUbc", arrays, strict=True)), states.numpy()


def _far(x: Tensor, y: Tensor) -> float:
    return float((x - y).abs().max())


def _arrays(maps: list[Tensor]) -> list[np.ndarray]:
    return [one.numpy() for one in maps]
